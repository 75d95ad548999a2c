"""How far the judge of partitions is trusted."""

from __future__ import annotations

import pytest

from clusterwise.clusterer.judged import MOST_DOUBT, doubt_of


@pytest.mark.parametrize("n_rows", [8, 1_000, 4_000, 100_000])
def test_narrow_tables_are_judged_without_doubt(n_rows: int) -> None:
    assert doubt_of(n_rows, 16) == 0.0


def test_the_doubt_of_wide_tables_grows_with_the_rows() -> None:
    doubts = [doubt_of(n_rows, 17) for n_rows in (8, 500, 1_000, 1_500, 2_000, 4_000, 100_000)]
    assert doubts[0] == doubts[2] == 0.0
    assert doubts == sorted(doubts)
    assert doubts[2] < doubts[3] < doubts[4] < doubts[-1] == MOST_DOUBT < 1.0
