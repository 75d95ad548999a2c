"""DeepDPM as users meet it: the promises of all estimators, and its own."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.deepdpm import feature_learning, method
from clusterwise.exceptions import (
    CapReachedWarning,
    ClusterwiseError,
    NotConvergedWarning,
    OneClusterWarning,
)
from clusterwise.partition import canonical_labels


def make(**options: Any) -> cw.DeepDPM:
    return cw.DeepDPM(**{"random_state": 0, **options})


@pytest.fixture(scope="module")
def heaps() -> tuple[np.ndarray, np.ndarray]:
    """Four clear clusters of 250, 200, 150 and 100 rows in mixed order, far from the origin; (700, 2)."""
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.repeat(np.arange(4), [250, 200, 150, 100]))
    centres = np.array([[0.0, 0.0], [700.0, 0.0], [0.0, 800.0], [900.0, 900.0]])
    return centres[labels] + rng.normal(0, 50, (700, 2)) + [4000.0, -2500.0], canonical_labels(labels)


@pytest.fixture(scope="module")
def fitted(heaps: tuple[np.ndarray, np.ndarray]) -> cw.DeepDPM:
    return make().fit(heaps[0])


def assert_sound(estimator: cw.DeepDPM, X: np.ndarray) -> None:
    n, k = len(X), estimator.n_clusters_
    np.testing.assert_array_equal(np.unique(estimator.labels_), np.arange(k))
    np.testing.assert_array_equal(estimator.labels_, canonical_labels(estimator.labels_))
    assert estimator.membership_.shape == (n, k)
    np.testing.assert_allclose(estimator.membership_.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(estimator.membership_.argmax(axis=1), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    for name in ("means_", "covariances_", "proportions_", "outlier_scores_", "probabilities_"):
        assert np.isfinite(getattr(estimator, name)).all(), name
    assert ((estimator.outlier_scores_ >= 0) & (estimator.outlier_scores_ <= 1)).all()
    assert np.isfinite(estimator.score_samples(X)).all()
    assert np.isfinite(estimator.sample(5)[0]).all()
    assert sum(estimator.k_posterior_.values()) == pytest.approx(1)


# -- what is found -------------------------------------------------------------------------------


def test_clusters_and_their_number(fitted: cw.DeepDPM, heaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = heaps
    assert_sound(fitted, X)
    np.testing.assert_array_equal(fitted.labels_, labels)
    assert fitted.k_posterior_[4] > 0.99
    for k in range(4):
        mine = X[labels == k]
        np.testing.assert_allclose(fitted.means_[k], mine.mean(axis=0), atol=5)
        np.testing.assert_allclose(fitted.covariances_[k], np.cov(mine.T), atol=0.35 * 50**2)
    np.testing.assert_allclose(fitted.proportions_, np.bincount(labels) / 700, atol=0.01)


@pytest.mark.parametrize(
    "options",
    [
        {"covariance_type": "diag"},
        {"covariance_type": "spherical"},
        {"scaling": "joint"},
        {"scaling": "feature"},
        {"k_init": 12},
        {"degrees_of_freedom_prior": 10.0, "covariance_prior": [50.0**2, 60.0**2]},
    ],
    ids=str,
)
def test_options(heaps: tuple[np.ndarray, np.ndarray], options: dict[str, Any]) -> None:
    estimator = make(**options).fit(heaps[0])
    assert_sound(estimator, heaps[0])
    assert adjusted_rand_score(estimator.labels_, heaps[1]) > 0.99


def test_features_in_different_units(heaps: tuple[np.ndarray, np.ndarray]) -> None:
    X, labels = heaps
    np.testing.assert_array_equal(make(scaling="feature").fit_predict(X * [1e-3, 1e3] - 1e5), labels)


def test_history(fitted: cw.DeepDPM) -> None:
    history = fitted.history_
    assert len(history) == fitted.n_iter_ == len(history.loss)
    assert history.n_clusters[0] == 1
    assert history.n_clusters[-1] == 4
    assert sum(history.splits) - sum(history.merges) == 3
    assert set(history.as_arrays()) == {"n_clusters", "loss", "splits", "merges"}


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OneClusterWarning")
def test_a_larger_prior_variance_makes_fewer_clusters(heaps: tuple[np.ndarray, np.ndarray]) -> None:
    assert make(covariance_prior=1e4**2, degrees_of_freedom_prior=500.0).fit(heaps[0]).n_clusters_ == 1
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (3000, 2)), rng.normal([6, 0], 1, (3000, 2))])
    assert [make(scatter_share=share).fit(X).n_clusters_ for share in (2.5e-5, 0.3)] == [2, 1]


# -- interrupts, warm starts, warnings -----------------------------------------------------------


@pytest.fixture
def interrupted_after(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the keyboard interrupt every fit after some epochs; calling it with None ends that."""
    original = method.train_clustering_net
    limit: list[int | None] = [None]

    def train(fit: Any, **options: Any) -> None:
        original(fit, **options)
        if limit[0] is not None and len(fit.history) >= limit[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(method, "train_clustering_net", train)
    return lambda epochs: limit.__setitem__(0, epochs)


def test_interrupt_and_resume(heaps: tuple[np.ndarray, np.ndarray], interrupted_after: Any) -> None:
    X, labels = heaps
    estimator = make(warm_start=True)
    interrupted_after(6)
    with pytest.warns(NotConvergedWarning, match="interrupted.*warm_start=True"):
        estimator.fit(X)
    assert estimator.interrupted_
    assert_sound(estimator, X)
    before = estimator.n_iter_
    interrupted_after(None)
    arrived = pickle.loads(pickle.dumps(estimator)).fit(X)  # a pickle is a checkpoint
    assert not arrived.interrupted_
    assert arrived.n_iter_ > before
    assert arrived.history_.n_clusters[:before] == estimator.history_.n_clusters
    np.testing.assert_array_equal(arrived.labels_, labels)


def test_warm_start_needs_the_same_rows(heaps: tuple[np.ndarray, np.ndarray]) -> None:
    estimator = make(warm_start=True).fit(heaps[0])
    with pytest.raises(ClusterwiseError, match="700 rows of 2 features, but X has 650 of 2"):
        estimator.fit(heaps[0][:650])


def test_still_moving(heaps: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(NotConvergedWarning, match="still splitting or merging after 4 epochs"):
        estimator = make(max_epochs=4).fit(heaps[0])
    assert estimator.n_iter_ == 4
    assert_sound(estimator, heaps[0])


def test_one_cluster_comes_with_advice() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    with pytest.warns(OneClusterWarning, match="ended with one cluster.*smaller covariance_prior"):
        estimator = make().fit(X)
    assert estimator.n_clusters_ == 1
    assert_sound(estimator, X)


def test_the_cap_is_felt(heaps: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(CapReachedWarning, match="cap of 2 clusters.*raise max_clusters"):
        estimator = make(max_clusters=2).fit(heaps[0])
    assert estimator.n_clusters_ == 2


def test_progress(heaps: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    make(verbose=1).fit(heaps[0])
    assert "DeepDPM: 4 clusters in 700 rows" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OneClusterWarning")
@pytest.mark.parametrize("shape", [(5, 1), (200, 1), (30, 12)])
def test_shapes(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).normal(size=shape)
    assert_sound(make().fit(X), X)


def test_bad_parameters(heaps: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ClusterwiseError, match=r"device 'no such device'.*pass device='cpu'"):
        make(device="no such device").fit(heaps[0])
    with pytest.raises(ClusterwiseError, match="above 1 for 2 features"):
        make(degrees_of_freedom_prior=0.5).fit(heaps[0])
    for wrong in (-1.0, [1.0, 2.0, 3.0], [1.0, np.nan]):
        with pytest.raises(ValueError, match="covariance_prior"):
            make(covariance_prior=wrong).fit(heaps[0])


@pytest.mark.parametrize("least", [1, 10**6])
def test_files_that_are_mapped(
    heaps: tuple[np.ndarray, np.ndarray], tmp_path: Any, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    """Large ones are read batch by batch, small ones whole."""
    monkeypatch.setattr("clusterwise.rows.MIN_MAPPED", least)
    X, labels = heaps
    np.save(tmp_path / "x.npy", X)
    estimator = make().fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    np.testing.assert_array_equal(estimator.labels_, labels)


# -- feature learning ----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OneClusterWarning")
@pytest.mark.parametrize("kind", ["mlp", "module"])
def test_feature_learning(
    heaps: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(feature_learning, "FIRST_STEPS", 60)
    monkeypatch.setattr(feature_learning, "STEPS", 20)
    X = heaps[0] @ np.random.default_rng(0).normal(size=(2, 6))
    encoder: Any = "mlp" if kind == "mlp" else torch.nn.Linear(6, 3)
    estimator = make(feature_learning=encoder, n_latent=2).fit(X)
    np.testing.assert_allclose(estimator.membership_.sum(axis=1), 1, rtol=1e-9)
    assert (estimator.predict(X) == estimator.labels_).mean() > 0.999
    n_learned = 2 if kind == "mlp" else 3
    assert estimator.covariances_.shape == (estimator.n_clusters_, n_learned, n_learned)
    assert estimator.means_.shape == (estimator.n_clusters_, 6)
    assert estimator.sample(4)[0].shape == (4, 6)
    assert np.isfinite(estimator.score_samples(X)).all()
    arrived = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_allclose(arrived.predict_proba(X), estimator.predict_proba(X))
    with pytest.raises(ClusterwiseError, match="leave it out with feature_learning"):
        make(feature_learning="mlp", covariance_prior=1.0).fit(X)


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.OneClusterWarning")
def test_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's function sees rows as they were given, constant columns and all."""
    monkeypatch.setattr(feature_learning, "FIRST_STEPS", 60)
    monkeypatch.setattr(feature_learning, "STEPS", 20)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 2, (80, 3)), np.full(80, 7.0)])
    seen = []

    def vary(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        seen.append(rows)
        return rows + rng.normal(0, 0.1, rows.shape)

    make(feature_learning="mlp", n_latent=2, variants=vary).fit(X)
    for rows in seen:
        np.testing.assert_allclose(rows[np.lexsort(rows.T)], X[np.lexsort(X.T)], rtol=1e-9)
    assert seen
    with pytest.raises(ClusterwiseError, match="set feature_learning='mlp'"):
        make(variants=vary).fit(X)
    with pytest.raises(ClusterwiseError, match=r"finite numbers of shape \(80, 4\)"):
        make(feature_learning="mlp", variants=lambda rows, rng: rows[:5]).fit(X)
