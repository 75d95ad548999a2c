"""What DeepDPM does with a data set: from the user's numbers to a fit of the nets, and to its clustering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from clusterwise.affine import AffineMap, fit_column_map
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
from clusterwise.fitting.protocol import Assigner, Clustering, Method, Progress, assign_rows
from clusterwise.fitting.validation import by_feature, require_degrees_of_freedom
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart
from clusterwise.rows.sorted_rows import Rows, SortedRows

__all__ = ["NetMethod", "NetState", "pareto_scaled", "prior_of_clusters"]

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
