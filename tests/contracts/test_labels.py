"""What ``fit`` leaves behind: labels, memberships, outlier scores, and the network's own path."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from clusterwise import ESTIMATORS
from clusterwise.exceptions import CapReachedWarning, MisfitWarning, OutsidePriorWarning
from clusterwise.partition import canonical_labels

from .conftest import VARIANTS, Make, rows_seen


def test_no_estimator_is_left_out() -> None:
    assert {variant.estimator for variant in VARIANTS.values()} == set(ESTIMATORS)


def test_several_clusters_are_seen(make: Make, heaps: np.ndarray) -> None:
    """Otherwise the other tests here would show nothing."""
    estimator = make.fitted()
    assert 2 <= estimator.n_clusters_ <= 9
    between = np.linspace(estimator.means_[0], estimator.means_[1], 500)
    assert (estimator.predict_proba(between).max(axis=1) < 0.99).sum() > 1


def test_all_have_what_a_report_reads(make: Make, heaps: np.ndarray) -> None:
    estimator = make.fitted()
    assert isinstance(estimator.steps_, tuple)
    name = estimator.weights_name_
    assert name is None or name.startswith("tiny-") or name == "node-judge and partition-judge"
    assert len(estimator.pioneers_) in (0, estimator.n_clusters_)
    for k, covariance in enumerate(estimator.covariances_):
        np.testing.assert_allclose(covariance, covariance.T)
        assert (np.linalg.eigvalsh(covariance) > 0).all(), k


def test_labels_count_from_zero_by_first_appearance_to_the_number_reported(make: Make) -> None:
    estimator = make.fitted()
    k = estimator.n_clusters_
    assert estimator.labels_.shape == (140,)
    assert np.issubdtype(estimator.labels_.dtype, np.integer)
    np.testing.assert_array_equal(estimator.labels_, canonical_labels(estimator.labels_))
    assert k == len(np.unique(estimator.labels_))
    shapes = [getattr(estimator, f"{name}_").shape for name in ("membership", "means", "covariances")]
    assert shapes == [(140, k), (k, 2), (k, 2, 2)]
    assert estimator.proportions_.shape == (k,)
    assert estimator.proportions_.sum() == pytest.approx(1)


def test_memberships_sum_to_one_and_agree_with_the_labels(make: Make, heaps: np.ndarray) -> None:
    estimator = make.fitted()
    np.testing.assert_allclose(estimator.membership_.sum(axis=1), 1, rtol=1e-12)
    assert (estimator.membership_ >= 0).all()
    np.testing.assert_array_equal(estimator.membership_.argmax(axis=1), estimator.labels_)
    np.testing.assert_array_equal(estimator.membership_.max(axis=1), estimator.probabilities_)


def test_summaries_are_those_of_the_rows(make_faithful: Make, heaps: np.ndarray) -> None:
    """Means and covariances in the units of the data; the latter may be shrunk towards the pooled one."""
    estimator = make_faithful.fitted()
    clusters = [heaps[estimator.labels_ == j] for j in range(estimator.n_clusters_)]
    for rows, mean, covariance in zip(clusters, estimator.means_, estimator.covariances_, strict=True):
        if len(rows) < 15:
            continue
        spread = rows.std(axis=0)
        assert (np.abs(mean - rows.mean(axis=0)) < spread).all()
        assert (np.sqrt(np.diag(covariance)) < 3 * spread + 30).all()
        assert (np.sqrt(np.diag(covariance)) > spread / 3).all()
    np.testing.assert_allclose(estimator.proportions_, [len(rows) / 140 for rows in clusters], atol=0.1)


def test_outlier_scores(make_faithful: Make, heaps: np.ndarray) -> None:
    """A far row scores near one even if the network makes it a cluster of its own; the others do not."""
    far = np.vstack([heaps, [[9000.0, 4000.0]]])
    scores = make_faithful().fit(far).outlier_scores_
    assert ((scores >= 0) & (scores <= 1)).all()
    assert scores[-1] > 0.99
    assert np.quantile(scores[:-1], 0.9) < 0.1


def test_outlier_scores_if_every_row_is_a_cluster(make: Make) -> None:
    scores = make().fit([[0.0, 0.0], [1.0, 5.0]]).outlier_scores_
    assert ((scores >= 0) & (scores <= 1)).all()


# -- the network's path --------------------------------------------------------------------------


def test_a_network_sees_some_of_many_rows(make_network: Make, heaps: np.ndarray) -> None:
    points = np.concatenate([heaps, heaps + 1, heaps - 1])
    estimator = make_network().fit(points)
    most = 1024 if isinstance(estimator, cw.AMCP | cw.DAC) else 256
    assert estimator.n_network_points_ == min(len(points), most) > 140


@pytest.mark.parametrize("variant", ["DAC", "DAC, anchored"])
@pytest.mark.parametrize("max_network_points", [1000, 60])
def test_steps_share_out_the_rows_that_were_shown(
    make_variant: Callable[..., Any], heaps: np.ndarray, variant: str, max_network_points: int
) -> None:
    estimator = make_variant(variant, max_network_points=max_network_points).fit(heaps)
    shown = rows_seen(estimator)
    assert shown.sum() == estimator.n_network_points_ == min(140, max_network_points)
    members = np.stack([step.members for step in estimator.steps_])
    np.testing.assert_array_equal(members.sum(axis=0), shown)
    assert len(members) == estimator.n_clusters_
    for step in estimator.steps_:
        assert len(np.unique(estimator.labels_[step.members])) == 1
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


def test_only_anchored_steps_have_an_anchor(make_variant: Callable[..., Any], heaps: np.ndarray) -> None:
    for step in make_variant("DAC, anchored").fit(heaps).steps_:
        assert step.members[step.anchor]
    assert all(step.anchor is None for step in make_variant("DAC").fit(heaps).steps_)
    assert make_variant("ACTST").fit(heaps).steps_ == ()


def test_rows_that_the_network_does_not_see_are_labelled(make_amortized: Make, heaps: np.ndarray) -> None:
    estimator = make_amortized(max_network_points=50).fit(heaps)
    assert estimator.labels_.shape == (140,)
    assert rows_seen(estimator).sum() == 50
    assert estimator.n_clusters_ >= 2


# -- warnings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [1, 2])
@pytest.mark.parametrize("variant", ["AMCP", "DAC", "GaussianSearch"])
def test_the_cap_holds_and_says_so(
    make_variant: Callable[..., Any], heaps: np.ndarray, cap: int, variant: str
) -> None:
    estimator = make_variant(variant, max_clusters=cap)
    if make_variant(variant).fit(heaps).n_clusters_ <= cap:  # two clusters of a tiny network alone
        assert estimator.fit(heaps).cap_reached_ is False
        return
    with pytest.warns(CapReachedWarning, match=f"cap of {cap} clusters.*raise max_clusters") as caught:
        estimator.fit(heaps)
    assert caught[0].filename == __file__  # the warning points here, not into the library
    assert estimator.cap_reached_
    assert estimator.n_clusters_ <= cap
    assert ((estimator.labels_ >= 0) & (estimator.labels_ < cap)).all()


def test_a_cap_that_is_just_enough_is_not_reached(
    make_variant: Callable[..., Any], heaps: np.ndarray
) -> None:
    found = make_variant("GaussianSearch").fit(heaps).n_clusters_
    assert found > 1
    assert make_variant("GaussianSearch", max_clusters=found).fit(heaps).cap_reached_ is False


def test_a_cap_of_one_is_one_cluster(make_amortized: Make, heaps: np.ndarray) -> None:
    with pytest.warns(CapReachedWarning):
        assert make_amortized(max_clusters=1).fit(heaps).n_clusters_ == 1
    with pytest.warns(CapReachedWarning, match=r"^Xs\[0\]: "):
        (labels,) = make_amortized(max_clusters=1).fit_predict_many([heaps])
    assert labels.max() == 0
    assert make_amortized.fitted().cap_reached_ is False


@pytest.mark.parametrize("n", [100, 140])
def test_a_far_row_is_outside_the_prior(make_network: Make, heaps: np.ndarray, n: int) -> None:
    far = np.vstack([heaps[:n], [[1e7, -1e7]]])
    with pytest.warns(OutsidePriorWarning, match="trained on; remove extreme rows or transform") as caught:
        estimator = make_network().fit(far)
    assert caught[0].filename == __file__
    assert np.isfinite(estimator.membership_).all()
    with pytest.warns(OutsidePriorWarning, match=r"^Xs\[0\]: ") as caught:
        make_network().fit_predict_many([far, heaps])
    assert sum(issubclass(one.category, OutsidePriorWarning) for one in caught) == 1
    assert caught[0].filename == __file__


def test_verbose_says_how_it_went(
    make_each: Make, heaps: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    estimator = make_each().fit(heaps)
    assert capsys.readouterr().out == ""
    estimator.set_params(verbose=1).fit(heaps)
    assert f"{estimator.n_clusters_} clusters" in capsys.readouterr().out


def test_ordinary_data_give_no_warning(make_amortized: Make, heaps: np.ndarray) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", MisfitWarning)  # tiny networks alone find clusters that are none
        labels = make_amortized().fit(heaps).predict(heaps)
    assert [str(warning.message) for warning in caught] == []
    assert labels.shape == (140,)
