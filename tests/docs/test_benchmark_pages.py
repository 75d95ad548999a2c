"""The parts of the benchmarks' page that are made from raw rows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "docs" / "benchmark_pages.py"
HEADER = "data,method,index,status,seconds,cpu_seconds,ARI,k,true k,right k\n"


@pytest.fixture(scope="module")
def pages():
    specification = importlib.util.spec_from_file_location("benchmark_pages", FILE)
    module = importlib.util.module_from_spec(specification)
    before = list(sys.path)
    specification.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture
def tables(pages, tmp_path):
    path = tmp_path / "tables.csv"
    path.write_text(
        HEADER
        + "fcps/a,Clusterer,0,ok,1,1,0.9,3,3,1\n"
        + "fcps/a,HDBSCAN,0,ok,1,1,0.5,2,3,0\n"
        + "wut/b,Clusterer,0,timeout,9,9,,,,\n"
        + "wut/b,HDBSCAN,0,ok,1,1,0.7,4,4,1\n"
        + "wut/b,MeanShift,0,skipped: more than 2,000 rows,0,0,,,,\n"
    )
    return pages.Tables(path)


def test_failures_count_as_zero_and_methods_on_fewer_data_sets_come_last(pages, tables, tmp_path):
    assert tables.summary("ARI", "Clusterer").mean == pytest.approx(0.45)
    assert tables.methods == ["Clusterer", "HDBSCAN"]  # MeanShift was skipped
    assert tables.ranked() == ["HDBSCAN", "Clusterer"]
    path = tmp_path / "more.csv"
    path.write_text((tmp_path / "tables.csv").read_text() + "fcps/a,easy,0,ok,1,1,1.0,3,3,1\n")
    more = pages.Tables(path)
    assert more.ranked()[-1] == "easy"
    assert "easy (1 of 2 sets)" in pages.table_of_batteries(more)
    assert " easy " in pages.comparison_by_battery(more)  # best where it was tried everywhere


def test_gains_and_losses_are_told_apart(pages, tables):
    text = pages.extremes(tables)
    gains, losses = text.split("Largest losses")
    assert "Against HDBSCAN" in text and "ahead by more than 0.01 on 1 of 2" in text
    assert "fcps/a" in gains and "wut/b" not in gains
    assert "wut/b" in losses and "fcps/a" not in losses
    lines = [line.split("|") for line in pages.comparison_by_battery(tables).splitlines()[2:]]
    assert [(line[1].strip(), line[-2].strip()) for line in lines] == [("fcps", "+0.40"), ("wut", "−0.70")]
    assert pages.batteries_by_outcome(tables, won=True) == "- *fcps*: 0.90; best peer 0.50 (HDBSCAN)"
    assert pages.batteries_by_outcome(tables, won=False) == "- *wut*: 0.00; best peer 0.70 (HDBSCAN)"


def test_a_table_is_found_below_its_heading(pages, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "RESULTS", tmp_path)
    (tmp_path / "some.md").write_text(
        "# Title\n\n## One\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## Two\n\nno table\n"
    )
    assert pages.table_below("some", "One") == [["a", "b"], ["---", "---"], ["1", "2"]]
    assert pages.table_below("some", "Two") == []
    assert pages.table_below("absent", "One") == []


def test_unseen_classes_have_a_column_for_each_suite(pages):
    rows = [
        {"data": "d", "method": method, "index": str(index), "status": status}
        | {"NMI (arithmetic)": nmi, "k error": "2"}
        for method, status, nmi in (("AMCP", "ok", "0.5"), ("GMM + BIC", "timeout", ""), ("other", "ok", "1"))
        for index in range(2)
    ]
    suites = {"characters": pages.Rows(rows), "unseen-cells": pages.Rows([])}
    header, _, *lines = pages.labelled_table(suites).splitlines()
    assert "[cells](results/unseen-cells.md)" in header
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells == [["**AMCP**", "0.50 (2.0)", "–"], ["GMM + BIC", "–", "–"]]


def test_large_data_have_a_line_for_each_number_of_rows(pages):
    rows = [
        {"data": data, "method": f"{method}, {data}", "index": str(index), "status": "ok"}
        | {"seconds": seconds, "peak": "500", "k": "20", "ARI": "1"}
        for data in ("1,000 x 16", "2,000 x 16")
        for method in pages.LARGE_METHODS
        for index, seconds in enumerate(("1", "3", "2"))
    ]
    lines = pages.large_table(pages.Rows(rows[:-3])).splitlines()  # one method lacks the second size
    assert len(lines) == 3
    assert [cell.strip() for cell in lines[2].split("|")][1:3] == ["1,000", "2.00 s, 500 MB"]
    assert "no results" in pages.large_table(pages.Rows([]))
