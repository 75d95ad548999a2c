"""Every move, and every sampler, against the enumerated posterior."""

from __future__ import annotations

import numpy as np
import pytest
from exact import ExactPosterior, few_points, fixed

from clusterwise.dp.anchored import draw_anchors, split_or_merge
from clusterwise.dp.chain import step
from clusterwise.dp.convergence import effective_sample_size
from clusterwise.dp.gibbs import gibbs_sweep
from clusterwise.dp.sweep import sweep

COVARIANCES = ("full", "diag", "spherical")


def anchored_moves(rng, rows, state, prior):
    for _ in range(3):
        state = split_or_merge(rng, rows, state, prior, draw_anchors(rng, rows))
    return state


MOVES = {"sweep": sweep, "anchored": anchored_moves, "gibbs": gibbs_sweep}


@pytest.mark.parametrize("covariance_type", COVARIANCES)
@pytest.mark.parametrize("move", MOVES)
def test_move_leaves_the_posterior_unchanged(move, covariance_type):
    """Draws from the posterior, moved once, are independent draws from the posterior."""
    exact = ExactPosterior(few_points(5, 2), *fixed(covariance_type, 2))
    rng = np.random.default_rng([5, COVARIANCES.index(covariance_type)])
    visits = np.zeros(len(exact.partitions))
    n_moved = 0
    for _ in range(1800):
        before = exact.draw(rng)
        after = MOVES[move](rng, exact.rows, before, exact.prior)
        n_moved += exact.number(before) != exact.number(after)
        visits[exact.number(after)] += 1
    assert n_moved > 180  # a move that never moves would pass
    assert exact.total_variation(visits) < exact.noise(visits.sum(), rng)


@pytest.mark.parametrize(("sampler", "n_draws"), [("split-merge", 1500), ("gibbs", 1500)])
def test_sampler_finds_the_posterior_from_one_cluster(sampler, n_draws):
    """Seven points, all 877 partitions; the tolerance counts the draws that the chain is worth."""
    exact = ExactPosterior(few_points(7, 2), *fixed("full", 2))
    rng = np.random.default_rng(11)
    state = exact.state((0,) * 7)
    path = []
    for _ in range(n_draws):
        state = step(rng, exact.rows, state, exact.hyper_prior, sampler)
        path.append(exact.number(state))
    visits = np.bincount(path, minlength=len(exact.partitions))
    likely = np.argsort(-exact.probabilities)[:20]
    worth = min(effective_sample_size((np.array(path) == i)[None].astype(float)) for i in likely)
    assert worth > 70
    assert exact.total_variation(visits) < exact.noise(worth, rng)
