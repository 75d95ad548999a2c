"""The chains of ``DPMixture``: run until they agree, and summed up in a consensus of their draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from clusterwise.affine import AffineMap, fit_column_map, fit_feature_map
from clusterwise.dp.chain import (
    Agreement,
    Chain,
    Convergence,
    Sampler,
    agreement,
    are_enough,
    run_chain,
    summarize,
    traces_of,
)
from clusterwise.dp.state import HyperPrior, LogNormal, average
from clusterwise.exceptions import (
    ChainsDisagreeWarning,
    ClusterwiseError,
    ClusterwiseWarning,
    InterruptedWarning,
)
from clusterwise.fitting.protocol import Clustering, Method, Progress
from clusterwise.fitting.validation import by_feature, require_degrees_of_freedom
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart, statistics_of
from clusterwise.partition import PartitionPosterior
from clusterwise.rows.batches import OnFeatures
from clusterwise.rows.blocks import ChainRows
from clusterwise.rows.sorted_rows import Origin, Rows, SortedRows

__all__ = ["ChainMethod", "Draws"]

# Sampled partitions are kept up to this many labels altogether, and at most this many of them.
MAX_LABELS_KEPT, MAX_PARTITIONS_KEPT = 20_000_000, 200
# Chains are looked at after this many draws; from fewer than these little can be told.
DRAWS_PER_ROUND = 25
MIN_DRAWS = 50
FEW_DRAWS = 10
# Wider tables are projected; columns whose ranges differ by less than this factor keep their scales.
MAX_FEATURES = 32
N_COMPONENTS = 20
MAX_RANGE_RATIO = 10.0
# The consensus compares all pairs of this many partitions, fewer for many rows.
PARTITIONS_COMPARED = 64
LABELS_COMPARED = 4_000_000
# The prior of DeepDPM's authors: kappa, nu - d + 1, and variance as a share of the data's.
WEAK = {"kappa": LogNormal(1e-4, 0.0), "degrees": LogNormal(3.0, 0.0), "variance": LogNormal(0.005, 0.0)}


@dataclass(frozen=True)
class Draws:
    """The chains of one data set, and their agreement."""

    chains: list[Chain]
    n_rows: int  # that the partitions are of
    trace: dict[str, np.ndarray]  # (n_chains, draws) each
    convergence: Convergence
    agreement: Agreement

    @classmethod
    def of(cls, chains: list[Chain], n_rows: int) -> Draws:
        """Sum chains up."""
        trace = traces_of(chains)
        return cls(chains, n_rows, trace, summarize(trace), agreement([chain.partitions for chain in chains]))

    @property
    def k_posterior(self) -> dict[int, float]:
        """Share of the draws with each number of clusters."""
        ks, counts = np.unique(self.trace["n_clusters"], return_counts=True)
        return {int(k): float(share) for k, share in zip(ks, counts / counts.sum(), strict=True)}


@dataclass(frozen=True)
class ChainMethod(Method):
    """The method of ``DPMixture``; see ``Method`` and the parameters of the estimator."""

    sees_all_rows: ClassVar[bool] = True

    covariance_type: CovarianceType
    sampler: Sampler
    projection: Literal["auto"] | None
    prior: Literal["inferred", "weak"]
    alpha: float | None
    mean_prior: Any
    mean_precision_prior: float | None
    degrees_of_freedom_prior: float | None
    covariance_prior: Any
    n_warm_up: int
    n_draws: int
    n_chains: int
    before: Draws | None = None  # whose chains go on
    in_one_round: bool = False  # whether chains are looked at only when they have all draws

    def fit_space(self, points: np.ndarray) -> AffineMap:
        """The map from points (n, d) to columns of unit spread, or to principal components of wide tables."""
        columns = fit_column_map(points, self.covariance_type == "spherical")
        if self.mean_prior is not None:
            columns = columns.centred_at(by_feature(self.mean_prior, columns.n_columns, "mean_prior"))
        by_column = self.mean_prior is not None or self.covariance_prior is not None
        few = columns.n_features <= MAX_FEATURES or len(points) <= N_COMPONENTS
        if self.projection is None or few or by_column or isinstance(points, np.memmap):
            return columns
        low, high = np.quantile(np.ptp(columns.of_columns(points), axis=0), [0.1, 0.9])
        alike = high < MAX_RANGE_RATIO * low  # columns of one kind, such as pixels
        return fit_feature_map(points, N_COMPONENTS, "joint" if alike else "feature")

    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """See ``Method``; a sample of a source tells the units, and by it draws are compared."""
        return [self._cluster(rows, seed, progress) for rows in sets]

    def _cluster(self, rows: SortedRows, seed: int, progress: Progress) -> Clustering:
        hyper_prior, origin = self._hyper_prior(rows), rows.origin
        before = self._chains_before(len(rows))
        if origin is None:
            points, order = rows.rows, rows.order
            labels = [None if chain is None else chain.last.labels for chain in before]
            inputs = [ChainRows.in_memory(points, given) for given in labels]
        else:
            points, order = Rows(rows.in_input_order(rows.features)), None
            features = OnFeatures(origin.read, rows.space, np.asarray)
            blocks = origin.source.hold(features, origin.numbers)
            inputs = [ChainRows(blocks.fork(), points) for _ in range(self.n_chains)]
        chains, stopped = self._run(inputs, hyper_prior, before, seed, progress)
        draws = Draws.of(chains, len(points))
        partitions = np.concatenate([chain.partitions for chain in chains]).astype(np.int32)
        prior = average([state.hyper for chain in chains for state in chain.kept]).prior(hyper_prior)
        clusters = _consensus(points, partitions, prior)
        if origin is not None:
            n = origin.source.n_rows / len(points)  # that each row of the sample stands for
            scaled = replace(clusters, statistics=n * clusters.statistics)
            clusters = _sums_of_all_rows(origin, rows, scaled)
        return Clustering(
            clusters,
            clusters,
            warnings=tuple(_notes(draws, stopped)),
            k_posterior=draws.k_posterior,
            drawn=partitions if order is None else rows.in_input_order(partitions.T).T,
            details=draws,
        )

    def _hyper_prior(self, rows: SortedRows) -> HyperPrior:
        """The priors in the units of the sampler."""
        d = rows.rows.n_features
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
            space = rows.space
            assert isinstance(space, AffineMap)
            given = by_feature(self.covariance_prior, space.n_columns, "covariance_prior", "positive")
            chosen["variance"] = LogNormal(1.0, 0.0)
            chosen["variance_unit"] = space.variances(given)
        return HyperPrior(self.covariance_type, d, **chosen)

    def _chains_before(self, n_rows: int) -> list[Chain | None]:
        """The chains to go on with, or nothing for each."""
        if self.before is None:
            return [None] * self.n_chains
        n_chains = len(self.before.chains)
        if (n_chains, self.before.n_rows) != (self.n_chains, n_rows):
            raise ClusterwiseError(
                f"warm_start goes on with {n_chains} chains over {self.before.n_rows} rows, but there are "
                f"{self.n_chains} chains and {n_rows} rows now; pass the same X and n_chains, or "
                "warm_start=False."
            )
        return list(self.before.chains)

    def _run(
        self,
        inputs: Sequence[ChainRows],
        hyper_prior: HyperPrior,
        before: Sequence[Chain | None],
        seed: int,
        progress: Progress,
    ) -> tuple[list[Chain], bool]:
        """Chains, drawn in rounds, all in turn, until these are enough or each has ``n_draws``.

        ``inputs`` has the rows of each chain. An interrupt from the keyboard, of which the second result
        tells, keeps what there is.
        """
        chains = list(before)
        n_kept = min(MAX_PARTITIONS_KEPT, max(2, MAX_LABELS_KEPT // len(inputs[0].sample)))
        keep_every = min(max(1, -(-self.n_chains * self.n_draws // n_kept)), self.n_draws)
        size = self.n_draws if self.in_one_round else max(DRAWS_PER_ROUND, keep_every)
        generators = np.random.default_rng(seed).spawn(self.n_chains)
        steps = [_StepReport(self, number, progress) for number in range(self.n_chains)]
        for start in range(0, self.n_draws, size):
            count = min(size, self.n_draws - start)
            stopped = False
            for number, rng in enumerate(generators):
                try:
                    chain = run_chain(
                        rng,
                        inputs[number],
                        hyper_prior,
                        self.sampler,
                        self.n_warm_up,
                        count,
                        min(keep_every, count),
                        steps[number],
                        chains[number],
                    )
                except KeyboardInterrupt:
                    stopped = True
                    break
                chains[number] = chain
                if chain.interrupted:
                    stopped = True
                    break
            begun = [chain for chain in chains if chain is not None]
            if not begun:
                raise KeyboardInterrupt
            if stopped or (MIN_DRAWS <= start + count < self.n_draws and are_enough(begun)):
                break
        return begun, stopped


class _StepReport:
    """Report of a chain, called with its number of clusters after every step."""

    def __init__(self, method: ChainMethod, number: int, progress: Progress) -> None:
        self.name = f"chain {number + 1} of {method.n_chains}"
        self.total, self.done, self.progress = method.n_warm_up + method.n_draws, 0, progress

    def __call__(self, n_clusters: int) -> None:
        self.done += 1
        self.progress(f"{self.name}, {n_clusters} clusters, step", self.done, self.total)


def _consensus(rows: Rows, partitions: np.ndarray, prior: NormalInverseWishart) -> Clusters:
    """Clusters of the partition (n,) that is closest to all of some partitions (S, n)."""
    compared = min(PARTITIONS_COMPARED, len(partitions), max(2, LABELS_COMPARED // len(rows)))
    chosen = np.linspace(0, len(partitions) - 1, compared).round().astype(np.int64)
    consensus = PartitionPosterior(partitions[chosen].astype(np.int64)).consensus()
    return Clusters(prior, statistics_of(rows, consensus.labels, consensus.n_clusters, prior))


@dataclass(frozen=True)
class _ClusterSums:
    """The statistics (1, K, p) of rows of features (m, f), each in the cluster that it is assigned to."""

    clusters: Clusters
    n_rows: int

    def __call__(self, features: np.ndarray) -> np.ndarray:
        labels = self.clusters.assign(features, self.n_rows).labels
        return statistics_of(Rows(features), labels, self.clusters.n_clusters, self.clusters.prior)[None]


def _sums_of_all_rows(origin: Origin, rows: SortedRows, clusters: Clusters) -> Clusters:
    """Clusters of all rows of a source, each as clusters of a sample assign it."""
    total = np.zeros_like(clusters.statistics)
    task = OnFeatures(origin.read, rows.space, _ClusterSums(clusters, origin.source.n_rows))
    for sums in origin.source.map(task):
        total += sums.sum(axis=0)
    return Clusters(clusters.prior, total[total[:, 0] > 0.5])


def _notes(draws: Draws, stopped: bool) -> list[ClusterwiseWarning]:
    """Warnings about how the sampling ended."""
    notes: list[ClusterwiseWarning] = []
    if stopped:
        n_draws = sum(len(chain.trace.n_clusters) for chain in draws.chains)
        notes.append(InterruptedWarning(kept=f"{n_draws} draws of {len(draws.chains)} chains are kept"))
    few = draws.trace["alpha"].shape[1] < FEW_DRAWS
    if draws.convergence.is_poor and (few or draws.agreement.is_poor):
        notes.append(
            ChainsDisagreeWarning(
                within=draws.agreement.within,
                between=draws.agreement.between,
                r_hat=draws.convergence.worst_r_hat,
            )
        )
    return notes
