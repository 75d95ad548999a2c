"""What every prior promises: shapes, seeds, one law for batches and single draws, an oracle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import ks_2samp

from clusterwise.priors import PRIORS, LabelledSet, make_prior

N_DIMENSIONS = [(name, d) for name in ("mixture-of-gaussians", "crp-mixture") for d in (1, 2, 3, 7)]
N_DIMENSIONS.append(("warped-gaussians", 2))


@pytest.mark.parametrize(("name", "n_features"), N_DIMENSIONS)
def test_shapes_in_every_dimension(name: str, n_features: int) -> None:
    batch = make_prior(name, n_features=n_features).draw(np.random.default_rng(0), 5, 11)
    assert len(batch) == len(batch.components) == 5
    assert batch.points.shape == (5, 11, n_features)
    assert batch.labels.shape == (5, 11)
    assert np.issubdtype(batch.labels.dtype, np.integer)
    for index in range(5):
        joint = batch.components[index].log_joint(batch.points[index])
        assert joint.shape[0] == 11
        assert 0 <= batch.labels[index].min() <= batch.labels[index].max() < joint.shape[1]


@pytest.mark.parametrize("name", PRIORS)
def test_one_point(name: str) -> None:
    drawn = make_prior(name).draw_set(np.random.default_rng(3), 1)
    assert drawn.points.shape == (1, 2)
    assert drawn.n_clusters == 1
    assert np.isfinite(drawn.oracle_log_likelihood())


@pytest.mark.parametrize("name", PRIORS)
def test_seed_decides_the_draw(name: str) -> None:
    prior = make_prior(name)
    first, again, other = (prior.draw(np.random.default_rng(seed), 4, 20) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.points, again.points)
    np.testing.assert_array_equal(first.labels, again.labels)
    for index in range(4):
        np.testing.assert_array_equal(
            first.components[index].log_joint(first.points[index]),
            again.components[index].log_joint(again.points[index]),
        )
    assert not np.isin(other.points, first.points).any()


@pytest.mark.parametrize("name", PRIORS)
def test_sets_of_a_batch_differ(name: str) -> None:
    points = make_prior(name).draw(np.random.default_rng(0), 6, 3).points
    assert len(np.unique(points)) == points.size


def summaries(drawn: LabelledSet) -> tuple[float, float, float]:
    """Number of clusters, largest proportion, log spread of the points."""
    _, sizes = np.unique(drawn.labels, return_counts=True)
    return len(sizes), sizes.max() / sizes.sum(), float(np.log(drawn.points.var(axis=0).sum()))


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, {}) for name in PRIORS] + [("crp-mixture", {"k_exact": 3}), ("crp-mixture", {"alpha": 2.0})],
)
def test_batch_has_the_law_of_single_draws(name: str, options: dict[str, float]) -> None:
    prior = make_prior(name, **options)
    batch = prior.draw(np.random.default_rng(10), 1000, 25)
    batched = np.array([summaries(batch[index]) for index in range(1000)])
    rng = np.random.default_rng(11)
    single = np.array([summaries(prior.draw_set(rng, 25)) for _ in range(1000)])
    for column in range(3):
        assert ks_2samp(batched[:, column], single[:, column], method="asymp").pvalue > 1e-4


@pytest.mark.parametrize("name", PRIORS)
def test_oracle_posterior_is_calibrated(name: str) -> None:
    """The oracle's labels are right as often as its densities say."""
    batch = make_prior(name).draw(np.random.default_rng(5), 200, 50)
    hits, expected, variance = 0.0, 0.0, 0.0
    for index in range(200):
        joint = batch.components[index].log_joint(batch.points[index])
        best = np.exp((joint - logsumexp(joint, axis=1, keepdims=True)).max(axis=1))
        hits += (batch[index].oracle_labels() == batch.labels[index]).sum()
        expected += best.sum()
        variance += (best * (1 - best)).sum()
    assert abs(hits - expected) < 4.5 * np.sqrt(variance)


def test_set_and_batch_agree() -> None:
    batch = make_prior("mixture-of-gaussians").draw(np.random.default_rng(0), 3, 10)
    drawn = batch[2]
    np.testing.assert_array_equal(drawn.points, batch.points[2])
    joint = batch.components[2].log_joint(batch.points[2])
    assert drawn.oracle_log_likelihood() == pytest.approx(np.log(np.exp(joint).sum(axis=1)).mean())
    assert drawn.n_clusters == len(set(batch.labels[2].tolist()))
