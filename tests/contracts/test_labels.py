"""What ``fit`` leaves behind: labels, memberships, outlier scores, and the network's own path."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clusterwise.estimators.ncp import NCP
from clusterwise.estimators.polished import PolishedClusterer
from clusterwise.exceptions import CapReachedWarning, OutsidePriorWarning
from clusterwise.partition import canonical_labels

Make = Callable[..., Any]


def test_the_tiny_networks_see_several_clusters(make: Make, heaps: np.ndarray) -> None:
    """Otherwise the other tests here would show nothing."""
    estimator = make().fit(heaps)
    assert 2 <= estimator.n_clusters_ <= 6
    assert len(np.unique(estimator.network_labels_)) >= 2
    between = np.linspace(estimator.means_[0], estimator.means_[1], 500)
    assert (estimator.predict_proba(between).max(axis=1) < 0.99).sum() > 5


def test_labels_count_from_zero_by_first_appearance(make: Make, heaps: np.ndarray) -> None:
    estimator = make().fit(heaps)
    assert estimator.labels_.shape == (140,)
    assert np.issubdtype(estimator.labels_.dtype, np.integer)
    np.testing.assert_array_equal(estimator.labels_, canonical_labels(estimator.labels_))


def test_the_number_reported_is_the_number_used(make: Make, heaps: np.ndarray) -> None:
    for options in ({}, {"refine_steps": 0, "zoom_levels": 0, "merge": False}, {"zoom_levels": 2}):
        estimator = make(**options).fit(heaps)
        k = estimator.n_clusters_
        assert k == len(np.unique(estimator.labels_))
        assert estimator.membership_.shape == (140, k)
        assert estimator.means_.shape == estimator.variances_.shape == (k, 2)
        assert estimator.proportions_.shape == (k,)
        assert estimator.proportions_.sum() == pytest.approx(1)


def test_memberships_sum_to_one_and_agree_with_the_labels(make: Make, heaps: np.ndarray) -> None:
    estimator = make().fit(heaps)
    np.testing.assert_allclose(estimator.membership_.sum(axis=1), 1, rtol=1e-12)
    assert (estimator.membership_ >= 0).all()
    np.testing.assert_array_equal(estimator.membership_.argmax(axis=1), estimator.labels_)
    np.testing.assert_array_equal(estimator.membership_.max(axis=1), estimator.probabilities_)


def test_summaries_are_those_of_the_rows(make: Make, heaps: np.ndarray) -> None:
    """Means and variances in the units of the data; the latter shrunk as if by 5 rows of the pooled one."""
    estimator = make().fit(heaps)
    clusters = [heaps[estimator.labels_ == j] for j in range(estimator.n_clusters_)]
    pooled = sum(len(rows) * rows.var(axis=0) for rows in clusters) / len(heaps)
    for rows, mean, variance in zip(clusters, estimator.means_, estimator.variances_, strict=True):
        np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-3)
        if (
            isinstance(estimator, PolishedClusterer | NCP) and estimator.merge
        ):  # how much is shrunk is estimated
            between = np.sort([rows.var(axis=0), pooled], axis=0)
            assert (variance > 0.95 * between[0]).all()
            assert (variance < 1.05 * between[1]).all()
            continue
        shrunk = (len(rows) * rows.var(axis=0) + 5 * pooled) / (len(rows) + 5)
        np.testing.assert_allclose(variance, shrunk, rtol=0.02)
    np.testing.assert_allclose(estimator.proportions_, [len(rows) / 140 for rows in clusters], atol=1e-3)


def test_outlier_scores(make: Make, heaps: np.ndarray) -> None:
    """A far row scores near one even if the network makes it a cluster of its own; the others do not."""
    far = np.vstack([heaps, [[9000.0, 4000.0]]])
    scores = make().fit(far).outlier_scores_
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scores[-1] > 0.99
    assert np.quantile(scores[:-1], 0.9) < 0.1


def test_outlier_scores_if_every_row_is_a_cluster(make: Make) -> None:
    scores = make().fit([[0.0, 0.0], [1.0, 5.0]]).outlier_scores_
    assert ((scores >= 0) & (scores <= 1)).all()


def test_same_settings_twice(make: Make, heaps: np.ndarray) -> None:
    """A second fit forgets the first one."""
    estimator = make().fit(heaps[:40])
    again = estimator.fit(heaps)
    np.testing.assert_array_equal(again.labels_, make().fit(heaps).labels_)
    assert len(again.network_labels_) == 140


# -- the network's path --------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["minimum-loss", "anchored", "without-density"])
@pytest.mark.parametrize("max_network_points", [1000, 60])
def test_steps_share_out_the_rows_that_were_shown(
    make_variant: Make, heaps: np.ndarray, variant: str, max_network_points: int
) -> None:
    estimator = make_variant(variant, max_network_points=max_network_points).fit(heaps)
    shown = estimator.network_labels_ >= 0
    assert shown.sum() == estimator.n_network_points_ == min(140, max_network_points)
    members = np.stack([step.members for step in estimator.steps_])
    np.testing.assert_array_equal(members.sum(axis=0), shown)
    assert len(members) == len(np.unique(estimator.network_labels_[shown]))
    for step in estimator.steps_:
        assert len(np.unique(estimator.network_labels_[step.members])) == 1
    taken = np.zeros(140, dtype=bool)
    for step in estimator.steps_:
        assert (step.probabilities[taken | ~shown] == 0).all()
        assert ((step.probabilities >= 0) & (step.probabilities <= 1)).all()
        # Who joined was more likely to belong than who did not, but for the anchor, which always joins.
        others = step.members.copy()
        if step.anchor is not None:
            others[step.anchor] = False
        left = shown & ~taken & ~step.members
        assert (
            not others.any()
            or not left.any()
            or step.probabilities[others].min() >= (step.probabilities[left].max())
        )
        taken |= step.members


def test_only_anchored_steps_have_an_anchor(make_variant: Make, heaps: np.ndarray) -> None:
    for step in make_variant("anchored").fit(heaps).steps_:
        assert step.members[step.anchor]
    assert all(step.anchor is None for step in make_variant("minimum-loss").fit(heaps).steps_)
    assert make_variant("act-st").fit(heaps).steps_ == ()


def test_network_labels(make: Make, heaps: np.ndarray) -> None:
    network = make().fit(heaps).network_labels_
    np.testing.assert_array_equal(network, canonical_labels(network))
    printed = make(refine_steps=0, zoom_levels=0, merge=False).fit(heaps).network_labels_
    np.testing.assert_array_equal(network, printed)


def test_rows_that_the_network_does_not_see_are_labelled(make: Make, heaps: np.ndarray) -> None:
    estimator = make(max_network_points=50).fit(heaps)
    assert estimator.labels_.shape == (140,)
    assert (estimator.network_labels_ == -1).sum() == 90
    np.testing.assert_array_equal(estimator.labels_, estimator.predict(heaps))
    assert estimator.n_clusters_ >= 2


# -- warnings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [1, 2])
@pytest.mark.parametrize("options", [{}, {"zoom_levels": 0, "refine_steps": 0, "merge": False}])
def test_the_cap_holds_and_says_so(make_variant: Make, heaps: np.ndarray, cap: int, options: Any) -> None:
    estimator = make_variant("without-density", max_clusters=cap, **options)
    with pytest.warns(CapReachedWarning, match=f"cap of {cap} clusters.*raise max_clusters") as caught:
        estimator.fit(heaps)
    assert caught[0].filename == __file__  # the warning points here, not into the library
    assert estimator.cap_reached_
    assert estimator.n_clusters_ <= cap
    assert ((estimator.labels_ >= 0) & (estimator.labels_ < cap)).all()
    np.testing.assert_array_equal(estimator.predict(heaps), estimator.labels_)


def test_a_cap_of_one_is_one_cluster(make: Make, heaps: np.ndarray) -> None:
    with pytest.warns(CapReachedWarning):
        assert make(max_clusters=1).fit(heaps).n_clusters_ == 1
    with pytest.warns(CapReachedWarning, match=r"^Xs\[0\]: "):
        (labels,) = make(max_clusters=1).fit_predict_many([heaps])
    assert labels.max() == 0


def test_no_cap_no_warning(make: Make, heaps: np.ndarray) -> None:
    assert make().fit(heaps).cap_reached_ is False


@pytest.mark.parametrize("n", [100, 140])
def test_a_far_row_is_outside_the_prior(make: Make, heaps: np.ndarray, n: int) -> None:
    far = np.vstack([heaps[:n], [[1e7, -1e7]]])
    with pytest.warns(OutsidePriorWarning, match="trained on; remove extreme rows or transform") as caught:
        estimator = make().fit(far)
    assert caught[0].filename == __file__
    assert np.isfinite(estimator.membership_).all()
    with pytest.warns(OutsidePriorWarning, match=r"^Xs\[0\]: ") as caught:
        make().fit_predict_many([far, heaps])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_verbose_says_one_line(make: Make, heaps: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    estimator = make().fit(heaps)
    assert capsys.readouterr().out == ""
    estimator.set_params(verbose=1).fit(heaps)
    assert f"{estimator.n_clusters_} clusters in 140 rows" in capsys.readouterr().out


def test_ordinary_data_give_no_warning(make: Make, heaps: np.ndarray) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        labels = make().fit(heaps).predict(heaps)
    assert [str(warning.message) for warning in caught] == []
    assert labels.shape == (140,)
