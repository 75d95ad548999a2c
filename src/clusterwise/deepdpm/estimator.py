"""DeepDPM as a scikit-learn estimator: a deep Dirichlet-process mixture, fitted to one data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.affine import AffineMap, fit_column_map
from clusterwise.assigner import Assigner
from clusterwise.deepdpm.feature_learning import FeatureLearner, LearnedSpace, Variants, alternate
from clusterwise.deepdpm.method import History, Settings, Snapshot, fit_mixture
from clusterwise.deepdpm.nets import NetWeights, weighted_statistics
from clusterwise.exceptions import (
    ClusterwiseError,
    ClusterwiseWarning,
    InterruptedWarning,
    OneClusterWarning,
    StillMovingWarning,
)
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.protocol import Clustering, Method, Progress, assign_rows
from clusterwise.fitting.validation import by_feature, require_degrees_of_freedom
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart
from clusterwise.rows import RowSource
from clusterwise.rows.batches import NumberReader
from clusterwise.rows.sorted_rows import Rows, SortedRows

__all__ = ["DeepDPM", "pareto_scaled", "prior_of_clusters"]

# The authors' prior variance of a cluster, in units of the data's. For many rows the prior's scatter matrix
# nu Psi can be a share of that of the data instead: it keeps the number of clusters from growing with the
# number of rows, as clusters are never exactly Gaussian.
MIN_VARIANCE = 0.005
# Rows that tell whether there is anything to tell apart.
ROWS_TO_CHECK = 1000


@dataclass(frozen=True)
class NetAssigner(Assigner):
    """Memberships by the clustering net, outlier scores by the mixture."""

    net: NetWeights
    clusters: Clusters

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return self.net.n_clusters

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """See ``Assigner``."""
        return self.net.memberships(points)

    def outlier_scores(self, points: np.ndarray, n_rows: int) -> np.ndarray:
        """See ``Assigner``."""
        return self.clusters.outlier_scores(points, n_rows)

    def select(self, clusters: np.ndarray) -> NetAssigner:
        """See ``Assigner``."""
        return NetAssigner(self.net.select(clusters), self.clusters.select(clusters))


@dataclass(frozen=True)
class NetState:
    """Where a fit to rows (n, d) has ended, and from where another can go on."""

    snapshot: Snapshot
    shape: tuple[int, int]
    space: LearnedSpace | None


@dataclass(frozen=True)
class NetMethod(Method):
    """What ``DeepDPM`` does with a data set; see ``Method`` and the parameters of the estimator."""

    sees_all_rows: ClassVar[bool] = True

    k_init: int
    feature_learning: Literal["mlp"] | torch.nn.Module | None
    variants: Variants | None
    n_latent: int
    covariance_type: CovarianceType
    scaling: Literal["pareto", "joint", "feature"]
    alpha: float
    mean_precision_prior: float
    degrees_of_freedom_prior: float | None
    scatter_share: float
    covariance_prior: Any
    n_hidden: int
    batch_size: int
    learning_rate: float
    max_epochs: int
    max_clusters: int
    device: str
    before: NetState | None = None  # from where the fit goes on

    def fit_space(self, points: np.ndarray) -> AffineMap:
        """The map to the columns that vary, in their units or in Pareto's."""
        columns = fit_column_map(points, self.scaling == "joint")
        return pareto_scaled(columns) if self.scaling == "pareto" else columns

    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """See ``Method``. An interrupt from the keyboard keeps the state of the last epoch."""
        return [self._cluster(rows, seed, progress) for rows in sets]

    def _cluster(self, rows: SortedRows, seed: int, progress: Progress) -> Clustering:
        columns, points = rows.space, rows.rows
        assert isinstance(columns, AffineMap)
        before = self._before(rows)
        report = partial(_report, progress, self.max_epochs)
        learned, space = None, None
        if self.feature_learning is None:
            if self.variants is not None:
                raise ClusterwiseError("variants are for learned features; set feature_learning='mlp'.")
            n_before = 0 if before is None else len(before.snapshot.history)
            settings = self._settings(columns, points.n_features, len(rows), n_before)
            snapshot = None if before is None else before.snapshot
            snapshot = fit_mixture(seed, points, settings, self.k_init, snapshot, report)
        else:
            space, settings, snapshot = self._learn(seed, columns, points, before, progress, report)
            points = Rows(space.encode(rows.features))
            learned = SortedRows(points, space, rows.order)
        first = Clusters(settings.prior, snapshot.statistics)
        clustering = Clustering(first, NetAssigner(snapshot.weights, first))
        _, in_use, membership = assign_rows(learned or rows, clustering)
        assert isinstance(in_use.assigner, NetAssigner)
        net = in_use.assigner.net
        clusters = Clusters(settings.prior, weighted_statistics(points, membership, settings.prior))
        snapshot = replace(snapshot, weights=net, statistics=clusters.statistics)
        return Clustering(
            clusters,
            NetAssigner(net, clusters),
            cap_reached=net.n_clusters >= self.max_clusters,
            warnings=tuple(_notes(snapshot, points)),
            check="compared",
            k_posterior=snapshot.k_after_moves(),
            learned=learned,
            details=NetState(snapshot, (len(rows), columns.n_columns), space),
        )

    def _before(self, rows: SortedRows) -> NetState | None:
        """The state to go on from, if there is one; it must be of these rows."""
        assert isinstance(rows.space, AffineMap)
        shape = (len(rows), rows.space.n_columns)
        if self.before is not None and shape != self.before.shape:
            n, d = self.before.shape
            raise ClusterwiseError(
                f"warm_start goes on with {n} rows of {d} features, but X has {shape[0]} of {shape[1]}; pass "
                "the same X, or warm_start=False."
            )
        return self.before

    def _learn(
        self,
        seed: int,
        columns: AffineMap,
        rows: Rows,
        before: NetState | None,
        progress: Progress,
        report: Callable[[History], object],
    ) -> tuple[LearnedSpace, Settings, Snapshot]:
        """Let feature learning and clustering take turns."""
        if self.covariance_prior is not None:
            raise ClusterwiseError(
                "covariance_prior is in the units of X, which learned features do not have; leave it out "
                "with feature_learning."
            )
        encoder = self.feature_learning if isinstance(self.feature_learning, torch.nn.Module) else None
        features = rows.take(slice(None))
        space = None if before is None else before.space
        snapshot = None if before is None or space is None else before.snapshot
        if space is None:
            space = LearnedSpace.draw(seed, columns, features, encoder, self.n_latent, self.device)
        stage: Callable[[str], object] = partial(_report_stage, progress)
        stage("neighbours of the rows and their layout")
        learner = FeatureLearner(seed, features, space, self.variants, is_trained=snapshot is not None)
        settings = self._settings(columns, space.n_latent, len(rows), 0)
        found = alternate(learner, seed, features, settings, self.k_init, snapshot, report, stage)
        return learner.space, settings, found

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


def _report(progress: Progress, max_epochs: int, history: History) -> None:
    moves = f"{sum(history.splits)} splits and {sum(history.merges)} merges"
    found = f"{history.n_clusters[-1]} clusters, loss {history.loss[-1]:.4f}, {moves}"
    progress(f"{found}, epoch", len(history), max_epochs)


def _report_stage(progress: Progress, stage: str) -> None:
    progress(stage, 0, 1)


def _notes(snapshot: Snapshot, rows: Rows) -> list[ClusterwiseWarning]:
    """What a user should know about how the fit ended."""
    notes: list[ClusterwiseWarning] = []
    if snapshot.interrupted:
        kept = "the state of its last epoch is kept"
        notes.append(InterruptedWarning(kept=kept, remedy="go on with warm_start=True"))
    elif snapshot.quiet_rounds == 0:
        notes.append(StillMovingWarning(n_epochs=len(snapshot.history)))
    some = rows.take(np.unique(np.linspace(0, len(rows) - 1, ROWS_TO_CHECK).astype(np.int64)))
    if snapshot.weights.n_clusters == 1 and (some != some[0]).any():
        notes.append(OneClusterWarning())
    return notes


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

    _other_k = ("the fit ended while clusters were still being split or merged", "raise max_epochs")
    _keeps_mapped = True
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

    def _make_method(self) -> NetMethod:
        """The method, which goes on from the last ``fit`` if it is to."""
        try:
            torch.zeros(1, device=self.device)
        except (AssertionError, RuntimeError) as error:  # torch's ways to say that there is no such device
            raise ClusterwiseError(
                f"The nets cannot run on device {self.device!r} ({str(error).splitlines()[0]}); "
                "pass device='cpu'."
            ) from error
        before = self._found.details if self.warm_start and hasattr(self, "_found") else None
        shared = {one.name: getattr(self, one.name) for one in fields(NetMethod) if hasattr(self, one.name)}
        return NetMethod(**shared, before=before)

    def _reader_of(self, source: RowSource) -> NumberReader:
        raise ClusterwiseError(
            "DeepDPM is fitted to data in memory or to a numpy.memmap; load the rows, or part of them, "
            "and pass the rest to predict."
        )

    # -- what was found --------------------------------------------------------------------------

    @property
    def _state(self) -> NetState:
        check_is_fitted(self)
        state: NetState = self._found.details
        return state

    @property
    def history_(self) -> History:
        """Clusters, loss, splits and merges of every epoch."""
        return self._state.snapshot.history

    @property
    def n_iter_(self) -> int:
        """Number of epochs."""
        return len(self.history_)

    @property
    def interrupted_(self) -> bool:
        """Whether the keyboard ended the fit."""
        return self._state.snapshot.interrupted

    @property
    def sample_partitions(self) -> Any:
        """There is none, and the error says why."""
        raise AttributeError(
            "DeepDPM learns one partition and has no posterior to draw others from; use DPMixture for that."
        )


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
