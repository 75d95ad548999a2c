"""The judge of partitions: which candidate is most like the truth, how many clusters are there?

Its network and loss; ``clusterer.judges`` has the same network in numpy, for fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, log_softmax

from clusterwise.clusterer.features import (
    BICS,
    LOG_ROWS,
    MODULARITIES,
    N_CLUSTER_FEATURES,
    N_PARTITION_FEATURES,
    PartitionFeatures,
)
from clusterwise.clusterer.judges import FARTHEST_FEATURE, LOG_NATS, SIMILAR, SMALL_MODULARITY
from clusterwise.papers.model import TrainedModel

__all__ = [
    "CandidateTask",
    "Judgement",
    "PartitionJudge",
    "PartitionJudgeConfig",
    "pack_candidates",
]

# Candidates count as equally good if their ARI differs by much less than this.
TOLERANCE = 0.03
NEVER = -1e9


@dataclass(frozen=True)
class PartitionJudgeConfig:
    """Sizes of the network."""

    width: int = 64
    n_rounds: int = 2  # of comparison between candidates
    n_features: int = N_CLUSTER_FEATURES
    n_partition_features: int = N_PARTITION_FEATURES


@dataclass(frozen=True)
class CandidateTask:
    """Candidates of B data sets, at most C each, with R clusters altogether."""

    clusters: Tensor  # (R, f)
    shares: Tensor  # (R,) of the rows
    owners: Tensor  # (R,) b * C + c: the candidate that a cluster belongs to
    partition: Tensor  # (B, C, g)
    present: Tensor  # (B, C) bool
    agreements: Tensor  # (B, C, C) adjusted Rand index between candidates
    n_clusters: Tensor  # (B, C)
    qualities: Tensor | None = None  # (B, C) adjusted Rand index with the truth
    true_n_clusters: Tensor | None = None  # (B,)


@dataclass(frozen=True)
class Judgement:
    """Scores of candidates, (B, C) each."""

    qualities: Tensor  # logits of the adjusted Rand index with the truth
    choice: Tensor  # log probability that a candidate is the best one
    numbers: Tensor  # log probability of a candidate as far as its number of clusters goes


def pack_candidates(
    features: Sequence[Sequence[PartitionFeatures]],
    agreements: Sequence[np.ndarray],
) -> CandidateTask:
    """Pad the candidates of some data sets to one number of them."""
    n_sets, most = len(features), max(len(of_set) for of_set in features)
    partition = np.zeros((n_sets, most, N_PARTITION_FEATURES), dtype=np.float32)
    n_clusters = np.zeros((n_sets, most), dtype=np.int64)
    agree = np.zeros((n_sets, most, most), dtype=np.float32)
    clusters, shares, owners = [], [], []
    for b, of_set in enumerate(features):
        c = len(of_set)
        agree[b, :c, :c] = agreements[b]
        for i, one in enumerate(of_set):
            partition[b, i], n_clusters[b, i] = one.partition, len(one.shares)
            clusters.append(one.clusters)
            shares.append(one.shares)
            owners.append(np.full(len(one.shares), b * most + i))
    return CandidateTask(
        torch.from_numpy(np.concatenate(clusters).astype(np.float32)),
        torch.from_numpy(np.concatenate(shares).astype(np.float32)),
        torch.from_numpy(np.concatenate(owners)),
        torch.from_numpy(partition),
        torch.from_numpy(n_clusters > 0),
        torch.from_numpy(agree),
        torch.from_numpy(n_clusters),
    )


class _Comparison(nn.Module):
    """Each candidate is compared with those like it, and with all of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.sharpness = nn.Parameter(torch.tensor(3.0))
        self.mix = nn.Sequential(nn.Linear(4 * width + 2, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, states: Tensor, task: CandidateTask) -> Tensor:
        """Update states (B, C, w)."""
        seen = self.norm(states)
        logits = (self.sharpness * task.agreements).masked_fill(~task.present[:, None], NEVER)
        near = logits.softmax(dim=2)
        present = task.present[..., None].to(seen)
        count = present.sum(dim=1, keepdim=True)
        mean = (seen * present).sum(dim=1, keepdim=True) / count
        top = seen.masked_fill(~task.present[..., None], NEVER).amax(dim=1, keepdim=True)
        support = (task.agreements * present.transpose(1, 2)).sum(dim=2, keepdim=True) / count
        close = ((task.agreements > SIMILAR) * present.transpose(1, 2)).sum(dim=2, keepdim=True) / count
        everyone = [one.expand_as(seen) for one in (mean, top)]
        mixed: Tensor = self.mix(torch.cat([seen, near @ seen, *everyone, support, close], dim=2))
        return states + mixed


class PartitionJudge(TrainedModel):
    """A network on candidate partitions: sets of clusters, compared with each other."""

    method: ClassVar[str] = "partition-judge"
    config_class: ClassVar[type[PartitionJudgeConfig]] = PartitionJudgeConfig
    centres: Tensor
    spreads: Tensor
    partition_centres: Tensor
    partition_spreads: Tensor
    temperature: Tensor
    spread: Tensor

    def __init__(self, config: PartitionJudgeConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.register_buffer("centres", torch.zeros(config.n_features))
        self.register_buffer("spreads", torch.ones(config.n_features))
        self.register_buffer("partition_centres", torch.zeros(config.n_partition_features))
        self.register_buffer("partition_spreads", torch.ones(config.n_partition_features))
        # Of P(K), found after training; see ``probabilities_of_k``.
        self.register_buffer("temperature", torch.ones(()))
        self.register_buffer("spread", torch.full((), 0.01))
        self.embed = nn.Sequential(nn.Linear(config.n_features, width), nn.GELU(), nn.Linear(width, width))
        self.join = nn.Sequential(
            nn.Linear(3 * width + config.n_partition_features + len(BICS) + len(MODULARITIES), width),
            nn.GELU(),
            nn.Linear(width, width),
        )
        self.rounds = nn.ModuleList(_Comparison(width) for _ in range(config.n_rounds))
        self.heads = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3))

    def standardize(self, task: CandidateTask) -> None:
        """Take centres and spreads from training data."""
        self.centres.copy_(task.clusters.mean(dim=0))
        self.spreads.copy_(task.clusters.std(dim=0).clamp_min(1e-3))
        partition = task.partition[task.present]
        self.partition_centres.copy_(partition.mean(dim=0))
        self.partition_spreads.copy_(partition.std(dim=0).clamp_min(1e-3))

    def out_of_range(self, task: CandidateTask) -> Tensor:
        """Share of a data set's features that lie far outside of what training data have, (B,)."""
        n_sets, most = task.present.shape
        far = (((task.clusters - self.centres) / self.spreads).abs() > FARTHEST_FEATURE).double().mean(dim=1)
        owners = task.owners // most
        counts = torch.bincount(owners, minlength=n_sets)
        return torch.zeros(n_sets, dtype=torch.float64).index_add(0, owners, far) / counts

    def forward(self, task: CandidateTask) -> Judgement:
        """Judge the candidates of B data sets."""
        b, c = task.present.shape
        clusters = self.embed(_scaled(task.clusters, self.centres, self.spreads))
        width = clusters.shape[1]
        index = task.owners[:, None].expand_as(clusters)
        mean = clusters.new_zeros(b * c, width).index_add(0, task.owners, clusters * task.shares[:, None])
        least = clusters.new_zeros(b * c, width).scatter_reduce(
            0, index, clusters, "amin", include_self=False
        )
        most = clusters.new_zeros(b * c, width).scatter_reduce(0, index, clusters, "amax", include_self=False)
        pooled = torch.cat([mean, least, most], dim=1).view(b, c, 3 * width)
        partition = _scaled(task.partition, self.partition_centres, self.partition_spreads)
        behind = _behind(task.partition, task.present)
        states = self.join(torch.cat([pooled, partition, behind], dim=2))
        for comparison in self.rounds:
            states = comparison(states, task)
        qualities, choice, numbers = self.heads(states).unbind(dim=2)
        absent = ~task.present
        return Judgement(
            qualities,
            log_softmax(choice.masked_fill(absent, NEVER), dim=1),
            log_softmax((numbers / self.temperature).masked_fill(absent, NEVER), dim=1),
        )

    def loss(self, task: CandidateTask, generator: torch.Generator) -> Tensor:
        """Cross-entropies of the qualities, of the best candidate, and of the true number of clusters."""
        assert task.qualities is not None and task.true_n_clusters is not None
        judged = self(task)
        present = task.present
        quality = binary_cross_entropy_with_logits(
            judged.qualities[present], task.qualities[present].clamp(0, 1)
        )
        best = (task.qualities / TOLERANCE).masked_fill(~present, NEVER).softmax(dim=1)
        choice = -(best * judged.choice).sum(dim=1).mean()
        right = present & (task.n_clusters == task.true_n_clusters[:, None])
        known = right.any(dim=1)
        numbers = -judged.numbers[known].masked_fill(~right[known], NEVER).logsumexp(dim=1)
        return quality + choice + numbers.sum() / len(known)


def _behind(partition: Tensor, present: Tensor) -> Tensor:
    """How far each candidate is behind the best of its data set, (B, C, 4); see ``judges``."""
    bics, modularities = partition[..., list(BICS)], partition[..., list(MODULARITIES)]
    absent = ~present[..., None]
    best = bics.masked_fill(absent, -NEVER).amin(dim=1, keepdim=True)
    nats = (bics - best) * partition[..., LOG_ROWS, None].exp() / 2
    highest = modularities.masked_fill(absent, NEVER).amax(dim=1, keepdim=True)
    lost = ((highest - modularities) / SMALL_MODULARITY).masked_fill(absent, 0.0)
    return torch.cat([torch.log1p(nats.clamp_min(0)) / LOG_NATS, lost], dim=2)


def _scaled(features: Tensor, centres: Tensor, spreads: Tensor) -> Tensor:
    return ((features - centres) / spreads).clamp(-FARTHEST_FEATURE, FARTHEST_FEATURE)
