"""ACT-ST (Lee, Lee & Teh 2019, appendix A): all clusters at once, with a learned stop.

A Set Transformer whose pooling has as many seeds as it needs; for every number of clusters k it
outputs a whole mixture and the probability that k clusters do not suffice yet. Objective:

    Eq 12    - 1/n sum_i log sum_{j <= k*} pi_j p(x_i; theta_j) + sum_{k <= k_max} BCE(c_k, 1{k < k*})

with k* the true number of clusters.

=================  ================================================================  ==================
symbol             meaning                                                           here
=================  ================================================================  ==================
s_1, ..., s_k      seeds, each pooled from the ones before it (Eq 10)                ``seeds``
aPMA(X, k)         MAB([s_1 .. s_k], H_X)                                            ``forward``
H_theta^(k)        SAB_L'(aPMA(H_X, k)); a prefix of k seeds attends to itself       ``forward``
v_k                sigmoid of the mean over j <= k of the first output (Eq 11)       ``forward``
c_k = 1 - s_k      prod_{j <= k} v_j: go on after step k                             ``Mixtures.log_go_on``
=================  ================================================================  ==================

Readings of ours. (1) The product in Eq 11 runs over v_j, not v_k, and c_k in Eq 12 is that product.
(2) The likelihood is averaged over points, so that its weight against the stop does not grow with n.
(3) P(K = k) = c_{k-1} - c_k: the products fall from one to zero, so their differences are a
posterior over the number of clusters.

A change of ours, ``likelihood = "matched"``. Eq 12 knows only k*: a mixture with two components in one
cluster and one for two clusters is a local optimum of it, and that is what the network's errors are. Training
sets come with labels, so each component can be given a true cluster j, and

    - 1/n max_s sum_j sum_{i|y_i=j} log pi_s(j) p(x_i; theta_s(j))

takes the place of the first term, with s the best of all permutations. It is never less than that term,
and equal to it where clusters do not overlap and are found. The better it is, the less the stop weighs in
the loss; ``stop_weight`` is a factor of the second term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.nn.attention import (
    CoordinateEmbedding,
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByMultiheadAttention,
    SetAttentionBlock,
)
from clusterwise.nn.densities import DiagonalGaussianHead, diagonal_gaussian_log_density
from clusterwise.papers.estimator import AmortizedClusterer
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask, compact_labels

__all__ = ["ACTST", "ACTSTConfig", "ACTSTNetwork", "Mixtures", "act_st_loss"]

LOG_HALF = float(np.log(0.5))
# Less probable numbers of clusters are no draws.
MIN_PROBABILITY = 1e-3


@dataclass(frozen=True)
class ACTSTConfig:
    """Options of ACT-ST networks; stored in the header of a weights file."""

    n_features: int = 2
    k_max: int = 4  # number of steps in training
    width: int = 128
    n_heads: int = 4
    n_inducing: int = 16
    n_encoder_blocks: int = 4  # L
    n_decoder_blocks: int = 2  # L'
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    likelihood: Literal["marginal", "matched"] = "marginal"  # the first term of Eq 12, or ours
    stop_weight: float = field(default=1.0, metadata={"least": 0})  # of the second term of Eq 12


class Mixtures(NamedTuple):
    """For each of B data sets, one mixture for every k = 1 .. k_max; its entries j < k are used."""

    log_go_on: Tensor  # (B, k_max), log c_k
    log_proportions: Tensor  # (B, k_max, k_max), log pi_j^(k), -inf for unused entries
    means: Tensor  # (B, k_max, k_max, d)
    log_sds: Tensor  # (B, k_max, k_max, d)

    def log_joint(self, points: Tensor, k: Tensor) -> Tensor:
        """log(pi_j p(x_i; theta_j)), (B, N, k_max), of points (B, N, d) in mixtures of k (B,) components."""
        rows = torch.arange(len(k), device=k.device)
        log_proportions, means, log_sds = (part[rows, k - 1].unsqueeze(1) for part in self[1:])
        return log_proportions + diagonal_gaussian_log_density(points.unsqueeze(2), means, log_sds)

    def labels(self, b: int, k: int, points: Tensor, mask: Tensor) -> Tensor:
        """Labels (N,) of points (N, d) of data set b by its k components; idle ones are dropped."""
        own = Mixtures(*(part[b : b + 1] for part in self))
        log_joint = own.log_joint(points.unsqueeze(0), torch.tensor([k], device=points.device))
        return compact_labels(log_joint[0].argmax(1), mask)


# -- training ----------------------------------------------------------------------------------------


def act_st_loss(
    mixtures: Mixtures,
    points: Tensor,
    n_clusters: Tensor,
    labels: Tensor | None = None,
    stop_weight: float = 1.0,
) -> Tensor:
    """Eq 12 for B data sets, (B,); with labels (B, N) its likelihood is that of matched clusters."""
    k_max = mixtures.log_go_on.shape[1]
    log_joint = mixtures.log_joint(points, n_clusters)
    if labels is None:
        log_likelihood = torch.logsumexp(log_joint, dim=2).mean(1)
    else:
        log_likelihood = matched_log_likelihood(log_joint, labels, n_clusters) / points.shape[1]
    goes_on = torch.arange(1, k_max + 1, device=points.device) < n_clusters[:, None]
    log_stop = torch.log(-torch.expm1(mixtures.log_go_on).clamp(max=-1e-6))
    cross_entropy = -torch.where(goes_on, mixtures.log_go_on, log_stop).sum(1)
    return stop_weight * cross_entropy - log_likelihood


def matched_log_likelihood(log_joint: Tensor, labels: Tensor, n_clusters: Tensor) -> Tensor:
    """Sum (B,) over points of log_joint (B, N, K) in the component that their cluster is matched with."""
    one_hot = functional.one_hot(labels, log_joint.shape[2]).to(log_joint.dtype)
    # Components beyond k* have log proportion -inf, which 0 * would turn into NaN.
    used = torch.arange(log_joint.shape[2], device=labels.device) < n_clusters[:, None]
    # (B, cluster, component)
    totals = one_hot.transpose(1, 2) @ log_joint.masked_fill(~used.unsqueeze(1), 0.0)
    matches = np.tile(np.arange(log_joint.shape[2]), (len(labels), 1))
    for match, one, k in zip(matches, totals.detach().cpu().numpy(), n_clusters.tolist(), strict=True):
        match[:k] = linear_sum_assignment(one[:k, :k], maximize=True)[1]
    index = torch.as_tensor(matches, device=labels.device).unsqueeze(2)
    return (totals.gather(2, index).squeeze(2) * used).sum(1)


# -- network -----------------------------------------------------------------------------------------


class ACTSTNetwork(AmortizedModel):
    """The Set Transformer with adaptive pooling, Eqs 10 and 11."""

    method = "act-st"
    config_class = ACTSTConfig

    def __init__(self, config: ACTSTConfig) -> None:
        super().__init__()
        self.config = config
        width, heads = config.width, config.n_heads
        self.embed = CoordinateEmbedding(config.n_features, width, config.n_wavelengths)
        self.encoder = nn.ModuleList(
            InducedSetAttentionBlock(width, heads, config.n_inducing) for _ in range(config.n_encoder_blocks)
        )
        self.first_seed = nn.Parameter(torch.empty(1, 1, width))
        nn.init.xavier_uniform_(self.first_seed)
        self.next_seed = PoolingByMultiheadAttention(width, heads)
        self.pool = MultiheadAttentionBlock(width, heads)
        self.decoder = nn.ModuleList(SetAttentionBlock(width, heads) for _ in range(config.n_decoder_blocks))
        self.go_on = nn.Linear(width, 1)
        self.proportion = nn.Linear(width, 1)
        self.density = DiagonalGaussianHead(width, config.n_features)

    def seeds(self, k: int) -> Tensor:
        """s_1, ..., s_k of Eq 10, (1, k, width); they do not depend on the data."""
        seeds: Tensor = self.first_seed
        for _ in range(k - 1):
            seeds = torch.cat([seeds, self.next_seed(seeds)], dim=1)
        return seeds

    def forward(self, points: Tensor, mask: Tensor | None, k_max: int) -> Mixtures:
        """Mixtures of 1 .. k_max components for points (B, N, d)."""
        h = self.embed(points)
        for block in self.encoder:
            h = block(h, mask)
        pooled = self.pool(self.seeds(k_max).expand(len(points), -1, -1), h, mask)  # (B, k_max, width)
        # Row k of ``prefix`` marks the first k seeds: every k is decoded on its own, all in one batch.
        prefix = torch.ones(k_max, k_max, dtype=torch.bool, device=points.device).tril()
        h_theta = pooled.repeat_interleave(k_max, dim=0)  # (B * k_max, k_max, width)
        in_prefix = prefix.repeat(len(points), 1)
        for block in self.decoder:
            h_theta = block(h_theta, in_prefix)
        h_theta = h_theta.unflatten(0, (len(points), k_max))
        raw = self.go_on(h_theta).squeeze(-1) * prefix
        log_go_on = functional.logsigmoid(raw.sum(-1) / prefix.sum(-1)).cumsum(1)
        proportion = self.proportion(h_theta).squeeze(-1).masked_fill(~prefix, -torch.inf)
        return Mixtures(log_go_on, torch.log_softmax(proportion, dim=-1), *self.density(h_theta))

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        mixtures = self(task.points, None, max(self.config.k_max, int(task.n_clusters.max())))
        labels = task.labels if self.config.likelihood == "matched" else None
        return act_st_loss(mixtures, task.points, task.n_clusters, labels, self.config.stop_weight).mean()

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
    ) -> list[Inference]:
        """Partitions of B data sets into as many clusters as the learned stop chooses.

        With ``n_draws`` > 0 the partitions of the other likely numbers of clusters come as draws, at most
        that many, with the probability of each number.
        """
        k_max = min(self.config.k_max, max_clusters)
        mixtures = self(points, mask, k_max)
        n_steps = torch.full((len(points),), k_max)  # of each data set on its own
        while k_max < max_clusters:
            undecided = mixtures.log_go_on[:, -1] >= LOG_HALF
            if not undecided.any():
                break
            k_max = min(2 * k_max, max_clusters)
            n_steps[undecided.cpu()] = k_max
            mixtures = self(points, mask, k_max)
        stops = mixtures.log_go_on < LOG_HALF  # s_k > 0.5
        cap_reached = ~stops.any(1)
        k = torch.where(cap_reached, k_max, 1 + stops.to(torch.int64).argmax(1))
        found = []
        for b, own in enumerate(k.tolist()):
            log_posterior = log_k_posterior(mixtures.log_go_on[b, : int(n_steps[b])])
            probabilities = likely_numbers(log_posterior, own, n_draws)
            labels, *draws = (mixtures.labels(b, j, points[b], mask[b]) for j in probabilities)
            weights = tuple(probabilities.values()) if n_draws > 0 else ()
            found.append(Inference(labels, (), bool(cap_reached[b]), tuple(draws), weights))
        return found


# -- the number of clusters --------------------------------------------------------------------------


def log_k_posterior(log_go_on: Tensor) -> Tensor:
    """log P(K = k) = log(c_{k-1} - c_k) for k = 1 .. k_max, what is left beyond given to k_max."""
    go_on = torch.exp(log_go_on)
    before = torch.cat([go_on.new_ones(1), go_on[:-1]])
    after = torch.cat([go_on[:-1], go_on.new_zeros(1)])
    return torch.log(before - after)


def likely_numbers(log_posterior: Tensor, own: int, n_others: int) -> dict[int, float]:
    """The answer's own number of clusters and up to ``n_others`` likely ones, with their probabilities."""
    probabilities = dict(enumerate(log_posterior.exp().tolist(), start=1))
    likely = sorted(probabilities, key=probabilities.__getitem__, reverse=True)
    others = [k for k in likely if k != own and probabilities[k] >= MIN_PROBABILITY]
    return {k: probabilities[k] for k in [own, *others[:n_others]]}


# -- estimator ----------------------------------------------------------------------------------------


class ACTST(AmortizedClusterer):
    """Set Transformer with a learned stop (ACT-ST; Lee, Lee & Teh 2019, appendix A).

    One pass gives whole mixtures of 1, 2, 3, ... clusters and a probability for each number. It suits few
    clusters: unlike ``DAC`` it does not go far beyond the number of clusters that its weights were
    trained on (4 for the shipped ones).

    Parameters
    ----------
    max_network_points : int or None
        As for :class:`AMCP`; None stands for 256.
    weights, projection, scaling, max_clusters, random_state, verbose, device
        As for :class:`AMCP`.

    Attributes
    ----------
    k_posterior_ : dict
        The learned stop's probability of each number of clusters, of those that have a row.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`. ``steps_`` is empty: all clusters come at once.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.1, 0.1], [5.0, 5.1], [5.1, 5.0], [5.1, 5.1]]
    >>> cw.ACTST(random_state=0).fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    _method = "act-st"
