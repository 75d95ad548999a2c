"""Mergers: moments of unions, and gains against a slow evaluation of both partitions."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.polish.em import refined
from clusterwise.polish.evidence import Data, average, judge, log_marginals, log_partition, log_sizes
from clusterwise.polish.mergers import gains_of_mergers, merged


def chain(k: int, apart: float, seed: int = 0) -> tuple[Data, np.ndarray]:
    """Clusters in a row, and soft memberships of them."""
    rng = np.random.default_rng(seed)
    labels = np.arange(40 * k) % k
    points = rng.standard_normal((40 * k, 2)) + apart * labels[:, None]
    data = Data(points / np.sqrt(np.square(points - points.mean(axis=0)).mean()))
    return data, np.eye(k)[labels].T.copy()


@pytest.mark.parametrize("k", [2, 4])
def test_gains_are_differences_of_evidence_at_the_same_hyper_parameters(k: int) -> None:
    data, memberships = chain(k, 1.0)
    state = refined(data, judge(data, memberships, 0.0), 2)

    def value(memberships: np.ndarray) -> float:
        moments = data.moments(memberships)
        entropy = -(memberships * np.log(np.maximum(memberships, 1e-300))).sum()
        sizes = log_partition(log_sizes(moments.counts).sum(axis=1), len(memberships), len(data.points))
        return float(average(log_marginals(moments, state.hyper).sum(axis=1)) + sizes + entropy)

    pairs, gains = gains_of_mergers(state)
    assert value(state.memberships) == pytest.approx(state.log_evidence, abs=1e-6)
    for (i, j), gain in zip(pairs, gains, strict=True):
        union = np.delete(state.memberships, j, axis=0)
        union[i] = state.memberships[i] + state.memberships[j]
        if gain > -15:  # hopeless pairs come with a bound
            assert gain == pytest.approx(value(union) - value(state.memberships), abs=1e-6)
        else:
            assert gain >= value(union) - value(state.memberships) - 1e-6


def test_merged_memberships_add_up_and_entropy_is_theirs() -> None:
    data, memberships = chain(4, 1.0)
    state = refined(data, judge(data, memberships, 0.0), 2)
    union = merged(data, state, [np.array([0, 1]), np.array([2, 3])])
    np.testing.assert_allclose(union.memberships[0], state.memberships[0] + state.memberships[1])
    np.testing.assert_allclose(union.memberships.sum(axis=0), 1.0)
    entropy = -(union.memberships * np.log(np.maximum(union.memberships, 1e-300))).sum()
    assert union.entropy == pytest.approx(entropy, abs=1e-6)


def test_halves_of_one_gaussian_gain_by_merging_and_clusters_apart_do_not() -> None:
    data, memberships = chain(2, 0.0)
    assert gains_of_mergers(judge(data, memberships, 0.0))[1].max() > 0
    data, memberships = chain(2, 8.0)
    assert gains_of_mergers(judge(data, memberships, 0.0))[1].max() < -100
