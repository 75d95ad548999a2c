"""Raw rows survive a kill at any byte, and their file is whole at any time."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from benchmarks.store import COLUMNS, Store, csv_text
from benchmarks.suite import BenchmarkError

METHOD = 'x, "y"'


def row(index: int, method: str = METHOD, **cells: object) -> dict[str, object]:
    return {"data": "d", "method": method, "index": index, "status": "ok", "ARI": 0.1 * index, **cells}


def filled(path: Path) -> Store:
    store = Store(path, ["ARI"])
    store.start()
    for index in range(5):
        store.add(row(index))
    return store


def test_a_run_torn_at_any_byte_loses_no_whole_row(tmp_path: Path) -> None:
    store = filled(tmp_path / "whole.csv.gz")
    store.finish([], [])
    expected, written = list(store.rows.values()), csv_text(tmp_path / "whole.csv.gz").encode()
    for cut in range(len(written) + 1):
        path, partial = tmp_path / "torn.csv.gz", tmp_path / "torn.partial.csv"
        path.unlink(missing_ok=True)
        partial.write_bytes(written[:cut])
        torn = Store(path, ["ARI"])
        torn.start()
        whole = max(written[:cut].count(b"\n") - 1, 0)
        assert list(torn.rows.values()) == expected[:whole]
        for missing in expected[whole:]:
            torn.add(missing)
        assert not path.exists()
        torn.finish([], [])
        assert path.read_bytes() == (tmp_path / "whole.csv.gz").read_bytes()
        assert not partial.exists()


def test_later_rows_win_and_dropped_ones_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    store = filled(path)
    store.add(row(3, ARI="again"))
    store.add(row(0, method="other"))
    store.finish(["d"], ["other"])
    assert store.rows["d", METHOD, 3]["ARI"] == "again"
    assert next(iter(store.rows.values()))["method"] == "other"
    store.drop({"other"})
    assert len(Store(path, ["ARI"]).rows) == 5
    later = Store(path, ["ARI", "warned"])  # a column that the suite was given later
    assert {found["warned"] for found in later.rows.values()} == {""}


def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    header = ",".join([*COLUMNS, "ARI"])
    for text in ("something,else\n1,2\n", f"{header}\n1,2\n", f"{header},more\n"):
        path.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(BenchmarkError, match="holds other rows"):
            Store(path, ["ARI"])
        assert csv_text(path) == text
