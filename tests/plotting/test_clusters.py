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


def numbers(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text().isdecimal()]


@pytest.mark.parametrize("n_features", [1, 2, 5])
@pytest.mark.parametrize("n_clusters", [1, 3, 30])
def test_all_points_and_a_number_per_cluster(make_fitted, n_clusters, n_features):
    estimator, X = make_fitted(n_clusters, n_features)
    display = ClusterDisplay.from_estimator(estimator, X)
    assert len(drawn_points(display.ax_)) == len(X)
    assert numbers(display.ax_) == [str(label) for label in range(n_clusters)]
    ellipses = [patch for patch in display.ax_.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == (n_clusters if n_features > 1 else 0)
    display.figure_.canvas.draw()


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


def test_names_are_no_formulas(make_fitted):
    estimator, X = make_fitted(2)
    names = ["cost ($) of {x_ ($)", r"$\frac$"]
    display = ClusterDisplay.from_estimator(estimator, X, column_names=names)
    display.figure_.canvas.draw()
    assert [display.ax_.get_xlabel(), display.ax_.get_ylabel()] == names


def test_ellipses_are_the_estimators_own(make_fitted):
    estimator, X = make_fitted(3)
    estimator.covariances_ = np.array([[[1.0, 0.0], [0.0, 4.0]]] * 3)
    ellipses = ClusterDisplay.from_estimator(estimator, X).ax_.patches
    np.testing.assert_allclose([ellipse.center for ellipse in ellipses], estimator.means_)
    assert {(ellipse.width, ellipse.height, abs(ellipse.angle)) for ellipse in ellipses} == {(8.0, 4.0, 90.0)}


def test_colours_follow_the_labels(make_fitted):
    estimator, X = make_fitted(3)
    (points,) = ClusterDisplay.from_estimator(estimator, X).ax_.collections
    by_place = {
        tuple(place): to_hex(colour)
        for place, colour in zip(points.get_offsets(), points.get_facecolors(), strict=True)
    }
    expected = [cluster_colours(3)[label].lower() for label in estimator.labels_]
    assert [by_place[tuple(place)] for place in X] == expected


def test_doubtful_points_are_smaller_and_fainter(make_fitted):
    estimator, X = make_fitted(2)
    estimator.probabilities_[:] = 1.0
    estimator.probabilities_[0] = 0.5
    (points,) = ClusterDisplay.from_estimator(estimator, X).ax_.collections
    doubtful = int(np.flatnonzero((points.get_offsets() == X[0]).all(axis=1))[0])
    assert points.get_sizes().argmin() == doubtful
    assert points.get_alpha().argmin() == doubtful


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


def test_names_of_axes(make_fitted):
    estimator, X = make_fitted(2)
    frame = pd.DataFrame(X, columns=["east", "north"])
    assert ClusterDisplay.from_estimator(estimator, frame).ax_.get_xlabel() == "east"
    named = ClusterDisplay.from_estimator(estimator, frame, column_names=["x (m)", "y (m)"])
    assert named.ax_.get_ylabel() == "y (m)"


def test_draws_on_given_axes(make_fitted):
    estimator, X = make_fitted(2)
    figure, ax = plt.subplots()
    display = ClusterDisplay.from_estimator(estimator, X, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales_can_be_drawn(make_fitted, scale):
    estimator, X = make_fitted(3, scale=scale)
    display = ClusterDisplay.from_estimator(estimator, X)
    display.figure_.canvas.draw()
    low, high = display.ax_.get_ylim()
    assert low < X[:, 1].min() < X[:, 1].max() < high < 2 * np.abs(X).max()


def test_gaussians_of_learned_features_are_not_drawn(make_fitted):
    """They are not in the plane; the clusters' points have ellipses too."""
    estimator, X = make_fitted(3)
    estimator.covariances_ = np.tile(np.eye(7), (3, 1, 1))
    assert len(ClusterDisplay.from_estimator(estimator, X).ax_.patches) == 3


def test_other_data_than_those_of_fit(make_fitted):
    estimator, X = make_fitted(2)
    with pytest.raises(InvalidDataError, match="pass the data of fit"):
        ClusterDisplay.from_estimator(estimator, X[1:])


def test_pioneers_get_a_ring_and_others_none(make_fitted):
    estimator, X = make_fitted(3)
    assert len(ClusterDisplay.from_estimator(estimator, X).ax_.collections) == 1
    estimator.pioneers_ = np.array([5, 41, 119])
    rings = ClusterDisplay.from_estimator(estimator, X).ax_.collections[-1]
    np.testing.assert_allclose(rings.get_offsets(), X[[5, 41, 119]])
    assert len(rings.get_facecolors()) == 0  # the point itself stays visible
    # On a random part of the data the pioneers are drawn all the same.
    few = ClusterDisplay.from_estimator(estimator, X, max_points=10).ax_.collections[-1]
    np.testing.assert_allclose(few.get_offsets(), X[[5, 41, 119]])


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
