"""What else may be true of a data set: other clusterings with their probabilities, P(K), drawn partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterwise.assigner import Assigner
from clusterwise.partition import PartitionPosterior
from clusterwise.rows.sorted_rows import SortedRows

__all__ = ["ClusteringPosterior", "log_sampling_correction"]

# Clusterings less probable than this, relative to the others, are left out.
MIN_PROBABILITY = 1e-4


@dataclass(frozen=True)
class ClusteringPosterior:
    """Clusterings of a data set, all their clusters in use, and the probability of each."""

    assigners: Sequence[Assigner]
    probabilities: np.ndarray
    labels: Sequence[np.ndarray] = ()  # (n,) of the sorted rows of each, as in ``Clustering``; empty: none

    @classmethod
    def of(
        cls,
        rows: SortedRows,
        assigners: Sequence[Assigner],
        log_probabilities: np.ndarray,
        labels: Sequence[np.ndarray] = (),
    ) -> ClusteringPosterior:
        """Likely clusterings, given unnormalized log probabilities for rows that were chosen evenly."""
        if rows.weights is not None:
            found = [one.memberships(rows.features) for one in assigners]
            log_probabilities = log_probabilities + [log_sampling_correction(m, rows.weights) for m in found]
        probabilities = np.exp(log_probabilities - log_probabilities.max())
        likely = np.flatnonzero(probabilities >= MIN_PROBABILITY).tolist()
        return cls(
            tuple(assigners[i] for i in likely),
            probabilities[likely] / probabilities[likely].sum(),
            tuple(labels[i] for i in likely if labels),
        )

    @property
    def k_posterior(self) -> dict[int, float]:
        """P(K), sorted by K."""
        by_k = np.bincount([one.n_clusters for one in self.assigners], weights=self.probabilities)
        return {int(k): float(by_k[k]) for k in np.flatnonzero(by_k)}

    def sample(self, rows: SortedRows, n_samples: int, seed: int) -> PartitionPosterior:
        """Partitions of all rows in the input's order: a clustering by its probability, then a cluster a row.

        Clusterings are drawn evenly: of n_samples equally likely ones each comes once.
        """
        rng = np.random.default_rng(seed)
        places = (np.arange(n_samples) + rng.random()) / n_samples
        last = len(self.probabilities) - 1
        drawn = np.minimum(np.searchsorted(self.probabilities.cumsum(), places), last)
        result = np.empty((n_samples, len(rows)), dtype=np.int64)
        for chosen in np.unique(drawn):
            own = self.labels[chosen] if self.labels else np.full(len(rows), -1)
            edges = None
            if (own < 0).any():
                edges = self.assigners[chosen].memberships(rows.features).cumsum(axis=1)[:, :-1]
            for draw in np.flatnonzero(drawn == chosen):
                labels = own
                if edges is not None:
                    labels = np.where(own < 0, (rng.random((len(rows), 1)) > edges).sum(axis=1), own)
                result[draw] = rows.in_input_order(labels)
        return PartitionPosterior(result)


def log_sampling_correction(membership: np.ndarray, weights: np.ndarray) -> float:
    """What the evidence of clusters, memberships (n, K), lacks if rows were chosen unevenly, by weights (n,).

    The evidence takes all mixing weights for equally likely a priori: those in the sample, p_k, in place of
    those among all rows, q_k = p_k w_k / sum_l p_l w_l. The determinant of the change from p to q is the
    product of q_k / p_k. A cluster that fills more of the sample than of the data is thus less probable.
    """
    in_sample = membership.mean(axis=0)
    among_all = weights @ membership / weights.sum()
    tiny = np.finfo(np.float64).tiny
    return float(np.log(np.maximum(among_all, tiny) / np.maximum(in_sample, tiny)).sum())
