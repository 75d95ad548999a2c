"""Dirichlet-process mixture of Gaussians by Markov chain Monte Carlo, as a scikit-learn estimator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise._threads import one_thread
from clusterwise.affine import AffineMap, fit_column_map, fit_feature_map
from clusterwise.dp.blocks import ChainRows
from clusterwise.dp.chain import Chain, Sampler, agreement, are_enough, run_chain, summarize, traces_of
from clusterwise.dp.state import HyperPrior, LogNormal, average
from clusterwise.exceptions import ChainsDisagreeWarning, ClusterwiseError, InterruptedWarning
from clusterwise.fitting.all_rows import BatchFeatures, clusters_of_all_rows
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.batches import survey
from clusterwise.fitting.misfit import rows_to_check
from clusterwise.fitting.progress import batch_progress, chain_progress
from clusterwise.fitting.sorting import SortedRows, fit_column_map_of_file, is_mapped, sort_rows
from clusterwise.fitting.validation import (
    as_points,
    by_feature,
    require_degrees_of_freedom,
    require_positive,
)
from clusterwise.gaussian.clusters import Clusters, clusters_in_use, outlier_scores_of
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart, statistics_of
from clusterwise.gaussian.sorted_rows import Rows, in_input_order
from clusterwise.partition import PartitionPosterior
from clusterwise.rows import Batch, RowSource, as_source

__all__ = ["DPMixture"]

# Sampled partitions are kept up to this many labels altogether, and at most this many of them.
LABELS_KEPT = 20_000_000
PARTITIONS_KEPT = 200
# Rows of a source that tell the units, and by which partitions are compared and proposals prepared.
ROWS_OF_SAMPLE = 10_000
# Chains are looked at after this many draws; fewer than these say little about how far they are.
DRAWS_PER_ROUND = 25
MIN_DRAWS = 50
FEW_DRAWS = 10
# Wider tables are projected; columns whose ranges differ by less than this factor keep their scales.
MAX_FEATURES = 32
N_COMPONENTS = 20
MAX_RANGE_RATIO = 10.0
# The consensus compares all pairs of this many of them, fewer for many rows.
PARTITIONS_COMPARED = 64
LABELS_COMPARED = 4_000_000
# The prior of DeepDPM's authors: kappa, nu - d + 1, and variance as a share of the data's.
WEAK = {"kappa": LogNormal(1e-4, 0.0), "degrees": LogNormal(3.0, 0.0), "variance": LogNormal(0.005, 0.0)}


class DPMixture(BaseClusterer):
    """Dirichlet-process mixture of Gaussians, sampled by Markov chain Monte Carlo.

    Nothing needs tuning: the concentration alpha and the hyper-parameters of the Normal-Inverse-Wishart prior
    are inferred with the clusters, unless they are given.

    Parameters
    ----------
    covariance_type : {"full", "diag", "spherical"}
        Shape of a cluster. The cost grows with the square of the number of features for "full".
    sampler : {"split-merge", "gibbs"}
        "split-merge" draws all labels at once and splits and merges whole clusters: any number of rows.
        "gibbs" is Neal's (2000) algorithm 3, one point at a time: small data, and as a check.
    projection : {"auto"} or None
        "auto": tables with more than 32 columns are projected onto their first 20 principal components,
        unless they are read from a file or priors are given by column. None: all columns count.
    prior : {"inferred", "weak"}
        What is assumed of the clusters where no number is given below. "inferred": the hyper-parameters have
        priors of their own, so the clusters are as narrow and as alike as the data say; for data that are a
        mixture of Gaussians, or nearly so. "weak": the fixed, weak prior of DeepDPM (kappa = 1e-4, nu =
        d + 2, covariance 0.005 times the variance of the data), under which every further cluster must pay
        for itself; for real data with many rows, whose groups are not Gaussian and would otherwise be
        described by many small clusters each.
    alpha : float, optional
        Concentration of the Dirichlet process; by default it has a Gamma(1, 1) prior.
    mean_prior : array-like of shape (d,), optional
        Prior mean of the clusters' means; by default the mean of the data.
    mean_precision_prior : float, optional
        kappa: the prior mean counts as much as this many points.
    degrees_of_freedom_prior : float, optional
        nu, how alike the clusters' covariances are; above d - 1 for "full".
    covariance_prior : float or array-like of shape (d,), optional
        Prior variance of a cluster by feature, in the units of X; Psi is nu times it.
    n_warm_up, n_draws, n_chains : int
        Steps before the first draw, most draws of each chain, and chains. Chains that agree end sooner.
    warm_start : bool
        Go on with the chains of the last ``fit``, which must have seen the same X, and add to their draws.
    random_state : int, RandomState or None
    verbose : int
        Print progress.
    device : str
        Only "cpu"; here because all estimators have it.

    Attributes
    ----------
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_
        Of the partition that is closest to all drawn ones (least expected Variation of Information).
    k_posterior_ : dict of int to float
        Share of the draws with each number of clusters.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
    alpha_ : float
        Mean of alpha over the draws.
    trace_ : dict of str to ndarray of shape (n_chains, draws)
        Number of clusters, log joint probability, alpha and share of the largest cluster of every draw.
    convergence_ : Convergence
        R-hat and effective sample size of these.
    agreement_ : Agreement
        How alike the partitions of one chain are, and those of different chains (adjusted Rand index).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(9, 1, (50, 2))])
    >>> DPMixture(n_draws=100, random_state=0).fit(X).n_clusters_
    2
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "sampler": [StrOptions({"split-merge", "gibbs"})],
        "projection": [StrOptions({"auto"}), None],
        "prior": [StrOptions({"inferred", "weak"})],
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "mean_prior": ["array-like", None],
        "mean_precision_prior": [Interval(Real, 0, None, closed="neither"), None],
        "degrees_of_freedom_prior": [Interval(Real, 0, None, closed="neither"), None],
        "covariance_prior": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "n_warm_up": [Interval(Integral, 0, None, closed="left")],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "device": [StrOptions({"cpu"})],
    }

    def __init__(
        self,
        *,
        covariance_type: CovarianceType = "full",
        sampler: Sampler = "split-merge",
        projection: Literal["auto"] | None = "auto",
        prior: Literal["inferred", "weak"] = "inferred",
        alpha: float | None = None,
        mean_prior: Any = None,
        mean_precision_prior: float | None = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: Any = None,
        n_warm_up: int = 60,
        n_draws: int = 100,
        n_chains: int = 2,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.covariance_type = covariance_type
        self.sampler = sampler
        self.projection = projection
        self.prior = prior
        self.alpha = alpha
        self.mean_prior = mean_prior
        self.mean_precision_prior = mean_precision_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.n_warm_up = n_warm_up
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    # -- fitting ---------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> DPMixture:
        """Find the clusters of X, (n, d), and how many there are; ``y`` is ignored.

        X may be a ``numpy.memmap``; with a million numbers or more it is read chunk by chunk and never
        copied. Parquet files, Arrow datasets and collections of dask are sampled in blocks, those of dask
        where they are. An interrupt from the keyboard ends the sampling and keeps the draws so far, if there
        are any.
        """
        source = None if isinstance(X, np.memmap) else as_source(X)
        if source is not None:
            return self._fit_source(source)
        started = time.perf_counter()
        table = self._table(X)
        before = self._chains_before(len(table))
        self._remember_columns(X)
        self._seed = self._draw_seed()
        hyper_prior = self._hyper_prior(table)
        with one_thread():
            labels = [None if chain is None else chain.last.labels for chain in before]
            rows = [ChainRows.in_memory(table.rows, given) for given in labels]
            self._chains = self._run(rows, hyper_prior, before)
            self._store(table, hyper_prior)
        self._warn()
        if self.verbose:
            print(f"DPMixture: {self.n_clusters_} clusters, {time.perf_counter() - started:.2f} s")
        return self

    def _fit_source(self, source: RowSource) -> DPMixture:
        """Sample partitions of rows that stay where they are; some of them tell units and compare draws."""
        started = time.perf_counter()
        if self.sampler == "gibbs" or self.warm_start:
            raise ClusterwiseError(
                "DPMixture needs data in memory for sampler='gibbs' and for warm_start=True; pass an array, "
                "or leave these out."
            )
        self._set_columns(source)
        self._seed = self._draw_seed()
        read, n = self._batch_reader(), source.n_rows
        with one_thread():
            progress = batch_progress("DPMixture", self.verbose)
            sample = survey(source, read, ROWS_OF_SAMPLE, self._seed, progress)
            points = read(Batch(sample.data, 0, "the sample", 0)).astype(np.float64)
            table = self._table(points)
            hyper_prior, space = self._hyper_prior(table), table.space
            features, rows = BatchFeatures(read, space), Rows(space.apply(points))
            blocks = source.hold(features, sample.rows)
            of_chains = [ChainRows(blocks.fork(), rows) for _ in range(self.n_chains)]
            self._chains = self._run(of_chains, hyper_prior, [None] * self.n_chains)
            prior, labels, k = self._store_chains(hyper_prior, len(rows))
            statistics = statistics_of(rows, labels, k, prior) * (n / len(rows))
            clusters = clusters_of_all_rows(source, features, Clusters(prior, statistics))
        self._order: np.ndarray | None = None
        self.sample_rows_ = sample.rows
        found = clusters.memberships(rows.points).argmax(axis=1)
        self.misfits_ = self._misfits(space, clusters, rows.points, found, judged=True)
        self._store_clusters_of(source, space, clusters, clusters)
        self._warn()
        if self.verbose:
            print(f"DPMixture: {self.n_clusters_} clusters, {time.perf_counter() - started:.2f} s")
        return self

    @property
    def _joint(self) -> bool:
        return self.covariance_type == "spherical"

    def _table(self, X: Any) -> SortedRows:
        """The rows of X in the units of the sampler; a large mapped file is read as it is needed."""
        if is_mapped(X):
            space = self._centred(fit_column_map_of_file(X, self._joint))
            return SortedRows(Rows(X, space), space, None)
        return sort_rows(as_points(X, self), self._fit_space)

    def _centred(self, columns: AffineMap) -> AffineMap:
        """The map with zero at the mean of the prior, if there is one."""
        if self.mean_prior is None:
            return columns
        return columns.centred_at(by_feature(self.mean_prior, columns.n_columns, "mean_prior"))

    def _fit_space(self, points: np.ndarray) -> AffineMap:
        """The map from points (n, d) to columns of unit spread, or to principal components of wide tables."""
        columns = self._centred(fit_column_map(points, self._joint))
        by_column = self.mean_prior is not None or self.covariance_prior is not None
        few = columns.n_features <= MAX_FEATURES or len(points) <= N_COMPONENTS
        if self.projection is None or few or by_column:
            return columns
        low, high = np.quantile(np.ptp(columns.of_columns(points), axis=0), [0.1, 0.9])
        alike = high < MAX_RANGE_RATIO * low  # columns of one kind, such as pixels
        return fit_feature_map(points, N_COMPONENTS, "joint" if alike else "feature")

    def _chains_before(self, n_rows: int) -> list[Chain | None]:
        """The chains to go on with, or nothing for each."""
        if not self.warm_start or not hasattr(self, "_chains"):
            return [None] * self.n_chains
        if len(self._chains) != self.n_chains or len(self.labels_) != n_rows:
            raise ClusterwiseError(
                f"warm_start goes on with {len(self._chains)} chains over {len(self.labels_)} rows, but "
                f"there are {self.n_chains} chains and {n_rows} rows now; pass the same X and "
                "n_chains, or warm_start=False."
            )
        return list(self._chains)

    def _hyper_prior(self, table: SortedRows) -> HyperPrior:
        """The priors in the units of the sampler."""
        space, d = table.space, table.rows.n_features
        chosen: dict[str, Any] = dict(WEAK) if self.prior == "weak" else {}
        if self.alpha is not None:
            chosen["alpha"] = float(self.alpha)
        if self.mean_precision_prior is not None:
            chosen["kappa"] = LogNormal(float(self.mean_precision_prior), 0.0)
        if self.degrees_of_freedom_prior is not None:
            require_degrees_of_freedom(self.degrees_of_freedom_prior, d, self.covariance_type)
            degrees = float(self.degrees_of_freedom_prior) - (d - 1 if self.covariance_type == "full" else 0)
            chosen["degrees"] = LogNormal(degrees, 0.0)
        if self.covariance_prior is not None:
            assert isinstance(space, AffineMap)
            given = by_feature(self.covariance_prior, space.n_columns, "covariance_prior", "positive")
            chosen["variance"] = LogNormal(1.0, 0.0)
            chosen["variance_unit"] = space.variances(given)
        return HyperPrior(self.covariance_type, d, **chosen)

    def _run(
        self,
        rows: Sequence[ChainRows],
        hyper_prior: HyperPrior,
        before: list[Chain | None],
    ) -> list[Chain]:
        """Draw in rounds, all chains in turn, until these are enough or each chain has ``n_draws``.

        ``rows`` has those of each chain.
        """
        n_kept = min(PARTITIONS_KEPT, max(2, LABELS_KEPT // len(rows[0].sample)))
        keep_every = max(1, -(-self.n_chains * self.n_draws // n_kept))
        keep_every = min(keep_every, self.n_draws)
        # Chains that go on were asked for more draws.
        size = self.n_draws if self.warm_start else max(DRAWS_PER_ROUND, keep_every)
        generators = np.random.default_rng(self._seed).spawn(self.n_chains)
        names = [f"DPMixture, chain {number + 1} of {self.n_chains}" for number in range(self.n_chains)]
        reports = [chain_progress(name, self.verbose, self.n_warm_up + self.n_draws) for name in names]
        chains = before
        self._interrupted = False
        for start in range(0, self.n_draws, size):
            count = min(size, self.n_draws - start)
            try:
                for number, rng in enumerate(generators):
                    chains[number] = run_chain(
                        rng,
                        rows[number],
                        hyper_prior,
                        self.sampler,
                        self.n_warm_up,
                        count,
                        min(keep_every, count),
                        reports[number],
                        chains[number],
                    )
                    if chains[number].interrupted:  # type: ignore[union-attr]
                        raise KeyboardInterrupt
            except KeyboardInterrupt:  # with what other chains have, or this one had before
                self._interrupted = True
            begun = [chain for chain in chains if chain is not None]
            if not begun:
                raise KeyboardInterrupt
            if self._interrupted or (MIN_DRAWS <= start + count < self.n_draws and are_enough(begun)):
                break
        return begun

    def _store_chains(self, hyper_prior: HyperPrior, n: int) -> tuple[NormalInverseWishart, np.ndarray, int]:
        """Keep what chains say of n rows: the prior in use, labels of a consensus, its number of clusters."""
        self.trace_ = traces_of(self._chains)
        self.convergence_ = summarize(self.trace_)
        self.alpha_ = float(self.trace_["alpha"].mean())
        ks, shares = np.unique(self.trace_["n_clusters"], return_counts=True)
        self._k_posterior = {int(k): float(share) for k, share in zip(ks, shares / shares.sum(), strict=True)}
        partitions = [chain.partitions for chain in self._chains]
        self._partitions = np.concatenate(partitions).astype(np.int32)
        self.agreement_ = agreement(partitions)
        n_kept = len(self._partitions)
        compared = min(PARTITIONS_COMPARED, n_kept, max(2, LABELS_COMPARED // n))
        chosen = np.linspace(0, n_kept - 1, compared).round().astype(np.int64)
        consensus = PartitionPosterior(self._partitions[chosen].astype(np.int64)).consensus()
        hyper = average([state.hyper for chain in self._chains for state in chain.kept])
        prior = hyper.prior(hyper_prior)
        return prior, consensus.labels, consensus.n_clusters

    def _store(self, table: SortedRows, hyper_prior: HyperPrior) -> None:
        prior, labels, k = self._store_chains(hyper_prior, len(table.rows))
        statistics = statistics_of(table.rows, labels, k, prior)
        clusters, membership = clusters_in_use(table.rows, table.order, Clusters(prior, statistics))
        self._order = table.order
        rows = rows_to_check(len(table.rows))
        labels = membership[rows].argmax(axis=1)
        self.misfits_ = self._misfits(table.space, clusters, table.rows.take(rows), labels, judged=True)
        self._store_clusters(
            table.space,
            clusters,
            clusters,
            in_input_order(membership, table.order),
            in_input_order(outlier_scores_of(table.rows, clusters), table.order),
        )

    def _warn(self) -> None:
        """Say what a user should know about how the sampling ended."""
        if self._interrupted:
            n_draws = sum(len(chain.trace.n_clusters) for chain in self._chains)
            kept = f"{n_draws} draws of {len(self._chains)} chains are kept"
            self._issue(InterruptedWarning(kept=kept))
        for misfit in self.misfits_:
            self._issue(misfit)
        few = self.trace_["alpha"].shape[1] < FEW_DRAWS
        if self.convergence_.is_poor and (few or self.agreement_.is_poor):
            self._issue(
                ChainsDisagreeWarning(
                    within=self.agreement_.within,
                    between=self.agreement_.between,
                    r_hat=self.convergence_.worst_r_hat,
                )
            )

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Share of the draws with each number of clusters."""
        check_is_fitted(self)
        return self._with_other_k_said(self._k_posterior)

    def _why_other_k(self, likeliest: int) -> tuple[str, str]:
        return (
            "the labels are the partition that is closest to all draws, and small clusters that come and go "
            "are not part of it",
            "see sample_partitions for the draws",
        )

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Partitions of the rows of ``fit`` from the posterior: draws of the chains, spread evenly.

        If you request more than were kept, some are repeated.
        """
        check_is_fitted(self)
        require_positive(n_samples)
        chosen = np.linspace(0, len(self._partitions) - 1, n_samples).round().astype(np.int64)
        return PartitionPosterior(in_input_order(self._partitions[chosen].T, self._order).T.astype(np.int64))
