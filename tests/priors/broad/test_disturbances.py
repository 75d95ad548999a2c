"""Disturbances change what they should and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.priors.broad import disturbances as disturb
from clusterwise.priors.broad.labelled_table import NOISE


def sample(seed: int, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2], [60, 30, 40])
    return rng.standard_normal((130, d)) + 8.0 * labels[:, None], labels


@pytest.mark.parametrize("seed", range(8))
def test_warps_keep_the_order_of_each_column(seed: int) -> None:
    points, _ = sample(seed)
    warped = disturb.warp_columns(np.random.default_rng(seed), points)
    for before, after in zip(points.T, warped.T, strict=True):
        assert (np.diff(after[np.argsort(before)]) >= 0).all()


def test_units_and_correlations_can_be_undone() -> None:
    points, _ = sample(0)
    for change in (disturb.change_units, disturb.correlate_columns):
        for seed in range(8):
            changed = change(np.random.default_rng(seed), points)
            known = np.column_stack([changed, np.ones(len(points))])
            known /= np.abs(known).max(axis=0)
            back = known @ np.linalg.lstsq(known, points, rcond=None)[0]
            np.testing.assert_allclose(back, points, atol=1e-6)


def test_repeated_rows_are_of_the_same_cluster() -> None:
    points, labels = sample(1)
    labels = np.where(np.arange(130) % 10 == 0, NOISE, labels)
    of_row = {tuple(point): label for point, label in zip(points, labels, strict=True)}
    repeated = disturb.repeat_rows(np.random.default_rng(0), points, labels)
    assert len(np.unique(repeated, axis=0)) < 130
    assert all(of_row[tuple(point)] == label for point, label in zip(repeated, labels, strict=True))


def test_rounding_makes_ties_within_clusters_only() -> None:
    points, labels = sample(2, d=1)
    for seed in range(8):
        rounded = disturb.round_columns(np.random.default_rng(seed), points, labels)
        assert len(np.unique(rounded)) < 130
        values = [set(rounded[labels == j, 0]) for j in range(3)]
        assert not values[0] & values[1] | values[1] & values[2]


def test_new_columns_come_last() -> None:
    points, labels = sample(3)
    for seed in range(10):
        wider = disturb.add_columns(np.random.default_rng(seed), points, labels, 4)
        assert wider.shape == (130, 7)
        np.testing.assert_array_equal(wider[:, :3], points)


def test_noise_within_a_cluster_belongs_to_it() -> None:
    points, labels = sample(4, d=2)
    noise = np.array([[8.0, 8.0], [4.0, 4.0], [100.0, 100.0]])
    np.testing.assert_array_equal(disturb.label_noise(points, labels, noise), [1, NOISE, NOISE])


def test_many_noise_rows_lie_around_the_table() -> None:
    points, _ = sample(5)
    for seed in range(8):
        noise = disturb.draw_noise_rows(np.random.default_rng(seed), points, 20)
        reach = points.max(axis=0) - points.min(axis=0)
        assert (noise >= points.min(axis=0) - 0.2 * reach).all()
        assert (noise <= points.max(axis=0) + 0.2 * reach).all()
