"""Ellipses hold the share of a Gaussian that they should."""

from __future__ import annotations

import numpy as np

from clusterwise.plotting.ellipses import empirical_ellipses, gaussian_ellipses

N = 20_000
INSIDE = 1 - np.exp(-2)  # of a 2-D Gaussian, within two standard deviations


def share_inside(ellipse, points):
    turn = np.radians(ellipse.angle)
    axes = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return np.mean(np.square((points - ellipse.centre) @ axes / ellipse.half_axes).sum(axis=1) <= 1)


def test_share_of_points_inside():
    rng = np.random.default_rng(0)
    tolerance = 5 * np.sqrt(INSIDE * (1 - INSIDE) / N)
    upright = rng.normal([3, -2], [2, 0.5], (N, 2))
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    slanted, covariance = upright @ turn, turn.T @ np.diag([4.0, 0.25]) @ turn
    (ellipse,) = gaussian_ellipses(np.array([[3.0, -2.0]]) @ turn, covariance[None])
    assert abs(share_inside(ellipse, slanted) - INSIDE) < tolerance
    (ellipse,) = empirical_ellipses(slanted, np.zeros(N, int))
    assert abs(share_inside(ellipse, slanted) - INSIDE) < tolerance


def test_clusters_without_an_area_have_none():
    points = np.array([[0.0, 0], [1, 1], [5, 5], [5, 5], [5, 5], [0, 9], [1, 9], [2, 8]])
    labels = np.array([0, 0, 1, 1, 1, 2, 2, 2])
    (ellipse,) = empirical_ellipses(points, labels)
    np.testing.assert_allclose(ellipse.centre, [1, 26 / 3])
