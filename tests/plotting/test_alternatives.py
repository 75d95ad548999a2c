"""Bars of P(K), and the tree with a frame for each cluster."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_hex

import clusterwise as cw
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting import KPosteriorDisplay
from clusterwise.plotting.alternatives import chains_of
from clusterwise.plotting.plane import BASE


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


def test_a_frame_for_each_cluster() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) + 9 * np.eye(3)[rng.integers(0, 3, 200)]
    est = cw.Clusterer().fit(X)
    display = cw.plotting.TreeDisplay.from_estimator(est)
    frames = [patch for patch in display.ax_.patches if not patch.get_fill()]
    assert len(frames) == est.n_clusters_ == 3
    assert sum(frame.get_width() for frame in frames) == pytest.approx(1, abs=0.05)


def test_chains_hold_the_rows_of_those_that_branch_off() -> None:
    X = np.random.default_rng(1).standard_normal((150, 2))
    tree = cw.Clusterer().fit(X).tree_
    chains = chains_of(tree.scored.branches)
    assert chains[0].start == 0 and chains[0].end == 1
    for chain in chains[1:]:
        parent = chains[chain.parent]
        assert parent.start <= chain.start < chain.end <= parent.end
        assert chain.depth == parent.depth + 1


def test_estimators_without_a_tree() -> None:
    with pytest.raises(ClusterwiseError, match="no tree"):
        cw.plotting.TreeDisplay.from_estimator(
            cw.GaussianSearch().fit(np.random.default_rng(0).random((20, 2)))
        )
