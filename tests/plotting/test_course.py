"""The path, one panel per step, and K over the epochs of a fit."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from clusterwise.deepdpm.method import History
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting import HistoryDisplay, StepsDisplay, cluster_colours


def test_a_panel_per_step_in_the_colour_of_the_cluster(make_fitted):
    estimator, X = make_fitted(3)
    display = StepsDisplay.from_estimator(estimator, X)
    assert [ax.get_title() for ax in display.axes_] == ["1: 40 points", "2: 40 points", "3: 40 points"]
    for ax, label in zip(display.axes_, [2, 1, 0], strict=True):
        members = ax.collections[-1]
        assert to_hex(members.get_facecolors()[0]) == cluster_colours(3)[label].lower()
        np.testing.assert_array_equal(
            np.sort(members.get_offsets(), axis=0), np.sort(X[estimator.labels_ == label], axis=0)
        )
    display.figure_.canvas.draw()


def test_what_is_taken_is_not_left(make_fitted):
    estimator, X = make_fitted(3)
    counts = [
        [len(layer.get_offsets()) for layer in ax.collections]
        for ax in StepsDisplay.from_estimator(estimator, X).axes_
    ]
    assert counts == [[0, 80, 40], [40, 40, 40], [80, 0, 40]]


def test_anchors_are_marked_where_there_are_any(make_fitted):
    estimator, X = make_fitted(3)
    marked = [ax.get_lines() for ax in StepsDisplay.from_estimator(estimator, X).axes_]
    assert [len(lines) for lines in marked] == [1, 1, 0]
    np.testing.assert_array_equal(marked[0][0].get_xydata()[0], X[80])


def test_many_steps_end_in_a_count(make_fitted):
    estimator, X = make_fitted(30)
    display = StepsDisplay.from_estimator(estimator, X, max_panels=10)
    assert len(display.axes_) == 10
    assert display.axes_[-1].get_xlabel() == "and 20 more steps"


def test_rows_that_the_network_did_not_see_are_not_drawn(make_fitted):
    estimator, X = make_fitted(2)
    seen = np.arange(80) % 2 == 0
    for step in estimator.steps_:
        step.members &= seen
    for ax in StepsDisplay.from_estimator(estimator, X).axes_:
        assert sum(len(layer.get_offsets()) for layer in ax.collections) == 40


def test_methods_without_steps_say_so(make_fitted):
    estimator, X = make_fitted(2)
    estimator.steps_ = ()
    with pytest.raises(ClusterwiseError, match="all clusters at once"):
        StepsDisplay.from_estimator(estimator, X)


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
