"""Deep Amortized Clustering (Lee, Lee & Teh 2019): one cluster per pass, until no point is left.

Objective of a pass, with m the membership probabilities and theta the parameters of its cluster (all forms
of it are in ``objective``):

    Eq 5    min_j [ 1/n sum_i BCE(m_i, 1{y_i=j}) - 1/n_j sum_{i|y_i=j} log p(x_i; theta) ]

===============  ==========================================================  ======================
symbol           meaning                                                     here
===============  ==========================================================  ======================
H_X              encoded data, ISAB_L(X)                                     ``encode``
H_{X|a}          MAB(H_X, h_a), anchored filtering only                      ``decode``
H_theta, theta   PMA_1(H_X), rFF(H_theta)                                    ``decode``
H_m, m           ISAB_L'(MAB(H_X, H_theta)), sigmoid(rFF(H_m))               ``decode`` (as logits)
===============  ==========================================================  ======================

Readings of ours. (1) A pass that takes no point at the threshold 0.5 takes the points with at least half of
the largest probability, so that the loop always ends. (2) Eq 7 draws one anchor; one between two clusters
leads to both. Several may be tried on the same encoding at test time, and the cluster with the fewest errors
to expect counts, sum_i min(m_i, 1 - m_i).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from sklearn.utils._param_validation import StrOptions
from torch import Tensor, nn

from clusterwise.exceptions import ClusterwiseError, RecipeError, WeightsFileError
from clusterwise.nn.attention import (
    CoordinateEmbedding,
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByMultiheadAttention,
)
from clusterwise.nn.densities import ClusterFlow, DiagonalGaussianHead, diagonal_gaussian_log_density
from clusterwise.papers.dac.flow_clusters import FlowClusters
from clusterwise.papers.dac.objective import (
    Remaining,
    filtering_loss,
    flow_loss,
    members_of_clusters,
    remaining_points,
    remove_random_clusters,
)
from clusterwise.papers.dac.passes import FilteredSet, path_seeds, run_passes
from clusterwise.papers.estimator import AmortizedClusterer
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask
from clusterwise.partition import PartitionPosterior
from clusterwise.pretrained import Weights

__all__ = ["DAC", "DACConfig", "DACNetwork", "Filtered"]

# Anchors that a pass of the answer tries.
N_ANCHORS = 4
# Members that a flow is made from.
MAX_MEMBERS = 192
ONE_ANSWER = "minimum-loss filtering has one answer and no posterior; use DAC(filtering='anchored') or ACTST."


@dataclass(frozen=True)
class DACConfig:
    """Options of DAC networks; stored in the header of a weights file."""

    n_features: int = 2
    filtering: Literal["minimum-loss", "anchored"] = "minimum-loss"
    density: Literal["diagonal-gaussian", "flow", "none"] = "diagonal-gaussian"
    width: int = 128
    n_heads: int = 4
    n_inducing: int = 16
    n_encoder_blocks: int = 4  # L
    n_decoder_blocks: int = 2  # L'
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    n_anchors: int = 1  # anchors per data set in a training step; they share its encoding
    n_context: int = 128  # length of theta if the density is a flow (App. D)
    n_flow_blocks: int = 4
    flow_width: int = 64
    density_weight: float = 1.0  # of log p in the loss; Eqs 5 and 7 have 1
    learns: Literal["both", "density"] = "both"  # "density": memberships stay as they are; for flows


class Filtered(NamedTuple):
    """Output of one pass over B data sets."""

    logits: Tensor  # (B, N), logit of the membership probability m
    means: Tensor | None = None  # (B, d) of the Gaussian density
    log_sds: Tensor | None = None  # (B, d)


# -- network -----------------------------------------------------------------------------------------


class DACNetwork(AmortizedModel):
    """The filtering network, Eq 6 (minimum loss) and Eq 8 (anchored)."""

    method = "dac"
    config_class = DACConfig

    def __init__(self, config: DACConfig) -> None:
        super().__init__()
        self.config = config
        width, heads = config.width, config.n_heads

        def stack(n_blocks: int) -> nn.ModuleList:
            return nn.ModuleList(
                InducedSetAttentionBlock(width, heads, config.n_inducing) for _ in range(n_blocks)
            )

        self.embed = CoordinateEmbedding(config.n_features, width, config.n_wavelengths)
        self.encoder = stack(config.n_encoder_blocks)
        self.pool = PoolingByMultiheadAttention(width, heads)
        self.condition = MultiheadAttentionBlock(width, heads)
        self.decoder = stack(config.n_decoder_blocks)
        self.membership = nn.Linear(width, 1)
        self.anchor = MultiheadAttentionBlock(width, heads) if config.filtering == "anchored" else None
        self.density = (
            DiagonalGaussianHead(width, config.n_features) if config.density == "diagonal-gaussian" else None
        )
        self.cluster_flow = (
            ClusterFlow(config.n_features, config.n_context, config.n_flow_blocks, config.flow_width)
            if config.density == "flow"
            else None
        )
        if config.learns == "density" and self.cluster_flow is None:
            raise RecipeError("learns = 'density' goes with density = 'flow'; leave it out.")

    def encode(self, points: Tensor, mask: Tensor) -> Tensor:
        """H_X = ISAB_L(X), (B, N, width)."""
        h = self.embed(points)
        for block in self.encoder:
            h = block(h, mask)
        return h

    def _pooled(self, h_x: Tensor, mask: Tensor, anchors: Tensor | None) -> tuple[Tensor, Tensor]:
        """H_X, or H_{X|a}, and H_theta (B, 1, width)."""
        if self.anchor is not None:
            if anchors is None:
                raise ValueError("anchored filtering needs one anchor per data set")
            h_a = h_x[torch.arange(len(h_x)), anchors].unsqueeze(1)
            h_x = self.anchor(h_x, h_a)
        return h_x, self.pool(h_x, mask)

    def decode(self, h_x: Tensor, mask: Tensor, anchors: Tensor | None) -> Filtered:
        """Cluster parameters and membership logits from encoded data (B, N, width)."""
        h_x, h_theta = self._pooled(h_x, mask, anchors)
        means, log_sds = self.density(h_theta.squeeze(1)) if self.density is not None else (None, None)
        h_m = self.condition(h_x, h_theta)
        for block in self.decoder:
            h_m = block(h_m, mask)
        return Filtered(self.membership(h_m).squeeze(-1), means, log_sds)

    def log_density(self, points: Tensor, filtered: Filtered) -> Tensor | None:
        """log p(x; theta) of points (B, N, d) under the cluster that was found, (B, N), or None."""
        if filtered.means is None or filtered.log_sds is None:
            return None
        return diagonal_gaussian_log_density(
            points, filtered.means.unsqueeze(1), filtered.log_sds.unsqueeze(1)
        )

    def filter(self, points: Tensor, mask: Tensor, anchors: Tensor | None = None) -> Filtered:
        """One pass over B data sets: points (B, N, d), mask (B, N), anchors (B,)."""
        return self.decode(self.encode(points, mask), mask, anchors)

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        parts = [] if self.config.learns == "density" else [self._loss_of_filtering(task, generator)]
        if self.cluster_flow is not None:
            of_flow = flow_loss(self.cluster_flow, task.points, task.labels, generator)
            parts.append(self.config.density_weight * of_flow)
        return torch.stack(parts).sum()

    def _loss_of_filtering(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Eqs 5, 7 and 9, a scalar."""
        mask = remove_random_clusters(task.labels, task.n_clusters, generator)
        parts = remaining_points(task.points, task.labels, mask)
        return torch.cat([self._losses_of_sets(part, generator) for part in parts]).mean()

    def _losses_of_sets(self, sets: Remaining, generator: torch.Generator) -> Tensor:
        """Losses of one pass over S sets, (S,), or over each set with each of its A anchors, (S A,)."""
        points, labels, mask = sets
        h_x, anchors = self.encode(points, mask), None
        if self.anchor is not None:
            n_anchors = self.config.n_anchors
            drawn = torch.multinomial(mask.float(), n_anchors, replacement=True, generator=generator)
            anchors = drawn.flatten()
            points, labels, mask, h_x = (
                tensor.repeat_interleave(n_anchors, dim=0) for tensor in (points, labels, mask, h_x)
            )
        filtered = self.decode(h_x, mask, anchors)
        density = self.log_density(points, filtered)
        if density is not None:
            density = self.config.density_weight * density
        return filtering_loss(filtered.logits, density, labels, mask, anchors)

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
    ) -> list[Inference]:
        """Partitions of B data sets; with anchors ``n_draws`` more of each, each with other ones.

        A pass of the answer itself tries several anchors, one of a draw has a single one.
        """
        seeds = seeds or [0] * len(points)
        if self.anchor is None:  # all would be the same
            n_draws = 0
        n_paths = 1 + n_draws
        sets = torch.arange(len(points), device=points.device).repeat_interleave(n_paths)
        own_seeds = [one for seed in seeds for one in path_seeds(seed, n_paths)]
        tried = [N_ANCHORS, *[1] * n_draws] * len(points)
        filtered = [
            FilteredSet(mask[b], *one) for b, *one in zip(sets.tolist(), own_seeds, tried, strict=True)
        ]
        passes = run_passes(self, points[sets], filtered, max_clusters)
        results = []
        for b in range(len(points)):
            answer, *draws = passes[b * n_paths : (b + 1) * n_paths]
            flow = self.cluster_flow
            densities: tuple[FlowClusters, ...] = ()
            if flow is not None:
                own = points[b, mask[b]]
                densities = tuple(flow_clusters(flow, own, one.labels[mask[b]]) for one in (answer, *draws))
            labels = tuple(one.labels for one in draws)
            results.append(replace(answer, draws=labels, densities=densities))
        return results


def flow_clusters(flow: ClusterFlow, points: Tensor, labels: Tensor) -> FlowClusters:
    """The clusters of points (n, d) as flows, each made from some members; labels (n,) of any numbers."""
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(0))  # rows come sorted
    own = points[order.to(points.device)]
    names = torch.unique(labels[order.to(points.device)], return_inverse=True)[1]
    index, present = members_of_clusters(names[None], MAX_MEMBERS)
    return FlowClusters.of(flow, own, names, own[index], present)


# -- estimator ---------------------------------------------------------------------------------------


class DAC(AmortizedClusterer):
    """Deep Amortized Clustering (Lee, Lee & Teh 2019): clusters found one by one, k included.

    A trained network takes the whole data set and picks out one cluster per pass until no row is
    left. New rows go to its clusters as Gaussians; with the weights ``"dac-warped-2d"``, for bent clusters,
    as normalizing flows.

    Parameters
    ----------
    filtering : {"minimum-loss", "anchored"}, optional
        Whether a pass picks the cluster that it finds easiest, or that of a random row (the anchor). By
        default as the weights do it; without ``weights`` the minimum loss.
    weights, projection, scaling, max_clusters, max_network_points, random_state, verbose, device
        As for :class:`AMCP`; ``weights=None`` stands for those shipped for this filtering.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters: shares of 50 partitions with other anchors. Minimum-loss
        filtering has one answer and no probabilities.
    steps_ : tuple of ClusteringStep
        The passes in their order.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`; for flows means and covariances are those of the rows that the network saw.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> int(cw.DAC(random_state=0).fit(X).n_clusters_)
    7
    """

    _method = "dac"
    _max_rows = 1024
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "filtering": [StrOptions({"minimum-loss", "anchored"}), None],
    }

    def __init__(
        self,
        filtering: Literal["minimum-loss", "anchored"] | None = None,
        *,
        weights: str | Path | Weights | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.filtering = filtering
        super().__init__(
            weights=weights,
            projection=projection,
            scaling=scaling,
            max_clusters=max_clusters,
            max_network_points=max_network_points,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    def _default_weights(self) -> str:
        return f"dac-{self.filtering or 'minimum-loss'}-2d"

    def _weights(self) -> Weights:
        weights = super()._weights()
        trained_for = weights.model.config.filtering
        if self.filtering not in (None, trained_for):
            raise WeightsFileError(
                f"The weights {weights.name!r} are for {trained_for} filtering, not for {self.filtering}; "
                "choose that filtering or other weights."
            )
        return weights

    def _has_one_answer(self) -> bool:
        weights = self._weights()
        return "cut" not in weights.facts and bool(weights.model.config.filtering == "minimum-loss")

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters; see ``sample_partitions``."""
        if self._has_one_answer():
            raise AttributeError(ONE_ANSWER)
        return super().k_posterior_

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit``, as other estimators do; with anchors each has its own."""
        if self._has_one_answer():
            raise ClusterwiseError(ONE_ANSWER)
        return super().sample_partitions(n_samples)
