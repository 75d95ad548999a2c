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
the largest probability, so that the loop always ends. (2) In the paper nothing corrects what a pass took.
Here a search by the densities of all clusters may follow when no point is left (``regrouping``). (3) Eq 7
draws one anchor; one between two clusters leads to both. Several may be tried on the same encoding at test
time, and the cluster with the fewest errors to expect counts, sum_i min(m_i, 1 - m_i).
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
from clusterwise.nn.flow_clusters import FlowClusters
from clusterwise.papers.dac.objective import (
    Remaining,
    filtering_loss,
    flow_loss,
    remaining_points,
    remove_random_clusters,
)
from clusterwise.papers.dac.passes import FilteredSet, path_seeds, run_passes
from clusterwise.papers.dac.regrouping import (
    compact,
    members_of_labels,
    regrouped_flows,
    regrouped_gaussians,
    some_members,
)
from clusterwise.papers.estimator import AmortizedClusterer, Refine, RefineOption
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask
from clusterwise.partition import PartitionPosterior
from clusterwise.pretrained import Weights

__all__ = ["DAC", "DACConfig", "DACNetwork", "Filtered"]

# Searches among flows start from passes with other anchors, of which each tries as many as this.
STARTS_OF_FLOWS, ANCHORS_OF_FLOWS = 5, 4
ONE_ANSWER = (
    "minimum-loss filtering alone has one answer and no posterior; use refine='search', "
    "DAC(filtering='anchored') or ACTST."
)


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

    def _pooled_members(self, points: Tensor, mask: Tensor) -> Tensor:
        """H_theta (B, width) of B clusters by their members (B, N, d) alone, the middle one as anchor."""
        anchors = None
        if self.anchor is not None:
            middle = (points * mask.unsqueeze(-1)).sum(1, keepdim=True) / mask.sum(1)[:, None, None]
            squared = (points - middle).square().sum(-1)
            anchors = squared.masked_fill(~mask, torch.inf).argmin(1)
        return self._pooled(self.encode(points, mask), mask, anchors)[1].squeeze(1)

    def describe(self, points: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log standard deviations (B, d) of B clusters by their members (B, N, d) alone."""
        if self.density is None:
            raise ValueError("the density of this network is not a Gaussian")
        means, log_sds = self.density(self._pooled_members(points, mask))
        return means, log_sds

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
        n_anchors: int = 1,
        n_starts: int = 0,
    ) -> list[Inference]:
        """Partitions of B data sets; with anchors ``n_draws`` more of each, each with other ones.

        With ``n_starts`` > 0 a search follows from so many partitions of the passes (``regrouping``).
        A pass of the answer itself tries ``n_anchors``, one of a draw has a single one.
        """
        seeds = seeds or [0] * len(points)
        if self.anchor is None:  # all would be the same
            n_draws, n_starts = 0, min(1, n_starts)
        n_answers = max(1, n_starts)
        n_paths = n_answers + n_draws
        sets = torch.arange(len(points), device=points.device).repeat_interleave(n_paths)
        own_seeds = [one for seed in seeds for one in path_seeds(seed, n_paths)]
        tried = ([n_anchors] * n_answers + [1] * n_draws) * len(points)
        filtered = [
            FilteredSet(mask[b], *one) for b, *one in zip(sets.tolist(), own_seeds, tried, strict=True)
        ]
        passes = run_passes(self, points[sets], filtered, max_clusters)
        results = []
        for b in range(len(points)):
            own = passes[b * n_paths : (b + 1) * n_paths]
            parts = [own[:n_answers], *([one] for one in own[n_answers:])]
            answer, *draws = (
                self._regrouped(points[b], mask[b], part, max_clusters, n_starts > 0) for part in parts
            )
            densities = sum((one.densities for one in draws), answer.densities)
            results.append(replace(answer, draws=tuple(one.labels for one in draws), densities=densities))
        return results

    def _regrouped(
        self, points: Tensor, mask: Tensor, found: Sequence[Inference], max_clusters: int, search: bool
    ) -> Inference:
        """The first of what passes found in points (N, d), after a search from all or as it is."""
        if self.cluster_flow is None and (self.density is None or not search):
            return found[0]
        rows = mask.nonzero().squeeze(1)
        # A density is made from the first members, and rows may come sorted.
        rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).to(rows.device)]
        own, starts = points[rows], [compact(one.labels[rows]) for one in found]
        flow, labels, capped = self.cluster_flow, starts[0], False
        densities: tuple[FlowClusters, ...] = ()
        if search:
            if flow is None:
                labels, capped = regrouped_gaussians(self, own, starts[0], max_clusters)
            else:
                labels, capped = regrouped_flows(flow, own, starts, max_clusters)
        if flow is not None:
            index, present = some_members(members_of_labels(labels))
            densities = (FlowClusters.of(flow, own, labels, own[index], present),)
        everyone = found[0].labels.clone()
        everyone[rows] = labels
        capped = capped or found[0].cap_reached
        return replace(found[0], labels=everyone, cap_reached=capped, densities=densities)


# -- estimator ---------------------------------------------------------------------------------------


class DAC(AmortizedClusterer):
    """Deep Amortized Clustering (Lee, Lee & Teh 2019): clusters found one by one, k included.

    A trained network takes the whole data set and picks out one cluster per pass until no row is
    left. ``refine`` says what happens to this partition.

    The weights ``"dac-warped-2d"`` are for bent clusters: each is a normalizing flow instead of a Gaussian.

    Parameters
    ----------
    filtering : {"minimum-loss", "anchored"}, optional
        Whether a pass picks the cluster that it finds easiest, or that of a random row (the anchor). By
        default as the weights do it; without ``weights`` the minimum loss.
    refine : {"auto", "search", "cut"} or None
        As for :class:`AMCP`. "auto" is "search" for clusters that are Gaussians. For flows, of which a search
        for Gaussians would make pieces, it is a search among flows: rows move between clusters, clusters that
        the others can replace are removed, and pairs that one flow describes as well are merged. Where no
        search for Gaussians follows, clusters that are Gaussians are split and merged by the network's own
        densities.
    weights, projection, scaling, max_clusters, max_network_points, random_state, verbose, device
        As for :class:`AMCP`; ``weights=None`` stands for those shipped for this filtering. Without a search
        ``max_network_points=None`` is 1,024.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters: the evidences of all mixtures that the partition, or 20 with
        other anchors, lead to. With ``refine=None`` they are shares of these 20, and minimum-loss filtering
        has none.
    steps_ : tuple of ClusteringStep
        The passes in their order.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
network_labels_, weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`; for flows means and covariances are those of the rows that the network saw.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> int(cw.DAC(random_state=0).fit(X).n_clusters_)
    7
    """

    _method = "dac"
    _rows_alone = 1024
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "filtering": [StrOptions({"minimum-loss", "anchored"}), None],
    }

    def __init__(
        self,
        filtering: Literal["minimum-loss", "anchored"] | None = None,
        *,
        weights: str | Path | Weights | None = None,
        refine: RefineOption | None = "auto",
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
            refine=refine,
            projection=projection,
            scaling=scaling,
            max_clusters=max_clusters,
            max_network_points=max_network_points,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    def _options(self) -> dict[str, Any]:
        weights = self._weights()
        if self._has_flows():
            return {
                "n_anchors": ANCHORS_OF_FLOWS,
                "n_starts": STARTS_OF_FLOWS if self.refine == "auto" else 0,
            }
        gaussian = weights.model.config.density == "diagonal-gaussian" and "encoder" not in weights.recipe
        return {"n_starts": int(gaussian and self._how() != "search")}

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

    def _has_flows(self) -> bool:
        return bool(self._weights().model.config.density == "flow")

    def _how(self) -> Refine | None:
        if not self._has_flows():
            return super()._how()
        if self.refine not in ("auto", None):
            raise ClusterwiseError(
                f"refine={self.refine!r} would describe the clusters of the weights "
                f"{self._weights().name!r} by Gaussians, which they are not; pass refine=None or 'auto'."
            )
        return None

    def _has_one_answer(self) -> bool:
        return self._how() is None and self._weights().model.config.filtering == "minimum-loss"

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
