"""scikit-learn's own check suite."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import clusterwise
from clusterwise import (
    ACTST,
    AMCP,
    DAC,
    NCP,
    CHiGac,
    Clusterer,
    DeepDPM,
    DPMixture,
    GaussianSearch,
    TablePreparation,
)
from clusterwise.exceptions import FeatureCountError

# The checks come with one to ten features, the weights take two: by contract that is an error unless
# projection="pca" says what to do about it. The networks are tiny because any network must pass.
ESTIMATORS = [
    AMCP(weights="tiny-amcp.safetensors", projection="pca"),
    CHiGac(weights="tiny-chigac.safetensors", projection="pca"),
    DAC(weights="tiny-minimum-loss.safetensors", projection="pca"),
    DAC("anchored", weights="tiny-anchored.safetensors", projection="pca"),
    ACTST(weights="tiny-act-st.safetensors", projection="pca"),
    NCP(weights="tiny-ncp.safetensors", projection="pca", n_orders=5),
    GaussianSearch(),
    DPMixture(n_warm_up=10, n_draws=5, n_chains=1),
    DeepDPM(max_epochs=8, n_hidden=8),
    Clusterer(),
]
# Where sparse input is taken, these read the tags of a classifier if there is ``predict_proba``, and a
# clusterer has none.
OF_CLASSIFIERS = dict.fromkeys(
    ("check_estimator_sparse_array", "check_estimator_sparse_matrix"), "asks a clusterer for classifier_tags"
)


@pytest.fixture(autouse=True)
def beside_the_networks(tiny_networks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimators are built before any fixture runs: they know their weights by a relative path."""
    monkeypatch.chdir(tiny_networks)


def _expected_failures(estimator: BaseEstimator) -> dict[str, str]:
    return OF_CLASSIFIERS if isinstance(estimator, Clusterer) else {}


# scikit-learn itself skips its check of array API input unless that is switched on.
@parametrize_with_checks([*ESTIMATORS, TablePreparation()], expected_failed_checks=_expected_failures)
def test_scikit_learn(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


def test_every_public_estimator_is_checked() -> None:
    assert {type(estimator).__name__ for estimator in ESTIMATORS} == set(clusterwise.ESTIMATORS)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
def test_sparse_tables_in_every_layout(layout: str) -> None:
    X = scipy.sparse.random_array((60, 3), density=0.4, rng=np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a table of zeros need not look like anything
        est = Clusterer(random_state=0).fit(X.asformat(layout))
        expected = Clusterer(random_state=0).fit(X.tocsr()).labels_
    assert est.labels_.tolist() == est.predict(X.asformat(layout)).tolist() == expected.tolist()
    assert est.predict_proba(X.asformat(layout)).shape == (60, est.n_clusters_)


def _chain(error: BaseException | None) -> list[BaseException]:
    return [] if error is None else [error, *_chain(error.__cause__ or error.__context__)]


def test_without_projection_only_the_number_of_features_stands_in_the_way() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(AMCP(weights="tiny-amcp.safetensors"), on_skip=None, on_fail=None)
    failures = {r["check_name"]: _chain(r["exception"]) for r in results if r["status"] == "failed"}
    assert {r["status"] for r in results} >= {"passed", "failed"}
    for name, chain in failures.items():
        assert any(isinstance(error, FeatureCountError) for error in chain), name
