"""Tables of the broad prior are valid, repeatable and as varied as they should be."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from clusterwise.exceptions import RecipeError
from clusterwise.priors.broad import NOISE, BroadPrior, LabelledTable
from clusterwise.priors.broad.arrangements import ARRANGEMENTS

N_TABLES = 800


@cache
def drawn() -> list[LabelledTable]:
    prior = BroadPrior()
    return [prior.draw_table(np.random.default_rng(seed)) for seed in range(N_TABLES)]


def share(of: list[bool]) -> float:
    return float(np.mean(of))


def test_labels_are_in_use_and_no_cluster_is_tiny() -> None:
    for table in drawn():
        assert table.labels.shape == (len(table.points),)
        assert table.labels.min() >= NOISE
        assert np.bincount(table.labels[table.labels >= 0]).min() >= 3


def test_points_are_finite() -> None:
    assert all(np.isfinite(table.points).all() for table in drawn())


def test_one_seed_gives_one_table() -> None:
    prior = BroadPrior()
    for seed in range(0, N_TABLES, 40):
        again, first = prior.draw_table(np.random.default_rng(seed)), drawn()[seed]
        np.testing.assert_array_equal(again.points, first.points)
        np.testing.assert_array_equal(again.labels, first.labels)
        assert again.kind == first.kind


def test_rows_are_log_uniform_in_the_range() -> None:
    n = np.array([len(table.points) for table in drawn()])
    assert n.min() >= 60
    assert n.max() <= 2000
    middle = np.sqrt(60 * 2000)
    assert abs(np.mean(n < middle) - 0.5) < 0.06


def test_shares_of_cluster_counts() -> None:
    k = [table.n_clusters for table in drawn()]
    assert 0.09 < share([j == 1 for j in k]) < 0.16
    enough = [j > 15 for j, table in zip(k, drawn(), strict=True) if len(table.points) >= 8 * 16]
    assert 0.15 < share(enough) < 0.30
    assert 60 < max(k) <= 100


def test_shares_of_feature_counts() -> None:
    d = [table.points.shape[1] for table in drawn()]
    assert 0.02 < share([j == 1 for j in d]) < 0.09
    assert 0.29 < share([j == 2 for j in d]) < 0.41
    assert 0.29 < share([3 <= j <= 16 for j in d]) < 0.41
    assert max(d) <= 128
    assert max(table.points.shape[1] for table in drawn() if table.kind != "embedding") <= 64


def test_noise_is_in_some_tables_and_never_in_most_rows() -> None:
    noise = [float(np.mean(table.labels == NOISE)) for table in drawn()]
    assert 0.1 < share([part > 0 for part in noise]) < 0.4
    assert max(noise) < 0.13


def test_all_kinds_appear() -> None:
    kinds = {table.kind for table in drawn()}
    assert {"single", "mixture", "gaussians", "grid", "densities", "embedding"} <= kinds
    assert len(kinds & set(ARRANGEMENTS)) >= len(ARRANGEMENTS) - 3  # some are rare


def test_rows_are_in_no_order() -> None:
    """Labels of neighbouring rows agree no more often than those of any two rows."""
    excess = []
    for table in drawn():
        shares = np.bincount(table.labels + 1) / len(table.labels)
        excess.append(np.mean(table.labels[1:] == table.labels[:-1]) - np.sum(shares**2))
    assert abs(np.mean(excess)) < 0.005


@pytest.mark.parametrize("n_rows", [20, 61, 3000])
def test_number_of_rows_can_be_forced(n_rows: int) -> None:
    for seed in range(20):
        assert len(BroadPrior().draw_table(np.random.default_rng(seed), n_rows).points) == n_rows


def test_limits_are_kept() -> None:
    prior = BroadPrior(most_rows=100, most_features=3, most_embedding_features=5, most_clusters=4)
    for seed in range(200):
        table = prior.draw_table(np.random.default_rng(seed))
        assert len(table.points) <= 100
        assert table.points.shape[1] <= (5 if table.kind == "embedding" else 3)
        assert table.n_clusters <= 4


def test_bad_options_are_refused() -> None:
    with pytest.raises(RecipeError, match="most_clusters"):
        BroadPrior(most_clusters=0)
    with pytest.raises(RecipeError, match="least_rows"):
        BroadPrior(least_rows=100, most_rows=50)
    with pytest.raises(RecipeError, match="at least 20 rows"):
        BroadPrior().draw_table(np.random.default_rng(0), n_rows=5)


def test_uneven_tables_have_tiny_clusters() -> None:
    def smallest(prior: BroadPrior) -> float:
        """Share of tables in which a cluster has less than a twentieth of the mean size."""
        tables = [prior.draw_table(np.random.default_rng([3, i]), 1000) for i in range(150)]
        some = [np.bincount(t.labels[t.labels >= 0]) for t in tables if 2 <= t.n_clusters <= 8]
        return share([bool(n.min() < n.mean() / 20) for n in some])

    assert smallest(BroadPrior()) < 0.02
    assert smallest(BroadPrior(uneven=1.0)) > 0.05
