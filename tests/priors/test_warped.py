"""Warped Gaussians follow Eq 16 of DAC as read; their density, by the normals of ellipses, is exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from clusterwise.exceptions import RecipeError
from clusterwise.priors.prior import TaskBatch
from clusterwise.priors.warped import WarpedComponents, WarpedGaussians, ellipse_normals

# (a, b), mean and sd of the angle: long, flat and negative axes, a circle, a small ellipse whose noise
# reaches past its evolute, and an arc that covers the ellipse more than once.
ARCS = [
    ((1.5, 0.8), 1.0, 0.63),
    ((-0.6, 1.2), -4.0, 0.5),
    ((1.0, 1.0), 9.0, 0.63),
    ((0.15, 0.3), 0.4, 0.63),
    ((0.9, -0.5), 2.0, 4.0),
]


def one_arc(axes: tuple[float, float], mean: float, sd: float) -> WarpedComponents:
    return WarpedComponents(
        weights=np.ones(1),
        angle_means=np.array([mean]),
        angle_sds=np.array([sd]),
        axes=np.array([axes]),
        rotations=np.array([0.7]),
        shifts=np.array([[0.3, -2.0]]),
    )


def draw_points(rng: np.random.Generator, components: WarpedComponents, n: int) -> np.ndarray:
    """Eq 16, one point after the other as printed, from the first component."""
    (a, b), rotation = components.axes[0], components.rotations[0]
    matrix = np.array([[math.cos(rotation), -math.sin(rotation)], [math.sin(rotation), math.cos(rotation)]])
    points = np.empty((n, 2))
    for i in range(n):
        r = rng.normal(components.angle_means[0], components.angle_sds[0])
        offset = 0.1 * rng.normal() / math.sqrt((b * math.cos(r)) ** 2 + (a * math.sin(r)) ** 2)
        s = a * math.cos(r) + offset * b * math.cos(r)
        t = b * math.sin(r) + offset * a * math.sin(r)
        points[i] = matrix @ [s, t] + components.shifts[0]
    return points


def slow_density(components: WarpedComponents, point: np.ndarray) -> float:
    """Find the angles by sign changes on a fine grid, and the Jacobian by differences."""
    (a, b), rotation = components.axes[0], components.rotations[0]
    x, y = point - components.shifts[0]
    s = math.cos(rotation) * x + math.sin(rotation) * y
    t = -math.sin(rotation) * x + math.cos(rotation) * y

    def off_normal(r: float) -> float:
        return (s - a * math.cos(r)) * a * math.sin(r) - (t - b * math.sin(r)) * b * math.cos(r)

    def place(r: float, eps: float) -> np.ndarray:
        offset = 0.1 * eps / math.sqrt((b * math.cos(r)) ** 2 + (a * math.sin(r)) ** 2)
        return np.array([(a + offset * b) * math.cos(r), (b + offset * a) * math.sin(r)])

    grid = np.linspace(0.123, 0.123 + 2 * np.pi, 5001)
    values = [off_normal(r) for r in grid]
    total = 0.0
    for i in np.flatnonzero(np.sign(values[:-1]) != np.sign(values[1:])):
        r = brentq(off_normal, grid[i], grid[i + 1], xtol=1e-14)
        along = (s - a * math.cos(r)) * b * math.cos(r) + (t - b * math.sin(r)) * a * math.sin(r)
        square = (b * math.cos(r)) ** 2 + (a * math.sin(r)) ** 2
        eps = along / math.sqrt(square) / 0.1
        h = 1e-6
        by_r = (place(r + h, eps) - place(r - h, eps)) / (2 * h)
        by_eps = (place(r, eps + h) - place(r, eps - h)) / (2 * h)
        jacobian = abs(by_r[0] * by_eps[1] - by_r[1] * by_eps[0])
        turns = r + 2 * np.pi * np.arange(-20, 21)
        angle_density = stats.norm(components.angle_means[0], components.angle_sds[0]).pdf(turns).sum()
        total += stats.norm.pdf(eps) * angle_density / jacobian
    return float(total)


@pytest.mark.parametrize(("axes", "mean", "sd"), ARCS)
def test_density_agrees_with_a_slow_search(axes: tuple[float, float], mean: float, sd: float) -> None:
    components = one_arc(axes, mean, sd)
    points = draw_points(np.random.default_rng(0), components, 12)
    expected = [slow_density(components, point) for point in points]
    np.testing.assert_allclose(np.exp(components.log_density(points))[:, 0], expected, rtol=1e-4)


def cell_masses(components: WarpedComponents, sample: np.ndarray, fine: int) -> tuple[np.ndarray, np.ndarray]:
    """Mass of the density and share of the sample in 12 x 12 cells around the sample, flattened."""
    low, high = sample.min(axis=0) - 0.3, sample.max(axis=0) + 0.3
    n = 12 * fine
    centres = [low[j] + (np.arange(n) + 0.5) * (high[j] - low[j]) / n for j in (0, 1)]
    grid = np.stack(np.meshgrid(*centres, indexing="ij"), axis=2).reshape(-1, 2)
    density = np.exp(components.log_density(grid)[:, 0]).reshape(12, fine, 12, fine)
    masses = density.sum(axis=(1, 3)) * np.prod((high - low) / n)
    edges = [np.linspace(low[j], high[j], 13) for j in (0, 1)]
    counts, _, _ = np.histogram2d(sample[:, 0], sample[:, 1], bins=edges)
    return masses.ravel(), counts.ravel() / len(sample)


def test_arcs_are_drawn_as_printed() -> None:
    """Points of the vectorized draw have the density of their own components."""
    prior = WarpedGaussians(k_exact=1)
    rng = np.random.default_rng(2)
    for _ in range(3):
        drawn = prior.draw_set(rng, 20_000)
        assert isinstance(drawn.components, WarpedComponents)
        masses, shares = cell_masses(drawn.components, drawn.points, fine=30)
        assert masses.sum() == pytest.approx(1.0, abs=4e-3)
        error = np.sqrt(masses * (1 - masses) / 20_000) + 2 / 20_000
        assert (np.abs(shares - masses) / error).max() < 5


def parameters(batch: TaskBatch, name: str) -> np.ndarray:
    return np.stack([getattr(component, name) for component in batch.components])


def test_parameters_of_arcs() -> None:
    batch = WarpedGaussians(k_exact=2).draw(np.random.default_rng(3), 3000, 1)
    turn = 0.8 * math.pi
    for values, law in (
        (parameters(batch, "angle_means"), stats.norm(0, 3 * turn)),
        (np.log(parameters(batch, "angle_sds")), stats.norm(math.log(0.25 * turn), 0.1)),
        (parameters(batch, "axes"), stats.norm(0, 2)),
        (parameters(batch, "rotations"), stats.uniform(0, 2 * math.pi)),
        (parameters(batch, "shifts"), stats.norm(0, 4)),
        (parameters(batch, "weights")[:, 0], stats.beta(5, 5)),
    ):
        assert stats.kstest(values.ravel(), law.cdf).pvalue > 1e-4


@pytest.mark.parametrize(("k_max", "scale"), [(1, 1), (3, 3), (4, 4), (9, 4)])
def test_shifts_grow_with_the_largest_k_up_to_four(k_max: int, scale: int) -> None:
    prior = WarpedGaussians(k_max=k_max, k_exact=1)
    shifts = parameters(prior.draw(np.random.default_rng(4), 1000, 1), "shifts")
    assert abs(shifts.std() - scale) < 4.5 * scale / math.sqrt(2 * shifts.size)


@pytest.mark.parametrize(("k_max", "expected"), [(4, -1.05), (12, -2.0)])
def test_oracle_log_likelihood_of_arcs(k_max: int, expected: float) -> None:
    """About what the authors' generator gives; with thinner or smaller arcs it would be larger by 1."""
    batch = WarpedGaussians(k_max=k_max).draw(np.random.default_rng(11), 300, 100)
    values = np.array([batch[i].oracle_log_likelihood() for i in range(300)])
    assert abs(values.mean() - expected) < 0.05 + 4.5 * values.std() / math.sqrt(300)


@pytest.mark.parametrize("k_max", [4, 12])
def test_oracle_is_finite_on_its_own_points(k_max: int) -> None:
    batch = WarpedGaussians(k_max=k_max).draw(np.random.default_rng(7), 200, 100)
    for index in range(200):
        joint = batch.components[index].log_joint(batch.points[index])
        assert not np.isnan(joint).any()
        assert np.isfinite(joint[np.arange(100), batch.labels[index]]).all()


@pytest.mark.parametrize("n_features", [1, 3])
def test_other_dimensions_are_refused(n_features: int) -> None:
    with pytest.raises(RecipeError, match="n_features=2 only"):
        WarpedGaussians(n_features=n_features)


# -- normals of ellipses -------------------------------------------------------------------------


def normals_at(x: float, y: float, a: float, b: float) -> tuple[np.ndarray, np.ndarray]:
    """Angles and tau of the normals that there are, (2,) or (4,)."""
    angle, tau, _ = ellipse_normals(np.array([[x]]), np.array([[y]]), np.array([a]), np.array([b]))
    return angle[np.isfinite(tau)], tau[np.isfinite(tau)]


def test_all_normals_are_found() -> None:
    """Every normal passes through its point, and there are as many as roots of the quartic in exp(ir)."""
    rng = np.random.default_rng(1)
    seen = set()
    for x, y, a, b in rng.normal(0, 1.5, (500, 4)):
        angle, tau = normals_at(x, y, a, b)
        cosine, sine, delta = np.cos(angle), np.sin(angle), tau / (a * b)
        np.testing.assert_allclose((a + delta * b) * cosine, x, atol=1e-7)
        np.testing.assert_allclose((b + delta * a) * sine, y, atol=1e-7)
        gap, mixed = a**2 - b**2, 2 * a * x - 2j * b * y
        roots = np.roots([-gap, mixed, 0, -mixed.conjugate(), gap])
        expected = np.sort(np.angle(roots[np.abs(np.abs(roots) - 1) < 1e-7]))
        np.testing.assert_allclose(np.exp(1j * np.sort(angle)), np.exp(1j * expected), atol=1e-6)
        seen.add(len(angle))
    assert seen == {2, 4}


def test_normals_of_a_circle() -> None:
    angle, tau = normals_at(3.0, 4.0, 2.0, 2.0)
    expected = np.arctan2(4.0, 3.0)
    np.testing.assert_allclose(np.sort(angle), [expected - np.pi, expected])
    np.testing.assert_allclose(np.sort(tau), [-14.0, 6.0])  # 2 (distance +- 5)


@pytest.mark.parametrize("swapped", [False, True])
def test_normals_of_a_point_on_an_axis(swapped: bool) -> None:
    """On the long axis within the evolute: both ends of the axis, and two more that are mirror images."""
    angle, _ = normals_at(0.0, 0.5, 1.0, 2.0) if swapped else normals_at(0.5, 0.0, 2.0, 1.0)
    along, across = (np.sin(angle), np.cos(angle)) if swapped else (np.cos(angle), np.sin(angle))
    np.testing.assert_allclose(np.sort(along), [-1, 1 / 3, 1 / 3, 1], atol=1e-12)
    np.testing.assert_allclose(np.sort(across)[[0, -1]], [-np.sqrt(8) / 3, np.sqrt(8) / 3])


def test_normals_near_the_evolute() -> None:
    """Where two normals meet, the pair is found just inside and absent just outside."""
    a, b, angle = 2.0, 1.0, 0.8
    x, y = (a * a - b * b) / a * np.cos(angle) ** 3, (b * b - a * a) / b * np.sin(angle) ** 3
    for factor, count in ((1 - 1e-9, 4), (1 + 1e-9, 2)):
        found, _ = normals_at(factor * x, factor * y, a, b)
        residual = a * factor * x * np.sin(found) - b * factor * y * np.cos(found)
        residual -= (a**2 - b**2) * np.sin(found) * np.cos(found)
        assert len(found) == count
        assert np.abs(residual).max() < 1e-12
