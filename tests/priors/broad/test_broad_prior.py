"""Tables of the broad prior are valid, repeatable and as varied as they should be."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

from clusterwise.exceptions import RecipeError
from clusterwise.priors.broad import NOISE, BroadPrior, LabelledTable
from clusterwise.priors.broad.arrangements import ARRANGEMENTS
from clusterwise.priors.broad.centred import draw_plain
from clusterwise.priors.broad.fields import FIELDS, draw_field
from clusterwise.priors.broad.labelled_table import link_counts, neighbour_purity
from clusterwise.priors.broad.manifolds import draw_hierarchy

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


def test_noise_is_in_some_tables_and_never_in_max_rows() -> None:
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
    prior = BroadPrior(max_rows=100, max_features=3, max_embedding_features=5, max_clusters=4)
    for seed in range(200):
        table = prior.draw_table(np.random.default_rng(seed))
        assert len(table.points) <= 100
        assert table.points.shape[1] <= (5 if table.kind == "embedding" else 3)
        assert table.n_clusters <= 4


def test_bad_options_are_refused() -> None:
    with pytest.raises(RecipeError, match="max_clusters"):
        BroadPrior(max_clusters=0)
    with pytest.raises(RecipeError, match="min_rows"):
        BroadPrior(min_rows=100, max_rows=50)
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


@pytest.mark.parametrize("part", ["plain", "hierarchies", "fields"])
def test_shares_of_parts(part: str) -> None:
    prior = BroadPrior(**{part: 0.5})  # type: ignore[arg-type]
    names = {"plain": {"plain"}, "hierarchies": {"hierarchy"}, "fields": set(FIELDS)}[part]
    tables = [prior.draw_table(np.random.default_rng([1, i]), 60) for i in range(150)]
    own = [table for table in tables if table.kind in names]
    assert 0.5 - 4.5 * 0.041 < len(own) / 150 < 0.5 + 4.5 * 0.041
    for table in own:
        assert np.array_equal(np.unique(table.labels), np.arange(table.n_clusters))
        assert part != "hierarchies" or 10 <= table.points.shape[1] <= 128


def test_sizes_of_plain_tables_reach_from_a_handful_to_hundreds() -> None:
    drawn = [draw_plain(np.random.default_rng(seed), 600) for seed in range(150)]
    counts = [np.bincount(labels) for _, labels in drawn]
    assert all(len(points) == len(labels) == 600 for points, labels in drawn)
    assert all(count.min() >= 3 for count in counts)
    assert any(count.min() <= 6 and count.max() >= 300 for count in counts)
    assert any(len(count) == 1 for count in counts)
    assert max(map(len, counts)) > 10
    assert all((np.diff(labels) >= 0).all() and points.shape[1] <= 8 for points, labels in drawn)


def test_neighbours_tell_the_classes_of_hierarchies() -> None:
    clear = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        points, labels = draw_hierarchy(rng, 500, 20)
        assert points.shape == (500, 20) and np.isfinite(points).all()
        assert (np.diff(labels) >= 0).all()
        k = int(labels.max()) + 1
        if k > 1:
            clear.append(neighbour_purity(link_counts(rng, points, labels, k)))
    assert np.mean(np.array(clear) > 0.4) > 0.9


@pytest.fixture(scope="module")
def fields() -> list[LabelledTable]:
    return [draw_field(np.random.default_rng([3, i]), 120) for i in range(150)]


def test_every_kind_occurs_of_field_and_is_finite_with_labels_in_use(fields: list[LabelledTable]) -> None:
    assert set(Counter(table.kind for table in fields)) == set(FIELDS)
    for table in fields:
        assert np.isfinite(table.points).all() and table.points.shape[0] == len(table.labels)
        assert set(table.labels.tolist()) == set(range(table.n_clusters))


def test_categories_are_whole_numbers_and_come_as_frames(fields: list[LabelledTable]) -> None:
    with_words = [table for table in fields if table.categories]
    assert {table.kind for table in with_words} == {"categories", "mixed"}
    for table in with_words:
        words = table.points[:, list(table.categories)]
        assert table.framed and (words == np.round(words)).all()


def test_clusters_of_categories_differ_in_their_levels(fields: list[LabelledTable]) -> None:
    """Rows of one cluster share more answers than rows of two."""
    for table in fields:
        if table.kind != "categories" or table.n_clusters == 1:
            continue
        alike = (table.points[:, None] == table.points[None]).mean(axis=2)
        same = table.labels[:, None] == table.labels
        np.fill_diagonal(same, False)
        assert alike[same].mean() > alike[table.labels[:, None] != table.labels].mean()
