"""Tables of real data sets: parts of rows, classes and columns, and judges that see them in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest

from clusterwise.exceptions import RecipeError
from clusterwise.training import real_tables
from clusterwise.training.partition_tasks import partition_source
from clusterwise.training.real_tables import DIRECTORY, RealSet, draw_part, real_sets
from clusterwise.training.recipe import recipe_from_dict


def test_the_list_names_each_set_once_with_its_source() -> None:
    sets = real_sets()
    assert len({one.name for one in sets}) == len(sets) > 50
    assert all(one.source and one.family and one.group for one in sets)
    assert not any(one.file.startswith("real/test") or one.file.startswith("suite") for one in sets)


def test_sets_groups_and_families_are_left_out() -> None:
    assert {one.name for one in real_sets()} - {one.name for one in real_sets(("iris",))} == {"iris"}
    assert not {"orl", "olivetti_faces"} & {one.name for one in real_sets(("faces",))}  # the same photographs
    assert "images" not in {one.family for one in real_sets(("images",))}
    with pytest.raises(RecipeError, match="'no such set'"):
        real_sets(("no such set",))


@pytest.mark.parametrize("as_table", [False, True])
def test_parts_are_rows_of_the_set_with_their_labels(as_table: bool) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 70, 2000)
    rows: Any = np.column_stack([labels, np.arange(2000.0), *rng.standard_normal((8, 2000))])
    if as_table:
        rows = pyarrow.table({f"x{j}": column for j, column in enumerate(rows.T)})
    widths, classes = set(), set()
    for seed in range(20):
        part, found = draw_part(rows, labels, np.random.default_rng(seed))
        values = np.column_stack(part.columns) if as_table else part
        widths.add(values.shape[1])
        classes.add(int(found.max()) + 1)
        assert 1 <= len(values) == len(found) <= real_tables.MAX_ROWS
        np.testing.assert_array_equal(np.unique(found), np.arange(found.max() + 1))
        if values.shape[1] == 10:
            true = values[:, 0].astype(int)
            assert (true == labels[values[:, 1].astype(int)]).all()
            assert len(set(zip(true, found, strict=True))) == found.max() + 1  # one name for each class
    assert min(widths) < 10 and max(widths) == 10 and max(classes) <= real_tables.MAX_CLASSES
    again, _ = draw_part(rows, labels, np.random.default_rng(19))
    assert again.equals(part) if as_table else (again == part).all()


def recipe_of(**real: Any) -> Any:
    return recipe_from_dict(
        {
            "name": "small",
            "method": "partition-judge",
            "model": {"width": 8, "n_rounds": 1},
            "prior": {"name": "broad", "max_rows": 80},
            "tables": {"n_tables": 4, "n_validation": 2, "per_batch": 8},
            "real": real,
        }
    )


def test_a_step_sees_real_tables_beside_artificial_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    for name, k in (("two", 2), ("three", 3)):
        labels = rng.integers(0, k, 90)
        points = 9 * np.eye(4)[labels] + rng.standard_normal((90, 4))
        np.savez(tmp_path / f"{name}.npz", X=points, y=labels)
    listed = [RealSet(name, name, "made", f"{name}.npz", "X", "here") for name in ("two", "three")]
    monkeypatch.setattr("clusterwise.training.partition_tasks.real_sets", lambda without: listed)
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    source = partition_source(recipe_of(share=1.0, per_set=3), tmp_path / "out", False, lambda: False)
    assert source is not None and len(source.real_tables) == 2
    assert [len(tables) for tables in source.real_tables] == [3, 3]
    best = [table.scores.max() for tables in source.real_tables for table in tables]
    assert min(best) > 0.9  # the classes are far apart
    assert {table.n_clusters for table in source.real_tables[0]} == {2}
    assert set(source.task(0).true_n_clusters.tolist()) <= {2, 3}  # type: ignore[union-attr]
    none = partition_source(recipe_of(share=0.0), tmp_path / "out", False, lambda: False)
    assert none is not None and none.real == []


def test_without_the_data_a_recipe_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY, raising=False)
    with pytest.raises(RecipeError, match=DIRECTORY):
        partition_source(recipe_of(share=0.5, per_set=1), tmp_path, False, lambda: False)
