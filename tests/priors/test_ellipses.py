"""All normals of an ellipse through a point are found, also where the equation degenerates."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.priors.ellipses import Normals, ellipse_normals


def normals_at(s: float, t: float, a: float, b: float) -> Normals:
    return ellipse_normals(*(np.array([value]) for value in (s, t, a, b)))


def quartic_angles(s: float, t: float, a: float, b: float) -> np.ndarray:
    """The same angles from the roots on the unit circle of a quartic in exp(ir), sorted."""
    cosine, sine, gap = a * s, b * t, a**2 - b**2
    roots = np.roots([-gap, 2 * cosine - 2j * sine, 0, -2 * cosine - 2j * sine, gap])
    return np.sort(np.angle(roots[np.abs(np.abs(roots) - 1) < 1e-7]))


@pytest.fixture(scope="module")
def many() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Normals]:
    rng = np.random.default_rng(0)
    s, t, a, b = rng.normal(0, 1.5, (4, 20_000))
    return s, t, a, b, ellipse_normals(s, t, a, b)


def test_agrees_with_the_quartic() -> None:
    rng = np.random.default_rng(1)
    seen = set()
    for s, t, a, b in rng.normal(0, 1.5, (500, 4)):
        normals = normals_at(s, t, a, b)
        found = np.sort(normals.angle[np.isfinite(normals.tau)])
        expected = quartic_angles(s, t, a, b)
        assert len(found) == len(expected)
        np.testing.assert_allclose(np.exp(1j * found), np.exp(1j * expected), atol=1e-6)
        seen.add(len(found))
    assert seen == {2, 4}


Many = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Normals]


def test_every_normal_passes_through_its_point(many: Many) -> None:
    s, t, a, b, normals = many
    exists = np.isfinite(normals.tau)
    delta = np.where(exists, normals.tau, 0.0) / (a * b)
    cosine, sine = np.cos(normals.angle), np.sin(normals.angle)
    for coordinate, reached in ((s, (a + delta * b) * cosine), (t, (b + delta * a) * sine)):
        assert np.abs(np.where(exists, reached - coordinate, 0.0)).max() < 1e-7
    residual = a * s * sine - b * t * cosine - (a**2 - b**2) * sine * cosine
    assert np.abs(residual[exists]).max() < 1e-12


def test_spread_is_the_jacobian(many: Many) -> None:
    _, _, a, b, normals = many
    exists = np.isfinite(normals.tau)
    tau = np.where(exists, normals.tau, 0.0)
    cosine, sine = np.cos(normals.angle), np.sin(normals.angle)
    delta = tau / (a * b)
    determinant = (-(a + delta * b) * sine) * (a * sine) - (b * cosine) * ((b + delta * a) * cosine)
    scale = a**2 + b**2 + np.abs(tau)
    assert np.abs(np.where(exists, determinant + normals.spread, 0.0) / scale).max() < 1e-12


def test_known_angle_is_among_those_found() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(0, 1.2, (2, 5000))
    angle = rng.uniform(-np.pi, np.pi, 5000)
    delta = rng.normal(0, 0.3, 5000)
    normals = ellipse_normals((a + delta * b) * np.cos(angle), (b + delta * a) * np.sin(angle), a, b)
    distance = np.abs(np.exp(1j * normals.angle) - np.exp(1j * angle))
    distance += np.abs(normals.tau - a * b * delta)
    assert distance.min(axis=0).max() < 1e-5  # two nearly equal solutions share their precision


def test_circle() -> None:
    normals = normals_at(3.0, 4.0, 2.0, 2.0)
    exists = np.isfinite(normals.tau)
    expected = np.arctan2(4.0, 3.0)
    np.testing.assert_allclose(np.sort(normals.angle[exists]), [expected - np.pi, expected])
    np.testing.assert_allclose(np.sort(normals.tau[exists]), [-14.0, 6.0])  # 2 (distance +- 5)


@pytest.mark.parametrize("swapped", [False, True])
def test_point_on_an_axis(swapped: bool) -> None:
    """On the long axis within the evolute: both ends of the axis, and two more that are mirror images."""
    s, t, a, b = (0.0, 0.5, 1.0, 2.0) if swapped else (0.5, 0.0, 2.0, 1.0)
    normals = normals_at(s, t, a, b)
    coordinate = np.sin(normals.angle) if swapped else np.cos(normals.angle)
    np.testing.assert_allclose(np.sort(coordinate.ravel()), [-1, 1 / 3, 1 / 3, 1], atol=1e-12)
    other = np.cos(normals.angle) if swapped else np.sin(normals.angle)
    np.testing.assert_allclose(np.sort(other.ravel())[[0, -1]], [-np.sqrt(8) / 3, np.sqrt(8) / 3])


def test_centre_has_the_four_vertices() -> None:
    normals = normals_at(0.0, 0.0, 2.0, 1.0)
    np.testing.assert_allclose(
        np.sort(np.remainder(normals.angle.ravel(), 2 * np.pi) % (2 * np.pi - 1e-9)),
        np.arange(4) * np.pi / 2,
        atol=1e-8,
    )


def test_mirrored_points_have_mirrored_normals() -> None:
    s, t, a, b = 0.2, 0.1, 1.3, 0.7
    angle = np.sort(normals_at(s, t, a, b).angle.ravel())
    np.testing.assert_allclose(np.sort(-normals_at(s, -t, a, b).angle.ravel()), angle)
    np.testing.assert_allclose(np.sort(-normals_at(s, t, a, -b).angle.ravel()), angle)
    np.testing.assert_allclose(np.sort(normals_at(-s, t, -a, b).angle.ravel()), angle)


def test_shape_is_kept() -> None:
    rng = np.random.default_rng(3)
    s, t, a, b = rng.normal(size=(4, 5, 3))
    normals = ellipse_normals(s, t, a, b)
    assert normals.angle.shape == normals.tau.shape == normals.spread.shape == (4, 5, 3)
    single = normals_at(s[4, 1], t[4, 1], a[4, 1], b[4, 1])
    np.testing.assert_array_equal(normals.tau[:, 4, 1], single.tau[:, 0])


def test_near_the_evolute() -> None:
    """Where two normals meet, the pair is found just inside and absent just outside."""
    a, b, angle = 2.0, 1.0, 0.8
    s, t = (a * a - b * b) / a * np.cos(angle) ** 3, (b * b - a * a) / b * np.sin(angle) ** 3
    for factor, count in ((1 - 1e-9, 4), (1 + 1e-9, 2)):
        normals = normals_at(factor * s, factor * t, a, b)
        assert np.isfinite(normals.tau).sum() == count
        residual = a * factor * s * np.sin(normals.angle) - b * factor * t * np.cos(normals.angle)
        residual -= (a**2 - b**2) * np.sin(normals.angle) * np.cos(normals.angle)
        assert np.abs(residual[np.isfinite(normals.tau)]).max() < 1e-12
