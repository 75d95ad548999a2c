"""Many rows in many clusters: neighbourhoods, and clusters that a border has cut in two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clusterwise.affine import fit_feature_map
from clusterwise.fitting.propose import Proposal
from clusterwise.papers.contexts import ContextsPipeline, neighbourhoods, united
from clusterwise.partition import canonical_labels


def groups(k: int, each: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(k), each)
    return rng.normal(size=(k, 6))[y] * 3 + 0.05 * rng.normal(size=(len(y), 6)), y


class Rounder:
    """A proposer that needs several rows of a cluster to tell it: single ones are all alike to it."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[Proposal]:
        found = []
        for points in sets:
            self.sizes.append(len(points))
            near = np.square(points[:, None] - points).sum(-1) < 0.5
            labels = canonical_labels(near.argmax(axis=1))
            found.append(Proposal((labels,), np.ones(1)))
        return found


def test_neighbourhoods_have_at_most_so_many_rows_and_cover_all() -> None:
    X, _ = groups(20, 30)
    parts = neighbourhoods(X, 100, 0)
    sizes = np.bincount(parts)
    assert sizes.max() <= 100
    assert sizes.sum() == 600
    assert (sizes > 0).all()
    assert np.bincount(neighbourhoods(np.zeros((50, 2)), 20, 0)).max() <= 20  # rows that are all alike


def test_clusters_cut_in_two_are_united_and_others_are_not() -> None:
    X, y = groups(12, 20)
    parts = np.arange(len(y)) % 2
    cut = y * 2 + parts  # every cluster in two parts
    assert adjusted_rand_score(y, united(X, cut, parts, "spherical")) == 1.0
    alone = united(X, cut, np.zeros(len(y), dtype=np.int64), "spherical")
    assert adjusted_rand_score(cut, alone) == 1.0  # one network saw both halves and told them apart
    assert len(np.unique(united(X, cut, parts, "spherical", max_clusters=5))) <= 5


def pipeline(proposer: Rounder, max_shown: int, **options: int) -> ContextsPipeline:
    return ContextsPipeline(
        lambda points: fit_feature_map(points, 6),
        proposer,
        how=None,
        covariance_type="spherical",
        max_shown=max_shown,
        most_at_once=max_shown,
        **options,  # type: ignore[arg-type]
    )


def test_few_clusters_are_told_by_a_sample() -> None:
    X, y = groups(4, 100)
    proposer = Rounder()
    stages = pipeline(proposer, 100)
    prepared = stages.prepare(X, 0)
    (proposal,) = stages.propose([prepared], 0)
    assert len(prepared.shown) == 100
    assert adjusted_rand_score(y, stages.describe(prepared, proposal, None).labels) == 1.0


def test_many_clusters_take_all_rows_in_neighbourhoods() -> None:
    X, y = groups(60, 10)
    proposer = Rounder()
    stages = pipeline(proposer, 100)
    prepared = stages.prepare(X, 0)
    (proposal,) = stages.propose([prepared], 0)
    assert len(prepared.shown) == 600
    assert max(proposer.sizes) <= 100
    assert adjusted_rand_score(y, stages.describe(prepared, proposal, None).labels) > 0.95
    (capped,) = pipeline(proposer, 100, max_clusters=20).propose([prepared], 0)
    assert capped.cap_reached
    assert capped.candidates[0].max() + 1 <= 20
