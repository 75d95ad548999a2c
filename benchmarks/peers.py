"""Peers from scikit-learn and scikit-network, and lines to compare with. All are built here and only here.

Settings of the peers on mixtures of Gaussians were chosen on 60 and 20 data sets of the `mog` suite's prior
with other seeds, at (1000, 4) and (3000, 12):

- BayesianGaussianMixture, 20 diagonal components: with at most 1000 iterations ARI 0.943 and 0.950;
  with 200 it stops too early, 0.885 and 0.950.
- HDBSCAN, min_cluster_size 10, 20, 30: ARI 0.894, 0.889, 0.884 and 0.907, 0.903, 0.901 with
  ``allow_single_cluster=True``, error in k 0.10, 0.17, 0.25 and 0.95, 1.15, 1.55; without it, 10 gives the
  same ARI and an error in k of 0.35 and 0.95. (At (1000, 4), 20 and 30 without it reach ARI 0.923 and
  0.968, but by calling a data set of one cluster all noise, which ARI takes for one cluster.)
  Much of its loss is noise: with noise points given to the cluster of the nearest other point ARI is
  0.978 and 0.914, so that is an entry of its own.
"""

import contextlib
import ctypes
import importlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import silhouette_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph

from benchmarks.scores import n_clusters
from benchmarks.suite import Case, Method, Outcome

SILHOUETTE_ROWS = 2_000  # of a silhouette, which takes all pairs of rows


def true_k(case: Case) -> int:
    if not case.references:
        raise ValueError("this needs a data set whose true partition is known")
    return n_clusters(case.references[0])


def scikit_learn(case: Case, path: str, k: str | None = None, seeded: bool = True, **options: Any) -> Outcome:
    """Any clusterer of scikit-learn; ``k`` names the argument that gets the true number of clusters."""
    module, _, name = path.rpartition(".")
    given = {} if k is None else {k: true_k(case)}
    given |= {"random_state": case.seed} if seeded else {}
    model = getattr(importlib.import_module(f"sklearn.{module}"), name)(**options, **given)
    labels = model.fit_predict(case.points).astype(np.int64)
    return Outcome(labels, (lambda: float(model.score(case.points))) if module == "mixture" else None)


def bayesian_mixture(case: Case, n_components: int = 20, max_iter: int = 1000, full: bool = False) -> Outcome:
    """Variational Dirichlet-process mixture; its clusters are the components that some point prefers."""
    n, kind = min(n_components, len(case.points)), "full" if full else "diag"
    model = BayesianGaussianMixture(
        n_components=n, covariance_type=kind, max_iter=max_iter, random_state=case.seed
    )

    def log_likelihood() -> float:
        # Its own `score` is an expectation of log densities over the posterior, a little lower than
        # the log density of the mixture that it reports.
        found = GaussianMixture(n, covariance_type=kind)
        found.weights_, found.means_ = model.weights_, model.means_
        found.precisions_cholesky_ = model.precisions_cholesky_
        return float(found.score(case.points))

    return Outcome(model.fit_predict(case.points), log_likelihood)


def gaussian_mixture(case: Case, k_max: int = 20) -> Outcome:
    """Gaussian mixtures with full covariances and 1 to ``k_max`` components; the one with the best BIC."""
    ks = range(1, min(k_max, len(case.points)) + 1)
    models = [GaussianMixture(k, random_state=case.seed).fit(case.points) for k in ks]
    best = min(models, key=lambda model: model.bic(case.points))
    return Outcome(best.predict(case.points), lambda: float(best.score(case.points)))


def hdbscan(case: Case, share: float | None = None, noise: bool = True, **options: Any) -> Outcome:
    """HDBSCAN, noise points labelled -1, or given to the cluster of the nearest point that has one.

    With ``share`` a cluster has at least that share of the rows.
    """
    least = {} if share is None else {"min_cluster_size": max(2, round(share * len(case.points)))}
    labels = HDBSCAN(copy=True, **options, **least).fit_predict(case.points)
    clustered = labels >= 0
    if not noise and clustered.any() and not clustered.all():
        nearest = KNeighborsClassifier(n_neighbors=1).fit(case.points[clustered], labels[clustered])
        labels[~clustered] = nearest.predict(case.points[~clustered])
    return Outcome(labels)


def k_means_by_silhouette(case: Case, k_max: int = 20) -> Outcome:
    """k-means with 2 to ``k_max`` clusters; the one with the best silhouette on a sample of rows."""
    n = len(case.points)
    rows = np.random.default_rng(case.seed).choice(n, min(n, SILHOUETTE_ROWS), replace=False)
    best, found = -np.inf, np.zeros(n, dtype=np.int64)
    for k in range(2, min(k_max, n - 1) + 1):
        labels = KMeans(k, n_init=10, random_state=case.seed).fit_predict(case.points)
        if 2 <= len(np.unique(labels[rows])) < len(rows):
            score = silhouette_score(case.points[rows], labels[rows])
            best, found = (score, labels) if score > best else (best, found)
    return Outcome(found)


def communities(case: Case, algorithm: str, resolution: float, n_neighbors: int = 15) -> Outcome:
    """Leiden or Louvain communities of the graph of nearest neighbours, an edge if either has the other."""
    import sknetwork.clustering

    # scikit-network 0.33 draws from the C library, which its random_state does not reach.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).srand(case.seed)
    graph = kneighbors_graph(case.points, min(n_neighbors, len(case.points) - 1))
    model = getattr(sknetwork.clustering, algorithm)(resolution=resolution, random_state=case.seed)
    return Outcome(np.asarray(model.fit_predict(graph.maximum(graph.T))))


def oracle(case: Case) -> Outcome:
    labels, likelihood = case.oracle_labels, case.oracle_log_likelihood
    if labels is None or likelihood is None:
        raise ValueError("this data set has no oracle")
    return Outcome(labels, lambda: likelihood)


def random_labels(case: Case) -> Outcome:
    """From 2 to 8 clusters, thrown like dice."""
    rng = np.random.default_rng(case.seed)
    return Outcome(rng.integers(rng.integers(2, 9), size=len(case.points)))


def _peer(name: str, run: Callable[..., Outcome], *, at_most: int | None = None, **options: Any) -> Method:
    return Method(name, partial(partial, run, **options), group="scikit-learn", max_points=at_most)


def _communities(algorithm: str, resolution: float) -> Method:
    # The refinement of scikit-network's Leiden does not always end, as its single-precision sums drift:
    # hence a limit, a hundred times what it needs otherwise, and Louvain, which has no refinement.
    name = f"{algorithm}, resolution {resolution:g}"
    method = _peer(name, communities, algorithm=algorithm, resolution=resolution)
    version = f"scikit-network {importlib.metadata.version('scikit-network')}"
    return replace(method, identity=partial(str, version), time_limit=20.0)


def _told(name: str, run: Callable[..., Outcome], *, at_most: int | None = None, **options: Any) -> Method:
    return replace(_peer(name, run, at_most=at_most, **options), kind="reference", sees_truth=True)


_bayesian = partial(_peer, run=bayesian_mixture)
_on_mixtures = partial(_peer, run=hdbscan, min_cluster_size=10, allow_single_cluster=True)  # see above
PEERS = {
    method.name: method
    for method in (
        _bayesian("BayesianGaussianMixture"),
        _bayesian("BayesianGaussianMixture, full", full=True),
        _bayesian("BayesianGaussianMixture (30), full", n_components=30, full=True),
        _bayesian("BayesianGaussianMixture (50), full", n_components=50, full=True, max_iter=100),
        _bayesian("BayesianGaussianMixture (60)", n_components=60),
        _peer("GMM + BIC", gaussian_mixture),
        _peer("GMM + BIC (k to 50)", gaussian_mixture, k_max=50),
        _on_mixtures("HDBSCAN"),
        _on_mixtures("HDBSCAN, noise to nearest", noise=False),
        _peer("HDBSCAN, defaults", hdbscan),
        _peer("HDBSCAN, at least n/50", hdbscan, share=1 / 50),
        _peer("k-means + silhouette", k_means_by_silhouette),
        _peer("MeanShift", scikit_learn, path="cluster.MeanShift", seeded=False, at_most=2_000),
        *(_communities("Leiden", gamma) for gamma in (0.3, 1.0, 2.0)),
        _communities("Louvain", 1.0),
    )
}
_given = partial(_told, run=scikit_learn, k="n_clusters")
REFERENCES = {
    method.name: method
    for method in (
        _told("oracle", oracle),
        _given("k-means (true k)", path="cluster.KMeans", n_init=10),
        _given("spectral clustering (true k)", path="cluster.SpectralClustering", at_most=3_000,
               affinity="nearest_neighbors"),
        _told("GMM (true k)", scikit_learn, path="mixture.GaussianMixture", k="n_components", n_init=3),
        _given("Ward (true k)", path="cluster.AgglomerativeClustering", seeded=False),
        _given("MiniBatchKMeans (true k)", path="cluster.MiniBatchKMeans"),
        replace(_peer("random labels", random_labels), kind="reference"),
    )
}  # fmt: skip
# For data sets with k hidden, and those that are given k.
TABLES = (
    "HDBSCAN, defaults", "HDBSCAN, at least n/50", "GMM + BIC", "BayesianGaussianMixture (30), full",
    "k-means + silhouette", "MeanShift", *(name for name in PEERS if "resolution" in name),
)  # fmt: skip
GIVEN_K = ("k-means (true k)", "spectral clustering (true k)", "GMM (true k)", "Ward (true k)")
