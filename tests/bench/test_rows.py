"""Raw rows survive a kill at any byte, and their file is whole at any time."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterwise.bench import BenchmarkError
from clusterwise.bench.rows import RowFile

COLUMNS = ("setting", "index", "value", "weights")


def opened(path: Path, weights: str = "a") -> RowFile:
    return RowFile(path, COLUMNS, 2, lambda row: row["weights"] == weights)


def filled(path: Path) -> RowFile:
    rows = opened(path)
    for index in range(5):
        rows.add({"setting": 'x, "y"', "index": index, "value": 0.1 * index, "weights": "a"})
    return rows


def test_a_run_torn_at_any_byte_loses_no_whole_row(tmp_path: Path) -> None:
    expected = filled(tmp_path / "whole.csv").finish()
    written = (tmp_path / "whole.csv").read_bytes()
    for cut in range(len(written) + 1):
        path, partial = tmp_path / "torn.csv", tmp_path / "torn.partial.csv"
        path.unlink(missing_ok=True)
        partial.write_bytes(written[:cut])
        rows = opened(path)
        whole = max(written[:cut].count(b"\n") - 1, 0)
        assert rows.rows() == expected[:whole]
        assert ('x, "y"', 4) not in rows or whole == 5
        for row in expected[whole:]:
            rows.add(row)
        assert not path.exists()
        assert rows.finish() == expected
        assert path.read_bytes() == written
        assert not partial.exists()


def test_the_file_stays_as_it_was_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    filled(path).finish()
    before = path.read_bytes()
    rows = opened(path, "b")
    rows.add({"setting": "z", "index": 0, "value": 1, "weights": "b"})
    assert path.read_bytes() == before
    again = opened(path, "b")  # the run was killed
    assert [row["setting"] for row in again.finish()] == ["z"]
    assert len(path.read_text().splitlines()) == 2


def test_rows_of_other_weights_are_dropped_and_later_rows_win(tmp_path: Path) -> None:
    rows = filled(tmp_path / "rows.csv")
    rows.add({"setting": 'x, "y"', "index": 3, "value": "again", "weights": "b"})
    assert rows.get(('x, "y"', 3))["value"] == "again"
    assert len(rows.finish()) == 5
    again = opened(tmp_path / "rows.csv", "b")
    assert [row["value"] for row in again.finish()] == ["again"]
    assert again.n_dropped == 4
    assert opened(tmp_path / "rows.csv", "b").n_dropped == 0


def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for text in ("something,else\n1,2\n", "setting,index,value,weights\n1,2\n"):
        path.write_text(text)
        with pytest.raises(BenchmarkError, match="holds something else"):
            opened(path)
        assert path.read_text() == text
