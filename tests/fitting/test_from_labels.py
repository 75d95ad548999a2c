"""Estimators with weights that were trained on labels: what other weights can do, in the encoded space."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import clusterwise as cw
from clusterwise.exceptions import FeatureCountError, InvalidDataError, WeightsFileError
from clusterwise.pretrained import Weights, untrained
from clusterwise.training import from_labels

D, SEEN, UNSEEN = 6, 30, 8


def rows_of(n_classes: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(n_classes), each))
    return 50 + 30 * rng.normal(size=(n_classes, D))[y] + 4 * rng.normal(size=(len(y), D)), y


@pytest.fixture(scope="module")
def weights() -> Weights:
    X, y = rows_of(SEEN, 20, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(from_labels, "STEPS_OF_PILOT", 20)
        return cw.train_from_labels(X, y, steps=60, random_state=0, verbose=0)


@pytest.fixture(scope="module")
def new_rows() -> tuple[np.ndarray, np.ndarray]:
    return rows_of(UNSEEN, 25, 1)


@pytest.mark.parametrize("has_cut", [True, False])
def test_unseen_classes_are_found_and_all_else_works(
    weights: Weights, new_rows: tuple[np.ndarray, np.ndarray], has_cut: bool
) -> None:
    """Also by the set network itself, where weights come without a cut."""
    X, y = new_rows
    if not has_cut:
        weights = replace(weights, facts={k: v for k, v in weights.facts.items() if k != "cut"})
    est = cw.AMCP(weights=weights, random_state=0).fit(X)
    assert cw.metrics.matched_accuracy(y, est.labels_) > 0.7
    assert est.membership_.shape == (len(X), est.n_clusters_)
    assert np.allclose(est.membership_.sum(axis=1), 1)
    assert (est.predict(X) == est.labels_).mean() > 0.95
    assert sum(est.k_posterior_.values()) == pytest.approx(1)
    assert est.sample_partitions(4).labels.shape == (4, len(X))
    n_encoded = weights.model.network.n_features  # type: ignore[union-attr]
    assert est.means_.shape == (est.n_clusters_, n_encoded)
    assert est.sample(3)[0].shape == (3, n_encoded)
    assert np.isfinite(est.score_samples(X)).all()
    assert est.outlier_scores_.shape == (len(X),)


def test_a_row_is_predicted_the_same_whatever_stands_beside_it(
    weights: Weights, new_rows: tuple[np.ndarray, np.ndarray]
) -> None:
    X, _ = new_rows
    est = cw.AMCP(weights=weights, random_state=0).fit(X)
    assert np.allclose(est.predict_proba(X)[7:8], est.predict_proba(X[7:8]), rtol=1e-3, atol=1e-9)


def test_data_are_not_scaled_by_themselves(weights: Weights) -> None:
    """One class alone stays one cluster, although its own spread is all that it has."""
    X, y = rows_of(UNSEEN, 60, 2)
    weights = replace(weights, facts={k: v for k, v in weights.facts.items() if k != "cut"})
    est = cw.AMCP(weights=weights, random_state=0).fit(X[y == 0])
    assert est.n_clusters_ <= 2


def test_a_file_does_what_the_weights_do(
    weights: Weights, new_rows: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    X, _ = new_rows
    path = weights.save(tmp_path / "own.safetensors")
    own, stored = (cw.AMCP(weights=w, random_state=0).fit(X) for w in (weights, path))
    assert np.array_equal(own.membership_, stored.membership_)
    assert stored.weights_name_ == "from-labels"
    assert cw.pretrained.describe(path)["n_features"] == D
    control = cw.AMCP(weights=untrained(path), random_state=0).fit(X)
    assert control.labels_.shape == (len(X),)
    with pytest.raises(WeightsFileError, match="not for dac"):
        cw.DAC(weights=path).fit(X)


def test_more_rows_than_the_network_sees(weights: Weights) -> None:
    X, y = rows_of(UNSEEN, 60, 3)
    est = cw.AMCP(weights=weights, max_network_points=150, random_state=0).fit(X)
    assert est.n_network_points_ == 150
    assert cw.metrics.matched_accuracy(y, est.labels_) > 0.7


def test_wrong_columns_are_errors(weights: Weights, new_rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = new_rows
    for projection in (None, "pca"):
        with pytest.raises(FeatureCountError, match="trained on 6; pass the columns"):
            cw.AMCP(weights=weights, projection=projection).fit(X[:, :4])  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="NaN"):
        cw.AMCP(weights=weights).fit(np.where(np.arange(D) == 2, np.nan, X))
    est = cw.AMCP(weights=weights, random_state=0).fit(X)
    with pytest.raises(FeatureCountError):
        est.predict(X[:, :4])
    with pytest.raises(InvalidDataError, match=r"pass images as rows of pixels, X.reshape\(len\(X\), -1\)"):
        cw.AMCP(weights=weights).fit(X.reshape(len(X), 2, 3))


def test_columns_are_known_by_their_names(weights: Weights, new_rows: tuple[np.ndarray, np.ndarray]) -> None:
    """A data frame with its columns in another order would be read wrongly without a word."""
    X, _ = new_rows
    named = replace(weights, facts={**weights.facts, "columns": list("abcdef")})
    frame = pd.DataFrame(X, columns=list("abcdef"))
    own = cw.AMCP(weights=named, random_state=0).fit(frame)
    assert np.array_equal(own.labels_, cw.AMCP(weights=named, random_state=0).fit(X).labels_)
    with pytest.raises(InvalidDataError, match=r"Column 4 of X is 'f', but the weights .* trained on 'e'"):
        cw.AMCP(weights=named).fit(frame[list("abcdfe")])


def test_the_judges_cluster_encodings_too(weights: Weights, new_rows: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = new_rows
    est = cw.Clusterer(encoder=weights, random_state=0).fit(X)
    assert cw.metrics.matched_accuracy(y, est.labels_) > 0.7
    assert np.array_equal(est.predict(X), est.labels_)
    assert np.array_equal(est.labels_, cw.Clusterer(encoder=weights).fit(pd.DataFrame(X)).labels_)
    with pytest.raises(FeatureCountError, match="trained on 6; pass the columns"):
        cw.Clusterer(encoder=weights).fit(X[:, :4])
    with pytest.raises(WeightsFileError, match="have no encoder"):
        cw.Clusterer(encoder="amcp-2d").fit(X)
