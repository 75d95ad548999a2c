"""Tests of the tables as they come from the fields."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from clusterwise.priors.broad import BroadPrior
from clusterwise.priors.broad.fields import _FIELDS, draw_field
from clusterwise.priors.broad.table import LabelledTable


@pytest.fixture(scope="module")
def drawn() -> list[LabelledTable]:
    return [draw_field(np.random.default_rng([3, i]), 120) for i in range(150)]


def test_every_kind_occurs_and_is_finite_with_labels_in_use(drawn: list[LabelledTable]) -> None:
    assert set(Counter(table.kind for table in drawn)) == set(_FIELDS)
    for table in drawn:
        assert np.isfinite(table.points).all() and table.points.shape[0] == len(table.labels)
        assert set(table.labels.tolist()) == set(range(table.n_clusters))


def test_categories_are_whole_numbers_and_come_as_frames(drawn: list[LabelledTable]) -> None:
    with_words = [table for table in drawn if table.categories]
    assert {table.kind for table in with_words} == {"categories", "mixed"}
    for table in with_words:
        words = table.points[:, list(table.categories)]
        assert table.framed and (words == np.round(words)).all()


def test_clusters_of_categories_differ_in_their_levels(drawn: list[LabelledTable]) -> None:
    """Rows of one cluster share more answers than rows of two."""
    for table in drawn:
        if table.kind != "categories" or table.n_clusters == 1:
            continue
        alike = (table.points[:, None] == table.points[None]).mean(axis=2)
        same = table.labels[:, None] == table.labels
        np.fill_diagonal(same, False)
        assert alike[same].mean() > alike[table.labels[:, None] != table.labels].mean()


def test_share_of_fields_in_the_prior() -> None:
    prior = BroadPrior(fields=0.5)
    kinds = [prior.draw_table(np.random.default_rng([1, i]), 60).kind for i in range(200)]
    assert 70 < sum(kind in _FIELDS for kind in kinds) < 130  # 100, standard error 7
