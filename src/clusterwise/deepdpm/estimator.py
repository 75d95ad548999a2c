"""DeepDPM as a scikit-learn estimator: a deep Dirichlet-process mixture, fitted to one data set."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise._threads import one_thread
from clusterwise.affine import AffineMap, fit_column_map
from clusterwise.deepdpm.feature_learning import FeatureLearner, LearnedSpace, Variants, alternate
from clusterwise.deepdpm.method import History, Settings, Snapshot, fit_mixture
from clusterwise.deepdpm.nets import weighted_statistics
from clusterwise.exceptions import (
    CapReachedWarning,
    ClusterwiseError,
    InterruptedWarning,
    OneClusterWarning,
    StillMovingWarning,
)
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.misfit import rows_to_check
from clusterwise.fitting.progress import epoch_progress
from clusterwise.fitting.sorting import SortedRows, fit_column_map_of_file, is_mapped, sort_rows
from clusterwise.fitting.validation import as_points, by_feature, require_degrees_of_freedom
from clusterwise.gaussian.clusters import Clusters, clusters_in_use, outlier_scores_of
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart
from clusterwise.gaussian.sorted_rows import Rows, in_input_order
from clusterwise.rows import as_source

__all__ = ["DeepDPM", "pareto_scaled", "prior_of_clusters"]

# The authors' prior variance of a cluster, in units of the data's. For many rows the prior's scatter matrix
# nu Psi can be a share of that of the data instead: it keeps the number of clusters from growing with the
# number of rows, as clusters are never exactly Gaussian.
MIN_VARIANCE = 0.005


class DeepDPM(BaseClusterer):
    """Deep Dirichlet-process mixture (Ronen et al. 2022): a network learns the memberships, and k is found.

    For one large data set. A clustering net gives each
    row its memberships; it learns to follow a Gaussian mixture that is re-estimated from them, and clusters
    split and merge by the Hastings ratio of a Dirichlet-process mixture until nothing changes. On raw
    features an autoencoder can take turns with the clustering (``feature_learning``).

    Parameters
    ----------
    k_init : int
        Number of clusters to start from; the result hardly depends on it.
    feature_learning : None, "mlp" or torch.nn.Module
        None clusters the features as they are. "mlp" learns ``n_latent`` features with an autoencoder that
        takes turns with the clustering; a module of your own maps rows (n, d) to features (n, f) and gets a
        decoder. It is copied, not changed.
    variants : callable, optional
        For feature learning: ``variants(X, rng)`` draws a variant of each row that belongs to the same
        cluster, such as a shifted image (``clusterwise.ImageVariants``). Rows are then neighbours whatever
        such variation lies between them.
    n_latent : int
        Number of learned features for "mlp".
    covariance_type : {"full", "diag", "spherical"}
        Shape of a cluster. The cost grows with the square of the number of features for "full".
    scaling : {"pareto", "joint", "feature"}
        "pareto" divides each feature by the square root of its standard deviation: wide features stay wider
        than narrow ones, but less so. "joint" keeps the shape of the data; "feature" brings every feature to
        unit variance, for columns in different units.
    alpha : float
        Concentration of the Dirichlet process. Its logarithm is compared with sums over all rows.
    mean_precision_prior : float
        kappa: the prior mean, that of the data, counts as much as this many rows.
    degrees_of_freedom_prior : float, optional
        nu: the prior covariance counts as much as about this many rows; d + 2 by default.
    scatter_share : float
        How fine the clusters are where rows are many: nu Psi is this share of the data's scatter, or 0.005 nu
        of its variance if that is more. 0, the default, is the paper's prior, with which the number of
        clusters may grow with the number of rows; larger shares, such as 1e-4, keep it down.
    covariance_prior : float or array-like of shape (d,), optional
        Prior variance of a cluster by feature in the units of X, instead of ``scatter_share``; nu Psi is nu
        times it.
    n_hidden : int
        Hidden units of each net.
    batch_size : int
        Rows in a training step. An epoch has at most 64 of them.
    learning_rate : float
        Adam's step for the clustering net.
    max_epochs : int
        Most epochs; a fit ends before that when three rounds of splits and merges move nothing.
    max_clusters : int
        Splits end here.
    warm_start : bool
        Go on from the last ``fit``, which must have seen the same X: after an interrupt, or to train for
        longer. A pickled estimator is a checkpoint.
    random_state : int, RandomState or None
    verbose : int
        Print progress.
    device : str
        Where torch runs the nets.

    Attributes
    ----------
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_
        Memberships are those of the clustering net.
    k_posterior_ : dict of int to float
        Distribution of K after one more round of the last splits and merges that were proposed. It says how
        settled the fit is; for a posterior over partitions use ``DPMixture``.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
        Of the mixture, in the units of X. With ``feature_learning`` the means are decoded, and the
        covariances (K, f, f) are those of the learned features.
    history_ : History
        K, loss, accepted splits and merges of every epoch; ``clusterwise.plotting.HistoryDisplay`` draws it.
    n_iter_ : int
        Number of epochs.
    interrupted_ : bool
        Whether the keyboard ended the fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(9, 1, (200, 2))])
    >>> DeepDPM(random_state=0).fit(X).n_clusters_
    2
    """

    _space: AffineMap | LearnedSpace
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "k_init": [Interval(Integral, 1, None, closed="left")],
        "feature_learning": [StrOptions({"mlp"}), torch.nn.Module, None],
        "variants": [callable, None],
        "n_latent": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "scaling": [StrOptions({"pareto", "joint", "feature"})],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "mean_precision_prior": [Interval(Real, 0, None, closed="neither")],
        "degrees_of_freedom_prior": [Interval(Real, 0, None, closed="neither"), None],
        "scatter_share": [Interval(Real, 0, None, closed="left")],
        "covariance_prior": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "n_hidden": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "device": [str],
    }

    def __init__(
        self,
        *,
        k_init: int = 1,
        feature_learning: Literal["mlp"] | torch.nn.Module | None = None,
        variants: Variants | None = None,
        n_latent: int = 10,
        covariance_type: CovarianceType = "full",
        scaling: Literal["pareto", "joint", "feature"] = "pareto",
        alpha: float = 10.0,
        mean_precision_prior: float = 1e-4,
        degrees_of_freedom_prior: float | None = None,
        scatter_share: float = 0.0,
        covariance_prior: Any = None,
        n_hidden: int = 50,
        batch_size: int = 1024,
        learning_rate: float = 5e-3,
        max_epochs: int = 300,
        max_clusters: int = 500,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.k_init = k_init
        self.feature_learning = feature_learning
        self.variants = variants
        self.n_latent = n_latent
        self.covariance_type = covariance_type
        self.scaling = scaling
        self.alpha = alpha
        self.mean_precision_prior = mean_precision_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.scatter_share = scatter_share
        self.covariance_prior = covariance_prior
        self.n_hidden = n_hidden
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.max_clusters = max_clusters
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    # -- fitting ---------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> DeepDPM:
        """Find the clusters of X, (n, d), and how many there are; ``y`` is ignored.

        X may be a ``numpy.memmap``, which is read batch by batch. An interrupt from the keyboard ends the fit
        and keeps the state of the last epoch; ``warm_start=True`` goes on from there.
        """
        started = time.perf_counter()
        self._require_device()
        table = self._table(X)
        before = self._snapshot_before(table)
        self._remember_columns(X)
        seed = self._draw_seed()
        with one_thread():
            columns, rows = table.space, table.rows
            assert isinstance(columns, AffineMap)
            space: AffineMap | LearnedSpace = columns
            report = epoch_progress(self.verbose, self.max_epochs)
            if self.feature_learning is None:
                if self.variants is not None:
                    raise ClusterwiseError("variants are for learned features; set feature_learning='mlp'.")
                settings = self._settings(
                    columns, rows.n_features, len(rows), 0 if before is None else len(before.history)
                )
                snapshot = fit_mixture(seed, rows, settings, self.k_init, before, report)
            else:
                space, rows, settings, snapshot = self._learn(seed, columns, rows, before, report)
            self._store(rows, table.order, space, settings.prior, snapshot)
        self._warn()
        if self.verbose:
            print(
                f"DeepDPM: {self.n_clusters_} clusters in {len(rows)} rows, {self.n_iter_} epochs, "
                f"{time.perf_counter() - started:.2f} s"
            )
        return self

    def _table(self, X: Any) -> SortedRows:
        """The rows of X in the units of the nets; a large mapped file is read as it is needed."""
        if is_mapped(X):
            space = self._scaled(fit_column_map_of_file(X, self.scaling == "joint"))
            return SortedRows(Rows(X, space), space, None)
        if as_source(X) is not None and not isinstance(X, np.memmap):
            raise ClusterwiseError(
                "DeepDPM is fitted to data in memory or to a numpy.memmap; load the rows, or part of them, "
                "and pass the rest to predict."
            )
        return sort_rows(
            as_points(X, self), lambda points: self._scaled(fit_column_map(points, self.scaling == "joint"))
        )

    def _scaled(self, columns: AffineMap) -> AffineMap:
        return pareto_scaled(columns) if self.scaling == "pareto" else columns

    def _learn(
        self,
        seed: int,
        columns: AffineMap,
        rows: Rows,
        before: Snapshot | None,
        report: Callable[[History], object],
    ) -> tuple[LearnedSpace, Rows, Settings, Snapshot]:
        """Let feature learning and clustering take turns."""
        if self.covariance_prior is not None:
            raise ClusterwiseError(
                "covariance_prior is in the units of X, which learned features do not have; leave it out "
                "with feature_learning."
            )
        log = partial(_print_stage, self.verbose)
        encoder = self.feature_learning if isinstance(self.feature_learning, torch.nn.Module) else None
        features = rows.take(slice(None))
        if before is not None and isinstance(self._space, LearnedSpace):
            space = self._space
        else:
            before = None
            space = LearnedSpace.draw(seed, columns, features, encoder, self.n_latent, self.device)
        log("neighbours of the rows and their layout")
        learner = FeatureLearner(seed, features, space, self.variants, is_trained=before is not None)
        settings = self._settings(columns, space.n_latent, len(rows), 0)
        snapshot = alternate(learner, seed, features, settings, self.k_init, before, report, log)
        return learner.space, Rows(learner.space.encode(features)), settings, snapshot

    def _require_device(self) -> None:
        try:
            torch.zeros(1, device=self.device)
        except (AssertionError, RuntimeError) as error:  # torch's ways to say that there is no such device
            raise ClusterwiseError(
                f"The nets cannot run on device {self.device!r} ({str(error).splitlines()[0]}); "
                "pass device='cpu'."
            ) from error

    def _snapshot_before(self, table: SortedRows) -> Snapshot | None:
        """The state to go on from, if there is one."""
        if not self.warm_start or not hasattr(self, "_snapshot"):
            return None
        assert isinstance(table.space, AffineMap)
        shape = (len(table), table.space.n_columns)
        if shape != (len(self.labels_), self.n_features_in_):
            raise ClusterwiseError(
                f"warm_start goes on with {len(self.labels_)} rows of {self.n_features_in_} features, but X "
                f"has {shape[0]} of {shape[1]}; pass the same X, or warm_start=False."
            )
        snapshot: Snapshot = self._snapshot
        return snapshot

    def _settings(self, columns: AffineMap, n_features: int, n: int, n_epochs_before: int) -> Settings:
        variances = None
        if self.covariance_prior is not None:
            given = by_feature(self.covariance_prior, columns.n_columns, "covariance_prior", "positive")
            variances = columns.variances(given)
        prior = prior_of_clusters(
            n_features,
            n,
            self.covariance_type,
            self.mean_precision_prior,
            self.degrees_of_freedom_prior,
            self.scatter_share,
            variances,
        )
        return Settings(
            prior,
            float(self.alpha),
            n_hidden=self.n_hidden,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            max_epochs=n_epochs_before + self.max_epochs,
            max_clusters=self.max_clusters,
            device=self.device,
        )

    def _store(
        self,
        rows: Rows,
        order: np.ndarray | None,
        space: AffineMap | LearnedSpace,
        prior: NormalInverseWishart,
        snapshot: Snapshot,
    ) -> None:
        weights, membership = clusters_in_use(rows, order, snapshot.weights)
        clusters = Clusters(prior, weighted_statistics(rows, membership, prior))
        scores = in_input_order(outlier_scores_of(rows, clusters), order)
        self._store_clusters(space, clusters, weights, in_input_order(membership, order), scores)
        checked = rows_to_check(len(rows))
        self._varies = bool((rows.take(checked) != rows.take(slice(1))).any())
        found = membership[checked].argmax(axis=1)
        self.misfits_ = self._misfits(space, clusters, rows.take(checked), found, judged=True)
        self._snapshot = replace(snapshot, weights=weights, statistics=clusters.statistics)
        self._k_posterior = self._snapshot.k_after_moves()
        self.history_ = snapshot.history
        self.n_iter_ = len(snapshot.history)
        self.interrupted_ = snapshot.interrupted

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Distribution of K after one more round of splits and merges."""
        check_is_fitted(self)
        return self._with_other_k_said(self._k_posterior)

    def _why_other_k(self, likeliest: int) -> tuple[str, str]:
        return "the fit ended while clusters were still being split or merged", "raise max_epochs"

    @property
    def sample_partitions(self) -> Any:
        """There is none, and the error says why."""
        raise AttributeError(
            "DeepDPM learns one partition and has no posterior to draw others from; use DPMixture for that."
        )

    def _warn(self) -> None:
        """Say what a user should know about how the fit ended."""
        if self.interrupted_:
            kept = "the state of its last epoch is kept"
            self._issue(InterruptedWarning(kept=kept, remedy="go on with warm_start=True"))
        elif self._snapshot.quiet_rounds == 0:
            self._issue(StillMovingWarning(n_epochs=self.n_iter_))
        if self.n_clusters_ >= self.max_clusters:
            self._issue(CapReachedWarning(max_clusters=self.max_clusters))
        for misfit in self.misfits_:
            self._issue(misfit)
        if self.n_clusters_ == 1 and self._varies:
            self._issue(OneClusterWarning())


def _print_stage(verbose: int, stage: str) -> None:
    if verbose:
        print(f"DeepDPM: {stage}", flush=True)


def pareto_scaled(columns: AffineMap) -> AffineMap:
    """The map in Pareto's units, from one to columns of unit variance.

    In these units a feature's standard deviation is the root of that in the data, relative to the others,
    and the variance is one on average. An isotropic prior in them is the authors' Psi, a multiple of the
    standard deviations.
    """
    spreads = columns.scale / columns.scale.max()
    return columns.stretched(np.sqrt(spreads / spreads.mean()))


def prior_of_clusters(
    n_features: int,
    n_rows: int,
    covariance_type: CovarianceType,
    kappa: float,
    degrees_of_freedom: float | None,
    scatter_share: float,
    variances: np.ndarray | None = None,
) -> NormalInverseWishart:
    """The prior for this many rows; ``variances`` (f,) are those of a cluster's features.

    Without them nu is f + 2, and nu Psi is a share of the data's scatter, but not less than the authors'.
    """
    if degrees_of_freedom is not None:
        require_degrees_of_freedom(degrees_of_freedom, n_features, covariance_type)
    nu = float(n_features + 2 if degrees_of_freedom is None else degrees_of_freedom)
    if variances is None:
        variances = np.full(n_features, max(MIN_VARIANCE, scatter_share * n_rows / nu))
    return PRIORS[covariance_type](float(kappa), nu, nu * variances)
