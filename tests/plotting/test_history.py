"""K over the epochs."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.deepdpm.net_training import History
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting import HistoryDisplay


@pytest.fixture
def history() -> History:
    return History([1, 1, 2, 4, 4, 3], [0.0, 0.0, 0.4, 0.3, 0.2, 0.1], [0, 1, 2, 0, 0, 0], [0, 0, 0, 0, 1, 0])


def test_clusters_moves_and_loss(history: History) -> None:
    display = HistoryDisplay(history).plot()
    above, below = display.axes_
    assert above.lines[0].get_ydata().tolist() == history.n_clusters
    splits, merges = (points.get_offsets().tolist() for points in above.collections)
    assert splits == [[2.0, 1.0], [3.0, 2.0]]
    assert merges == [[5.0, 4.0]]
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["splits: 3", "merges: 1"]
    np.testing.assert_array_equal(below.lines[0].get_ydata(), history.loss)
    display.figure_.canvas.draw()


def test_from_estimator_on_given_axes(make_fitted, history: History) -> None:
    import matplotlib.pyplot as plt

    estimator, _ = make_fitted(3)
    with pytest.raises(ClusterwiseError, match="has no history"):
        HistoryDisplay.from_estimator(estimator)
    estimator.history_ = history
    figure, axes = plt.subplots(2)
    display = HistoryDisplay.from_estimator(estimator, axes=tuple(axes))
    assert display.figure_ is figure
    assert display.axes_ == tuple(axes)
