"""Bars of P(K), and K over the epochs of a fit."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from clusterwise.deepdpm.net_training import History
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting import HistoryDisplay, KPosteriorDisplay
from clusterwise.plotting.palette import BASE


def test_heights_and_the_chosen_number(make_fitted):
    estimator, _ = make_fitted(3)
    display = KPosteriorDisplay.from_estimator(estimator)
    bars = {round(bar.get_x() + bar.get_width() / 2): bar for bar in display.ax_.patches}
    assert {k: bar.get_height() for k, bar in bars.items()} == {1: 0, 2: 0.25, 3: 0.7, 4: 0, 5: 0.05, 6: 0}
    assert [k for k, bar in bars.items() if to_hex(bar.get_facecolor()) == BASE[0].lower()] == [3]
    display.figure_.canvas.draw()


def test_which_numbers_have_bars():
    improbable = KPosteriorDisplay(dict.fromkeys(range(1, 90), 1e-06) | {7: 0.9}).plot()
    assert len(improbable.ax_.patches) == 3
    chosen_elsewhere = KPosteriorDisplay({2: 1.0}, n_clusters=4).plot()
    assert {round(bar.get_x() + 0.375) for bar in chosen_elsewhere.ax_.patches} == {1, 2, 3, 4, 5}
    posterior = {k: 0.3 if k in (4, 9) else 0.4 / 12 for k in range(1, 15)}
    many = KPosteriorDisplay(posterior, n_clusters=6).plot()  # only the tallest have their figures
    assert sorted(text.get_text() for text in many.ax_.texts) == ["0.03", "0.30", "0.30"]


def test_history(make_fitted) -> None:
    estimator, _ = make_fitted(3)
    with pytest.raises(ClusterwiseError, match="has no history"):
        HistoryDisplay.from_estimator(estimator)
    moves = [0, 1, 2, 0, 0, 0], [0, 0, 0, 0, 1, 0]
    history = History([1, 1, 2, 4, 4, 3], [0.0, 0.0, 0.4, 0.3, 0.2, 0.1], *moves)
    estimator.history_ = history
    figure, axes = plt.subplots(2)
    display = HistoryDisplay.from_estimator(estimator, axes=tuple(axes))
    above, below = display.axes_
    assert (display.figure_, above, below) == (figure, *axes)
    assert above.lines[0].get_ydata().tolist() == history.n_clusters
    splits, merges = (points.get_offsets().tolist() for points in above.collections)
    assert splits == [[2.0, 1.0], [3.0, 2.0]]
    assert merges == [[5.0, 4.0]]
    assert [text.get_text() for text in above.get_legend().get_texts()] == ["splits: 3", "merges: 1"]
    np.testing.assert_array_equal(below.lines[0].get_ydata(), history.loss)
    HistoryDisplay(history).plot().figure_.canvas.draw()
