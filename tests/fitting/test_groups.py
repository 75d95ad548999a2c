from __future__ import annotations

import numpy as np
import pytest

from clusterwise.fitting.groups import find_groups


@pytest.mark.parametrize("d", [1, 2, 16])
def test_a_group_apart_is_found_among_scattered_rows(d: int) -> None:
    rng = np.random.default_rng(0)
    known = rng.normal(size=(2000, d))
    centre = np.zeros(d)
    centre[0] = 30.0
    group = rng.normal(size=(40, d)) + centre
    scattered = rng.normal(size=(20, d)) * 200
    features = np.concatenate([group, scattered])
    (found,) = find_groups(features, np.ones(60, dtype=bool), known)
    assert np.count_nonzero(found < 40) > 30 and np.count_nonzero(found >= 40) < 4


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_the_tail_of_a_cluster_is_no_group(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(3, size=(200_000, 1)) * rng.normal(size=(200_000, d))
    radius = np.linalg.norm(rows, axis=1)
    outlying = rows[np.argsort(radius)[-3000:]]
    far = np.linalg.norm(outlying, axis=1) > np.sort(radius)[-1000]
    assert find_groups(outlying, far, rows[:5000]) == []


def test_what_falls_apart_is_told_from_what_does_not() -> None:
    rng = np.random.default_rng(2)
    whole = rng.normal(size=(200, 8))
    parts = np.concatenate([whole[:80], whole[80:] + 8.0])
    nothing = np.empty((0, 8))
    assert len(find_groups(parts, np.ones(200, dtype=bool), nothing)) == 2
    assert len(find_groups(whole, np.ones(200, dtype=bool), nothing)) <= 1
    assert find_groups(whole[:5], np.ones(5, dtype=bool), nothing) == []
