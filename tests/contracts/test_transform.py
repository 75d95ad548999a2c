"""Memberships as features, outlier scores of new rows, many data sets with all that is known of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clusterwise as cw

from .conftest import Make


def test_memberships_as_features(make_each: Make, heaps: np.ndarray) -> None:
    estimator = make_each().fit(heaps)
    np.testing.assert_array_equal(estimator.transform(heaps), estimator.predict_proba(heaps))
    names = [f"{type(estimator).__name__.lower()}{k}" for k in range(estimator.n_clusters_)]
    np.testing.assert_array_equal(estimator.get_feature_names_out(), names)
    pytest.importorskip("pandas")
    frame = estimator.set_output(transform="pandas").transform(heaps)
    assert list(frame.columns) == names


def test_as_a_step_of_a_pipeline(heaps: np.ndarray) -> None:
    features = make_pipeline(cw.GaussianSearch(random_state=0), StandardScaler()).fit_transform(heaps)
    assert features.shape[0] == len(heaps)


def test_outlier_scores_of_new_rows(make_faithful: Make, heaps: np.ndarray) -> None:
    estimator = make_faithful.fitted()
    np.testing.assert_allclose(estimator.score_outliers(heaps), estimator.outlier_scores_, atol=1e-9)
    assert estimator.score_outliers([[1e6, -1e6]])[0] > 0.99


def test_many_data_sets_with_memberships(make_each: Make, heaps: np.ndarray) -> None:
    sets = [heaps, heaps[:70]]
    partitions = make_each().fit_partition_many(sets)
    labels = make_each().fit_predict_many(sets)
    for X, partition, of_set in zip(sets, partitions, labels, strict=True):
        one = make_each().fit(X)
        np.testing.assert_array_equal(partition.labels, of_set)
        np.testing.assert_array_equal(partition.labels, one.labels_)
        np.testing.assert_allclose(partition.memberships, one.membership_, atol=1e-9)
        assert partition.n_clusters == one.n_clusters_


def test_what_deep_dpm_does_not_have_is_explained(make_variant: Callable[..., Any]) -> None:
    with pytest.raises(AttributeError, match=r"learns one partition.*use DPMixture"):
        make_variant("DeepDPM").sample_partitions(3)
