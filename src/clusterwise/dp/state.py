"""Where a chain is: a partition, its clusters' sufficient statistics, and the hyper-parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from clusterwise._compiled import compiled
from clusterwise.dp.hyper import HyperParameters, HyperPrior
from clusterwise.dp.restaurant import log_partition_probability
from clusterwise.gaussian.niw import NormalInverseWishart
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["State", "compact", "draw_categories", "state_of_labels", "statistics_of"]

# What is below the best by more than this does not change a sum in double precision.
NEGLIGIBLE = -40.0


@dataclass(frozen=True)
class State:
    """Labels (n,) from 0 to K-1, all in use, and what follows from them."""

    labels: np.ndarray
    statistics: np.ndarray  # (K, p)
    hyper: HyperParameters

    @property
    def n_clusters(self) -> int:
        """Number of clusters K; each has a point."""
        return len(self.statistics)

    @property
    def counts(self) -> np.ndarray:
        """Points in each cluster, (K,)."""
        counts: np.ndarray = self.statistics[:, 0]
        return counts

    def log_joint(self, prior: NormalInverseWishart) -> float:
        """Log of P(partition) f(X | partition), parameters integrated out."""
        partition = log_partition_probability(self.counts, self.hyper.alpha)
        return partition + float(prior.log_marginal(self.statistics).sum())


def statistics_of(rows: Rows, labels: np.ndarray, n_clusters: int, prior: NormalInverseWishart) -> np.ndarray:
    """Sufficient statistics (K, p), added up over chunks."""
    total = np.zeros((n_clusters, prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics):
        total += prior.statistics(points, labels[part], n_clusters)
    return total


def state_of_labels(rows: Rows, labels: np.ndarray, hyper: HyperParameters, hyper_prior: HyperPrior) -> State:
    """The state with these labels (n,)."""
    values, labels = np.unique(labels, return_inverse=True)
    return State(labels, statistics_of(rows, labels, len(values), hyper.prior(hyper_prior)), hyper)


def compact(state: State) -> State:
    """Drop clusters without points and close the gaps in the labels."""
    in_use = np.bincount(state.labels, minlength=state.n_clusters) > 0
    if in_use.all():
        return state
    new_label = in_use.cumsum() - 1
    return replace(state, labels=new_label[state.labels], statistics=state.statistics[in_use])


def draw_categories(rng: np.random.Generator, logits: np.ndarray) -> np.ndarray:
    """Draw one column for each row of unnormalized log probabilities (n, K), which are overwritten."""
    drawn = np.empty(len(logits), dtype=np.int64)
    _draw_categories(logits, rng.random(len(logits)), drawn)
    return drawn


@compiled
def _draw_categories(logits: np.ndarray, heights: np.ndarray, drawn: np.ndarray) -> None:
    """Write the categories (n,) that numbers ``heights`` (n,) from 0 to 1 stand for."""
    n, k = logits.shape
    for i in range(n):
        best = logits[i, 0]
        for j in range(1, k):
            best = max(best, logits[i, j])
        total = 0.0
        for j in range(k):
            below = logits[i, j] - best
            if below > NEGLIGIBLE:
                total += np.exp(below)
            logits[i, j] = total
        height, place = heights[i] * total, 0
        while place < k - 1 and logits[i, place] <= height:
            place += 1
        drawn[i] = place
