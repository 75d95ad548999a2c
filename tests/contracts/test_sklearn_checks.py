"""scikit-learn's own check suite."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

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
    CHiGac(weights="tiny-chigac.safetensors", projection="pca", n_draws=2),
    DAC(weights="tiny-minimum-loss.safetensors", projection="pca"),
    DAC("anchored", weights="tiny-anchored.safetensors", projection="pca"),
    ACTST(weights="tiny-act-st.safetensors", projection="pca"),
    NCP(weights="tiny-ncp.safetensors", projection="pca", n_orders=5, refine="em"),
    Clusterer(preparation=None),
    TablePreparation(),
    GaussianSearch(),
    DPMixture(n_warm_up=10, n_draws=5, n_chains=1),
    DeepDPM(max_epochs=8, n_hidden=8),
]


@pytest.fixture(autouse=True)
def beside_the_networks(tiny_networks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimators are built before any fixture runs: they know their weights by a relative path."""
    monkeypatch.chdir(tiny_networks)


# No expected failures. scikit-learn itself skips its check of array API input unless that is switched on.
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


def test_clusterer_with_its_preparation() -> None:
    """Two checks ask what takes sparse matrices and has ``predict_proba`` for its tags as a classifier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(Clusterer(), on_skip=None, on_fail=None)
    failures = {r["check_name"]: r["exception"].__cause__ for r in results if r["status"] == "failed"}
    assert len(results) > 45
    assert set(failures) <= {"check_estimator_sparse_array", "check_estimator_sparse_matrix"}
    for error in failures.values():
        assert isinstance(error, AttributeError)
        assert error.name == "multi_class"


def _chain(error: BaseException | None) -> list[type[BaseException]]:
    return [] if error is None else [type(error), *_chain(error.__cause__ or error.__context__)]


@pytest.mark.parametrize("estimator", [AMCP()])
def test_without_projection_only_the_number_of_features_stands_in_the_way(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_skip=None, on_fail=None)
    failures = {r["check_name"]: _chain(r["exception"]) for r in results if r["status"] == "failed"}
    assert {r["status"] for r in results} >= {"passed", "failed"}
    unexpected = {name: chain for name, chain in failures.items() if FeatureCountError not in chain}
    assert not unexpected
