from __future__ import annotations

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.clusterer.condensed import stems_of
from clusterwise.exceptions import ClusterwiseError


def test_a_frame_for_each_cluster() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3)) + 9 * np.eye(3)[rng.integers(0, 3, 200)]
    est = cw.Clusterer().fit(X)
    display = cw.plotting.TreeDisplay.from_estimator(est)
    frames = [patch for patch in display.ax_.patches if not patch.get_fill()]
    assert len(frames) == est.n_clusters_ == 3
    assert sum(frame.get_width() for frame in frames) == pytest.approx(1, abs=0.05)


def test_stems_hold_the_rows_of_those_that_branch_off() -> None:
    X = np.random.default_rng(1).standard_normal((150, 2))
    tree = cw.Clusterer().fit(X).tree_
    stems = stems_of(tree.nodes)
    assert stems[0].start == 0 and stems[0].end == 1
    for stem in stems[1:]:
        parent = stems[stem.parent]
        assert parent.start <= stem.start < stem.end <= parent.end
        assert stem.depth == parent.depth + 1


def test_estimators_without_a_tree() -> None:
    with pytest.raises(ClusterwiseError, match="no tree"):
        cw.plotting.TreeDisplay.from_estimator(
            cw.GaussianSearch().fit(np.random.default_rng(0).random((20, 2)))
        )
