"""What users of DPMixture rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

from clusterwise import DPMixture
from clusterwise.dp import chain_method
from clusterwise.exceptions import ClusterwiseError, InvalidDataError, NotConvergedWarning

pytestmark = pytest.mark.filterwarnings("ignore::clusterwise.exceptions.NotConvergedWarning")
COVARIANCES = ("full", "diag", "spherical")
QUICK: dict[str, Any] = {"n_warm_up": 80, "n_draws": 20, "random_state": 0}


@pytest.fixture(scope="module")
def heaps() -> tuple[np.ndarray, np.ndarray]:
    """Three clusters in units that have nothing to do with each other."""
    rng = np.random.default_rng(3)
    labels = rng.permutation(np.repeat([0, 1, 2], [60, 40, 20]))
    points = np.array([[0.0, 0.0], [6.0, 1.0], [1.0, 7.0]])[labels] + rng.normal(size=(120, 2))
    return points * [1e3, 1e-4] + [5e4, 7.0], labels


@pytest.fixture(scope="module", params=COVARIANCES)
def fitted(request: pytest.FixtureRequest, heaps: tuple[np.ndarray, np.ndarray]) -> DPMixture:
    X = heaps[0] * ([1e-3, 1e4] if request.param == "spherical" else [1.0, 1.0])
    return DPMixture(covariance_type=request.param, **QUICK).fit(X)


@pytest.fixture(scope="module")
def plain(heaps: tuple[np.ndarray, np.ndarray]) -> DPMixture:
    """The one that others are compared with."""
    return DPMixture(**QUICK).fit(heaps[0])


def data_of(fitted: DPMixture, heaps: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    return heaps[0] * ([1e-3, 1e4] if fitted.covariance_type == "spherical" else [1.0, 1.0])


def test_finds_the_clusters_in_any_units(fitted, heaps):
    assert fitted.n_clusters_ == 3
    assert adjusted_rand_score(heaps[1], fitted.labels_) > 0.95
    # A Dirichlet process always allows for a few small clusters more, so the largest P(K) need not be at 3.
    assert sum(fitted.k_posterior_.values()) == pytest.approx(1)


def test_gibbs_finds_them_too(heaps):
    estimator = DPMixture(sampler="gibbs", n_warm_up=20, n_draws=10, random_state=0).fit(heaps[0])
    assert adjusted_rand_score(heaps[1], estimator.labels_) > 0.95


def test_summaries_are_in_the_units_of_the_data(fitted, heaps):
    X = data_of(fitted, heaps)
    for k in range(3):
        rows = X[fitted.labels_ == k]
        spread = X.std(axis=0)
        np.testing.assert_allclose(fitted.means_[k] / spread, rows.mean(axis=0) / spread, atol=0.1)
        drawn_sd = np.sqrt(np.diag(fitted.covariances_[k]))
        np.testing.assert_allclose(drawn_sd, rows.std(axis=0), rtol=0.7)


def test_units_do_not_matter_and_seeds_do(heaps, plain):
    X = heaps[0]
    np.testing.assert_array_equal(DPMixture(**QUICK).fit(X).membership_, plain.membership_)
    other = DPMixture(**QUICK).fit(X * [1e5, 1e-3] - 4)
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    assert not np.array_equal(
        clone(plain).set_params(random_state=1).fit(X).trace_["alpha"], plain.trace_["alpha"]
    )


def test_known_priors_are_used_as_given(heaps):
    X = heaps[0]
    estimator = DPMixture(
        alpha=0.5,
        mean_prior=X.mean(axis=0) + X.std(axis=0),
        mean_precision_prior=0.1,
        degrees_of_freedom_prior=9.0,
        covariance_prior=[1e6, 1e-8],
        **QUICK,
    ).fit(X)
    assert set(np.unique(estimator.trace_["alpha"])) == {0.5}
    prior = estimator._found.density.prior
    assert prior.nu == pytest.approx(9.0)
    scale = estimator._space.scale
    np.testing.assert_allclose(prior.psi * scale**2, 9.0 * np.array([1e6, 1e-8]))
    np.testing.assert_allclose(estimator._space.shift, X.mean(axis=0) + X.std(axis=0))
    assert estimator.n_clusters_ == 3


def test_weak_prior_is_sure_of_clear_clusters(heaps):
    """With inferred hyper-parameters two thirds of P(K) lie above K = 3 here, however long the chains."""
    estimator = DPMixture(prior="weak", **QUICK).fit(heaps[0])
    assert adjusted_rand_score(heaps[1], estimator.labels_) > 0.95
    assert estimator.k_posterior_[3] > 0.8


def test_weak_prior_finds_fewer_clusters_in_what_is_not_gaussian():
    """Rings are no Gaussians: described by many small clusters, unless each must pay for itself."""
    found = {"weak": 0.0, "inferred": 0.0}
    for seed in (2, 3):
        rng = np.random.default_rng(seed)
        angles = rng.uniform(0, 2 * np.pi, 600)
        ring = np.column_stack([np.cos(angles), np.sin(angles)]) + 0.05 * rng.normal(size=(600, 2))
        for prior in found:
            found[prior] += DPMixture(prior=prior, **QUICK).fit(ring).trace_["n_clusters"].mean() / 2
    assert found["weak"] < found["inferred"] - 0.5


def test_wide_clusters_a_priori_mean_few(heaps):
    X = heaps[0]
    wide = DPMixture(covariance_prior=100 * X.var(axis=0), degrees_of_freedom_prior=500.0, **QUICK).fit(X)
    assert wide.n_clusters_ == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"degrees_of_freedom_prior": 0.5}, "above 1"),
        ({"covariance_prior": [1.0, 2.0, 3.0]}, "2 features"),
        ({"covariance_prior": [1.0, -2.0]}, "positive"),
        ({"mean_prior": [np.nan, 0.0]}, "finite"),
        ({"device": "cuda"}, "device"),
        ({"alpha": 0.0}, "alpha"),
    ],
)
def test_impossible_priors_are_named(heaps, wrong, message):
    with pytest.raises(ValueError, match=message):
        DPMixture(**QUICK, **wrong).fit(heaps[0])


def test_warm_start_adds_draws(heaps):
    estimator = DPMixture(warm_start=True, **QUICK).fit(heaps[0])
    first = estimator.trace_["alpha"].copy()
    estimator.set_params(n_draws=5).fit(heaps[0])
    assert estimator.trace_["alpha"].shape == (2, 25)
    np.testing.assert_array_equal(estimator.trace_["alpha"][:, :20], first)
    with pytest.raises(ClusterwiseError, match="120 rows"):
        estimator.fit(heaps[0][:50])


def test_poor_convergence_is_said():
    X = np.random.default_rng(0).standard_t(2, size=(60, 2))
    with pytest.warns(NotConvergedWarning, match="R-hat"):
        DPMixture(n_warm_up=0, n_draws=2, n_chains=2, random_state=0).fit(X)


def test_chains_that_agree_end_sooner():
    rng = np.random.default_rng(0)
    centres = np.repeat([[0.0, 0.0], [8.0, 8.0], [0.0, 9.0]], [120, 60, 30], axis=0)
    estimator = DPMixture(n_draws=200, random_state=0).fit(centres + rng.normal(size=(210, 2)))
    assert estimator.trace_["alpha"].shape[1] < 200
    assert estimator.agreement_.is_enough or estimator.convergence_.is_enough
    assert estimator.agreement_.between > 0.9


def test_wide_tables_are_projected():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 50)
    X = 3 * rng.normal(size=(3, 40))[truth] + rng.normal(size=(150, 40))
    estimator = DPMixture(**QUICK).fit(X)
    assert adjusted_rand_score(truth, estimator.labels_) > 0.95
    assert estimator.means_.shape == (estimator.n_clusters_, 40)
    np.testing.assert_allclose(estimator.means_[estimator.labels_[0]], X[:50].mean(axis=0), atol=0.8)
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    assert estimator.sample(5)[0].shape == (5, 40)


def test_an_interrupt_in_a_later_chain_keeps_the_first(heaps, monkeypatch):
    real, calls = chain_method.run_chain, 0

    def run_chain(*arguments):
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(chain_method, "run_chain", run_chain)
    with pytest.warns(NotConvergedWarning, match="interrupted; 20 draws of 1 chains"):
        estimator = DPMixture(**QUICK).fit(heaps[0])
    assert adjusted_rand_score(heaps[1], estimator.labels_) > 0.9


def test_an_interrupt_keeps_the_draws(heaps, monkeypatch):
    steps = 0

    def interrupt(_report: object, _n_clusters: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 90:
            raise KeyboardInterrupt

    monkeypatch.setattr(chain_method._StepReport, "__call__", interrupt)
    with pytest.warns(NotConvergedWarning, match="interrupted; "):
        estimator = DPMixture(**QUICK).fit(heaps[0])
    assert adjusted_rand_score(heaps[1], estimator.labels_) > 0.9


@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_few_rows_copies_and_constants(covariance_type, n_features):
    estimator = DPMixture(covariance_type=covariance_type, n_warm_up=6, n_draws=4, random_state=0)
    one = estimator.fit(np.full((1, n_features), 3.0))
    assert one.labels_.tolist() == [0]
    assert np.isfinite(one.score_samples(np.full((1, n_features), 3.0))).all()
    assert estimator.fit(np.full((30, n_features), -7.5)).n_clusters_ == 1
    np.testing.assert_array_equal(estimator.means_, np.full((1, n_features), -7.5))
    copies = np.repeat(np.arange(3.0)[:, None] * np.ones(n_features), 20, axis=0)
    labels = estimator.set_params(n_warm_up=30).fit_predict(copies)
    assert all(len(set(labels[i : i + 20])) == 1 for i in (0, 20, 40))


def test_constant_column_changes_nothing(heaps, plain):
    X = heaps[0]
    with_constant = np.column_stack([X[:, :1], np.full(len(X), 2.5), X[:, 1:]])
    other = DPMixture(**QUICK).fit(with_constant)
    np.testing.assert_array_equal(other.labels_, plain.labels_)
    assert (other.means_[:, 1] == 2.5).all()
    assert (other.sample(5)[0][:, 1] == 2.5).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_data_on_disk_are_read_chunk_by_chunk(heaps, tmp_path: Path, dtype, monkeypatch):
    """The same clusters as in memory, without ever holding more than a chunk of the points."""
    from clusterwise.rows.sorted_rows import Rows

    rng = np.random.default_rng(0)
    centres = np.repeat([[0.0, 0.0, 0.0], [9.0, 0.0, 9.0]], 3000, axis=0)
    X = (centres + rng.normal(size=(6000, 3))).astype(dtype)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    largest = 0
    take = Rows.take

    def watched(self: Rows, index: np.ndarray | slice) -> np.ndarray:
        nonlocal largest
        taken = take(self, index)
        largest = max(largest, len(taken))
        return taken

    monkeypatch.setattr(Rows, "take", watched)
    monkeypatch.setattr("clusterwise.rows.sorted_rows.CHUNK", 20_000)
    monkeypatch.setattr("clusterwise.affine.ROWS_AT_ONCE", 500)
    monkeypatch.setattr("clusterwise.rows.MIN_MAPPED", 1000)
    estimator = DPMixture(n_warm_up=20, n_draws=4, n_chains=1, random_state=1).fit(mapped)
    assert largest <= 4000
    assert estimator.n_clusters_ == 2
    assert adjusted_rand_score(np.repeat([0, 1], 3000), estimator.labels_) == 1
    np.testing.assert_array_equal(estimator.predict(X), estimator.labels_)
    broken = np.load(tmp_path / "x.npy", mmap_mode="c")
    broken[4321, 2] = np.inf
    with pytest.raises(InvalidDataError, match="infinity"):
        DPMixture().fit(broken)
