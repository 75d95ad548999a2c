"""Plain mixtures are Gaussian clusters of very unequal sizes, and clusters in one place are one."""

from __future__ import annotations

import numpy as np

from clusterwise.priors.broad import BroadPrior
from clusterwise.priors.broad.plain import draw_plain


def test_sizes_reach_from_a_handful_to_hundreds() -> None:
    drawn = [draw_plain(np.random.default_rng(seed), 600) for seed in range(150)]
    counts = [np.bincount(labels) for _, labels in drawn]
    assert all(len(points) == len(labels) == 600 for points, labels in drawn)
    assert all(count.min() >= 3 for count in counts)
    assert any(count.min() <= 6 and count.max() >= 300 for count in counts)
    assert any(len(count) == 1 for count in counts)
    assert max(map(len, counts)) > 10


def test_labels_are_sorted_and_features_few() -> None:
    for seed in range(30):
        points, labels = draw_plain(np.random.default_rng(seed), 60)
        assert (np.diff(labels) >= 0).all()
        assert 1 <= points.shape[1] <= 8


def test_share_of_plain_tables() -> None:
    prior = BroadPrior(plain=0.5)
    kinds = [prior.draw_table(np.random.default_rng(seed), 80).kind for seed in range(120)]
    assert 0.35 < np.mean([kind == "plain" for kind in kinds]) < 0.65
