"""Data sets drawn from labelled rows: no row twice, sizes within what there is, splits that share nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from clusterwise.exceptions import InvalidDataError, RecipeError
from clusterwise.priors.labelled_rows import (
    LabelledOptions,
    LabelledRows,
    class_numbers,
    sizes_within,
    split_rows,
)


def labelled(n_classes: int = 12, each: int = 10, **options: Any) -> LabelledRows:
    y = np.repeat(np.arange(n_classes), each)
    rows = np.stack([y, np.arange(len(y))], axis=1).astype(float)
    return LabelledRows(rows, y, groups=y // 4, options=LabelledOptions(**options))


def test_rows_of_a_set_are_distinct_and_their_labels_are_their_classes() -> None:
    prior = labelled()
    drawn = prior.draw_rows(np.random.default_rng(0), 20, 30)
    for index, labels in zip(drawn.index, drawn.labels, strict=True):
        assert len(set(index.tolist())) == 30
        pairs = set(zip(prior.y[index].tolist(), labels.tolist(), strict=True))
        assert len(pairs) == len(set(labels.tolist())) == labels.max() + 1  # one label for one class


def test_numbers_of_classes_vary_within_what_the_rows_allow() -> None:
    prior = labelled(k_max=7)
    drawn = prior.draw_rows(np.random.default_rng(1), 200, 30)
    k = drawn.labels.max(axis=1) + 1
    assert set(k.tolist()) == set(range(3, 8))  # three classes of ten rows are the fewest that have thirty


def test_some_sets_come_from_one_group() -> None:
    alone = labelled(within_groups=1.0, k_max=4)
    drawn = alone.draw_rows(np.random.default_rng(2), 30, 20)
    assert all(len(set((alone.y[index] // 4).tolist())) == 1 for index in drawn.index)
    mixed = labelled(within_groups=0.0, k_max=4)
    drawn = mixed.draw_rows(np.random.default_rng(2), 30, 20)
    assert any(len(set((mixed.y[index] // 4).tolist())) > 1 for index in drawn.index)


def test_a_class_is_turned_as_a_whole() -> None:
    drawn = labelled(turned_classes=True).draw_rows(np.random.default_rng(3), 10, 40)
    for labels, turns in zip(drawn.labels, drawn.turns, strict=True):
        assert all(len(set(turns[labels == k].tolist())) == 1 for k in range(labels.max() + 1))
    assert len(np.unique(drawn.turns)) == 8
    assert not labelled().draw_rows(np.random.default_rng(3), 10, 40).turns.any()


def test_more_rows_than_there_are_is_all_of_them() -> None:
    drawn = labelled(n_classes=2).draw_rows(np.random.default_rng(0), 1, 100)
    assert sorted(drawn.index[0].tolist()) == list(range(20))


@pytest.mark.parametrize("concentration", [0.1, 1.0, 100.0])
def test_sizes_sum_up_and_stay_within_their_room(concentration: float) -> None:
    rng = np.random.default_rng(4)
    rooms = np.array([1, 5, 50, 50])
    for n_points in (4, 60, 106):
        sizes = sizes_within(rng, rooms, n_points, concentration)
        assert sizes.sum() == n_points
        assert (sizes >= 1).all()
        assert (sizes <= rooms).all()


def test_held_out_classes_and_groups_are_not_trained_on() -> None:
    y = np.repeat(np.arange(20), 5)
    rng = np.random.default_rng(5)
    train, held, how = split_rows(y, None, LabelledOptions(), rng)
    assert how == "classes"
    assert not set(y[train].tolist()) & set(y[held].tolist())
    assert len(train) + len(held) == len(y)
    groups = y // 4
    train, held, how = split_rows(y, groups, LabelledOptions(), rng)
    assert how == "groups"
    assert not set(groups[train].tolist()) & set(groups[held].tolist())
    few = y % 3
    train, held, how = split_rows(few, None, LabelledOptions(), rng)
    assert how == "rows"
    assert set(few[train].tolist()) == set(few[held].tolist()) == {0, 1, 2}
    assert not set(train.tolist()) & set(held.tolist())


def test_labels_of_any_kind() -> None:
    assert class_numbers(np.array(["b", "a", "b"])).tolist() == [1, 0, 1]
    assert class_numbers(np.array([2.5, -1.0, 2.5])).tolist() == [1, 0, 1]
    assert class_numbers(np.array(["x", 3, "x"], dtype=object)).tolist() == [1, 0, 1]


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_missing_labels_are_named(gap: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"1 of the 3 rows have no label \(row 1"):
        class_numbers(np.array(["a", gap, "b"], dtype=object))


def test_impossible_options_are_errors() -> None:
    with pytest.raises(RecipeError, match="validation_share"):
        LabelledOptions(validation_share=1.5)
    with pytest.raises(RecipeError, match="k_max"):
        LabelledOptions(k_max=0)
    with pytest.raises(RecipeError, match="groups"):
        split_rows(np.arange(4), None, LabelledOptions(hold_out="groups"), np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match="one class"):
        LabelledRows(np.ones((3, 2)), np.zeros(3, dtype=int))
