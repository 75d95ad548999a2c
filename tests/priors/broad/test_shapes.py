"""Every shape, arrangement and kind of table draws what its name says, in every number of dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.priors.broad.arrangements import ARRANGEMENTS, draw_arrangement, draw_composite
from clusterwise.priors.broad.centred import (
    draw_densities,
    draw_gaussians,
    draw_grid,
    draw_mixture,
    draw_single,
)
from clusterwise.priors.broad.fields import draw_records
from clusterwise.priors.broad.manifolds import draw_embedding
from clusterwise.priors.broad.shapes import BLOBS, SHAPES, along_path, draw_family, draw_shape, draw_style

KINDS = [draw_mixture, draw_gaussians, draw_grid, draw_densities, draw_records, draw_embedding]


@pytest.mark.parametrize(
    ("family", "d"), [(family, d) for family in SHAPES for d in (1, 2, 3, 20) if d > 1 or family in BLOBS]
)
def test_shapes_are_about_the_origin_at_a_scale_of_one(family: str, d: int) -> None:
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(30):
        points = draw_shape(rng, family, 200, d, draw_style(rng))
        assert points.shape == (200, d)
        assert np.isfinite(points).all()
        sizes.append(np.sqrt(np.square(points).sum(axis=1).mean()))
    assert 0.3 < np.median(sizes) < 3 * np.sqrt(d)


def test_in_one_dimension_only_blobs_are_drawn() -> None:
    rng = np.random.default_rng(0)
    assert {draw_family(rng, 1) for _ in range(400)} == set(BLOBS)
    assert {draw_family(rng, 2) for _ in range(4000)} == set(SHAPES)


def test_a_path_is_followed_evenly() -> None:
    corners = np.array([[0.0, 0], [3, 0], [3, 1]])
    points = along_path(np.random.default_rng(0), 8000, corners)
    on_first = np.isclose(points[:, 1], 0) & (points[:, 0] < 3)
    assert (on_first | np.isclose(points[:, 0], 3)).all()
    assert on_first.mean() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_arrangements_use_all_their_clusters(name: str) -> None:
    what = ARRANGEMENTS[name]
    for k in range(what.min_k, what.max_k + 1):
        points, labels = what.draw(np.random.default_rng(k), 400, k)
        assert points.shape in ((400, 2), (400, 3))
        assert np.isfinite(points).all()
        assert np.bincount(labels).min() >= 3
        assert len(np.bincount(labels)) == k
        assert (np.diff(labels) >= 0).all()


def test_arrangements_fit_the_number_of_clusters_and_features() -> None:
    rng = np.random.default_rng(0)
    in_the_plane = {draw_arrangement(rng, 3, 2) for _ in range(500)}
    assert not in_the_plane & {"shells", "links"}
    assert {draw_arrangement(rng, 3, 3) for _ in range(2000)} >= {"shells", "links"}
    assert draw_arrangement(rng, 99, 3) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [4, 40])
def test_kinds_draw_all_rows(kind: type, d: int) -> None:
    for seed in range(20):
        points = kind(np.random.default_rng(seed), np.array([30, 5, 50, 4, 11]), d)
        assert points.shape == (100, d)
        assert np.isfinite(points).all()


@pytest.mark.parametrize("d", [1, 2, 30])
def test_single_tables(d: int) -> None:
    for seed in range(40):
        points = draw_single(np.random.default_rng(seed), 50, d)
        assert points.shape == (50, d)
        assert np.isfinite(points).all()


@pytest.mark.parametrize("k", [2, 5, 12])
def test_composites_use_all_their_clusters(k: int) -> None:
    for seed in range(20):
        points, labels = draw_composite(np.random.default_rng(seed), 600, k)
        assert points.shape == (600, 2)
        assert len(np.bincount(labels)) == k
        assert np.bincount(labels).min() >= 3


def test_records_are_of_one_scale() -> None:
    for seed in range(100):
        spreads = draw_records(np.random.default_rng(seed), np.array([9, 5, 8]), 30).std(axis=0)
        np.testing.assert_allclose(spreads[spreads > 1e-9], 1.0)
