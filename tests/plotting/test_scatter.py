"""What the scatter plot of a partition holds."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Ellipse

from clusterwise import Clusterer
from clusterwise.exceptions import InvalidDataError
from clusterwise.plotting import ClusterDisplay, cluster_colours


def drawn_points(ax) -> np.ndarray:
    return np.concatenate([collection.get_offsets() for collection in ax.collections])


@pytest.mark.parametrize("n_features", [1, 2, 5])
@pytest.mark.parametrize("n_clusters", [1, 3, 30])
def test_all_points_and_a_number_per_cluster(make_fitted, n_clusters, n_features):
    estimator, X = make_fitted(n_clusters, n_features)
    ax = ClusterDisplay.from_estimator(estimator, X).ax_
    assert len(drawn_points(ax)) == len(X)
    numbers = [text.get_text() for text in ax.texts if text.get_text().isdecimal()]
    assert numbers == [str(label) for label in range(n_clusters)]
    ellipses = [patch for patch in ax.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == (n_clusters if n_features > 1 else 0)
    ax.figure.canvas.draw()


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
def test_tables_that_were_prepared(make_fitted):
    """Points and ellipses are in the same units, whatever the columns hold."""
    _, X = make_fitted(2)
    frame = pd.DataFrame(1e3 + 1e3 * X, columns=["a", "b"])
    estimator = Clusterer(random_state=0).fit(frame)
    display = ClusterDisplay.from_estimator(estimator, frame)
    low, high = drawn_points(display.ax_).min(axis=0), drawn_points(display.ax_).max(axis=0)
    centres = np.array([patch.center for patch in display.ax_.patches])
    assert len(centres) == estimator.n_clusters_
    assert ((centres > low) & (centres < high)).all()
    assert display.ax_.get_xlabel() == "a (scaled)"
    frame["kind"] = ["u", None] * (len(frame) // 2) + ["w"] * (len(frame) % 2)
    frame.loc[3, "a"] = np.nan
    estimator.fit(frame)
    drawn = drawn_points(ClusterDisplay.from_estimator(estimator, frame).ax_)
    features = estimator.preparation_.transform(frame)
    np.testing.assert_array_equal(drawn, drawn_points(ClusterDisplay.from_estimator(estimator, features).ax_))


# -- ellipses ------------------------------------------------------------------------------------


def test_ellipses_are_the_estimators_own(make_fitted):
    estimator, X = make_fitted(3)
    estimator.covariances_ = np.array([[[1.0, 0.0], [0.0, 4.0]]] * 3)
    ellipses = ClusterDisplay.from_estimator(estimator, X).ax_.patches
    np.testing.assert_allclose([ellipse.center for ellipse in ellipses], estimator.means_)
    assert {(ellipse.width, ellipse.height, abs(ellipse.angle)) for ellipse in ellipses} == {(8.0, 4.0, 90.0)}
    # Gaussians of learned features are not in the plane; those of the clusters' points are.
    estimator.covariances_ = np.tile(np.eye(7), (3, 1, 1))
    assert len(ClusterDisplay.from_estimator(estimator, X).ax_.patches) == 3
    estimator.gaussian_ = False
    assert len(ClusterDisplay.from_estimator(estimator, X).ax_.patches) == 0


@pytest.mark.parametrize("of_points", [False, True])
def test_an_ellipse_holds_the_points_within_two_standard_deviations(make_fitted, of_points):
    estimator, _ = make_fitted(1)
    n, inside = 20_000, 1 - np.exp(-2)  # of a 2-D Gaussian
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    X = np.random.default_rng(0).normal([3, -2], [2, 0.5], (n, 2)) @ turn
    estimator.labels_, estimator.probabilities_ = np.zeros(n, int), np.ones(n)
    estimator.means_ = np.array([[3.0, -2.0]]) @ turn
    estimator.covariances_ = np.eye(7)[None] if of_points else (turn.T @ np.diag([4.0, 0.25]) @ turn)[None]
    (ellipse,) = ClusterDisplay.from_estimator(estimator, X, max_points=100).ax_.patches
    angle = np.radians(ellipse.angle)
    axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    lengths = np.square(2 * (X - ellipse.center) @ axes / [ellipse.width, ellipse.height]).sum(axis=1)
    assert abs(np.mean(lengths <= 1) - inside) < 5 * np.sqrt(inside * (1 - inside) / n)


def test_clusters_without_an_area_have_no_ellipse(make_fitted):
    estimator, _ = make_fitted(1, 3)
    points = np.array([[0.0, 0], [1, 1], [5, 5], [5, 5], [5, 5], [0, 9], [1, 9], [2, 8]])
    estimator.labels_, estimator.probabilities_ = np.array([0, 0, 1, 1, 1, 2, 2, 2]), np.ones(8)
    X = np.column_stack([points, np.zeros(8)])
    assert len(ClusterDisplay.from_estimator(estimator, X).ax_.patches) == 1


# -- points --------------------------------------------------------------------------------------


def test_colours_follow_the_labels(make_fitted):
    estimator, X = make_fitted(3)
    (points,) = ClusterDisplay.from_estimator(estimator, X).ax_.collections
    by_place = {
        tuple(place): to_hex(colour)
        for place, colour in zip(points.get_offsets(), points.get_facecolors(), strict=True)
    }
    expected = [cluster_colours(3)[label].lower() for label in estimator.labels_]
    assert [by_place[tuple(place)] for place in X] == expected


def test_uncertain_points_are_smaller_and_fainter(make_fitted):
    estimator, X = make_fitted(2)
    estimator.probabilities_[:] = 1.0
    estimator.probabilities_[0] = 0.5
    (points,) = ClusterDisplay.from_estimator(estimator, X).ax_.collections
    uncertain = int(np.flatnonzero((points.get_offsets() == X[0]).all(axis=1))[0])
    assert points.get_sizes().argmin() == uncertain
    assert points.get_alpha().argmin() == uncertain


def test_the_number_of_a_cluster_of_one_row_does_not_cover_it():
    points, labels = np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0]]), np.array([0, 0, 1])
    offsets = [text.get_position() for text in ClusterDisplay(points, labels).plot().ax_.texts]
    assert offsets[0] == (0, 0)
    assert offsets[1][1] > 5


def test_large_data_are_thinned_out_and_say_so(make_fitted):
    estimator, X = make_fitted(30)
    ax = ClusterDisplay.from_estimator(estimator, X, max_points=700).ax_
    assert len(drawn_points(ax)) == 700
    assert any("700 of 1,200 points drawn" in text.get_text() for text in ax.texts)
    assert all(collection.get_rasterized() for collection in ax.collections)


def test_pioneers_get_a_ring_and_others_none(make_fitted):
    estimator, X = make_fitted(3)
    assert len(ClusterDisplay.from_estimator(estimator, X).ax_.collections) == 1
    estimator.pioneers_ = np.array([5, 41, 119])
    for max_points in (1000, 10):  # on a random part of the data the pioneers are drawn all the same
        ax = ClusterDisplay.from_estimator(estimator, X, max_points=max_points).ax_
        np.testing.assert_allclose(ax.collections[-1].get_offsets(), X[[5, 41, 119]])
        assert len(ax.collections[-1].get_facecolors()) == 0  # the point itself stays visible


def test_a_few_points_far_out_do_not_squeeze_the_others(make_fitted):
    estimator, X = make_fitted(3)
    labels, near = np.asarray(estimator.labels_), ClusterDisplay.from_estimator(estimator, X)
    assert not any("outside" in text.get_text() for text in near.ax_.texts)
    points = np.concatenate([X, [[1e6, 0.0]]])
    display = ClusterDisplay(points, np.append(labels, labels[0])).plot()
    assert "1 point lies far outside" in [text.get_text() for text in display.ax_.texts]
    assert display.ax_.get_xlim()[1] < X[:, 0].max() + np.ptp(X[:, 0])
    alone = ClusterDisplay(points, np.append(labels, labels.max() + 1)).plot()
    assert alone.ax_.get_xlim()[1] > 1e6  # a cluster is never left out


# -- axes ----------------------------------------------------------------------------------------


def test_names_of_axes_are_no_formulas(make_fitted):
    estimator, X = make_fitted(2)
    frame = pd.DataFrame(X, columns=["east", "north"])
    assert ClusterDisplay.from_estimator(estimator, frame).ax_.get_xlabel() == "east"
    names = ["cost ($) of {x_ ($)", r"$\frac$"]
    figure, ax = plt.subplots()
    display = ClusterDisplay.from_estimator(estimator, frame, column_names=names, ax=ax)
    display.figure_.canvas.draw()
    assert (display.ax_, display.figure_) == (ax, figure)
    assert [ax.get_xlabel(), ax.get_ylabel()] == names


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("n_features", [2, 4])
def test_extreme_scales_can_be_drawn(make_fitted, scale, n_features):
    estimator, X = make_fitted(3, n_features, scale=scale)
    display = ClusterDisplay.from_estimator(estimator, X)
    display.figure_.canvas.draw()
    assert len(display.ax_.patches) == 3
    low, high = display.ax_.get_ylim()
    points = drawn_points(display.ax_)[:, 1]
    assert low < points.min() < points.max() < high < 2 * np.abs(points).max()


def test_other_data_than_those_of_fit(make_fitted):
    estimator, X = make_fitted(2)
    with pytest.raises(InvalidDataError, match="pass the data of fit"):
        ClusterDisplay.from_estimator(estimator, X[1:])
