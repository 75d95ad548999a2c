"""Results on disk: they survive a torn file, and never mix with a foreign one."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest

from clusterwise.bench import BenchmarkError
from clusterwise.bench.results import COLUMNS, Key, Result, Results

METRICS = ("ARI", "k error")
KEYS: list[Key] = [(method, "(1, 2)", seed) for seed in range(3) for method in ("ours, best", 'a "peer"')]


def result_of(key: Key, status: str = "ok") -> Result:
    value = key[2] + 1 / 3 if status == "ok" else float("nan")
    return Result({"ARI": value, "k error": 1.0}, 0.1, 20.0, status, "numpy 2; threads 1")


def filled(directory: Path) -> Results:
    results = Results(directory, "name", METRICS)
    results.start()
    for key in KEYS:
        results.add(key, result_of(key))
    return results


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    filled(tmp_path)
    assert dict(Results(tmp_path, "name", METRICS)) == {key: result_of(key) for key in KEYS}
    assert not (tmp_path / "name.csv.gz").exists()  # not finished


def test_finishing_orders_the_rows_and_leaves_one_file(tmp_path: Path) -> None:
    filled(tmp_path).finish(KEYS[::-1])
    assert [path.name for path in tmp_path.iterdir()] == ["name.csv.gz"]
    lines = gzip.decompress((tmp_path / "name.csv.gz").read_bytes()).decode().splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == 1 + len(KEYS) * len(METRICS)
    assert list(dict(Results(tmp_path, "name", METRICS))) == KEYS[::-1]


def test_torn_at_any_byte_the_whole_results_before_it_are_kept(tmp_path: Path) -> None:
    filled(tmp_path)
    partial = tmp_path / "name.partial.csv"
    whole = partial.read_bytes()
    ends = [position + 1 for position, byte in enumerate(whole) if byte == ord("\n")][
        2::2
    ]  # last row of each
    for cut in range(0, len(whole), 3):
        partial.write_bytes(whole[:cut])
        kept = dict(Results(tmp_path, "name", METRICS))
        assert list(kept) == KEYS[: sum(end <= cut for end in ends)]


def test_a_second_try_replaces_the_first(tmp_path: Path) -> None:
    results = filled(tmp_path)
    results.add(KEYS[0], result_of(KEYS[0], "timeout"))
    again = Results(tmp_path, "name", METRICS).get(KEYS[0])
    assert again is not None
    assert again.status == "timeout"
    assert math.isnan(again.values["ARI"])


def test_forgotten_results_stay_forgotten(tmp_path: Path) -> None:
    filled(tmp_path).forget(["ours, best"])
    assert {key[0] for key, _ in Results(tmp_path, "name", METRICS)} == {'a "peer"'}


def test_a_result_without_all_metrics_does_not_count(tmp_path: Path) -> None:
    filled(tmp_path)
    assert dict(Results(tmp_path, "name", (*METRICS, "new"))) == {}


@pytest.mark.parametrize("name", ["name.csv.gz", "name.partial.csv"])
@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"something else", gzip.compress(b"a,b\n1,2\n")])
def test_a_foreign_file_is_refused_and_left_alone(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BenchmarkError, match="choose another directory"):
        Results(tmp_path, "name", METRICS)
    assert path.read_bytes() == content


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    filled(tmp_path).finish(KEYS)
    path = tmp_path / "name.csv.gz"
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    path.write_bytes(gzip.compress(b"".join([*lines[:3], b"rubbish\n", *lines[4:]])))
    with pytest.raises(BenchmarkError, match="line 4 is damaged"):
        Results(tmp_path, "name", METRICS)
