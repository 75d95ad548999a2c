"""Cluster-wise Hierarchical Generative Model (Liu, Wang & Jing, CVPR 2021): pioneer, cluster vector, members.

An encoder runs once per data set. Step k of the cluster-wise loop (``generation``) then draws a pioneer I
among the unassigned points S_k, a cluster vector z given the pioneer, and the membership h_i of every point
given both, until no point is left. The paper raises a bound on log p(C_k | C_1:k-1, S_k) (Eq 8), by one of
five strategies (``bound``):

    E_q(z) [log p(h | z)] - KL(q(z), p(z)) - KL(q(I), p(I))

What ``CHiGacNetwork.loss`` raises is this and, with ``hybrid``, log p(h | z) at a draw of the prior, and the
last term is weighted by how easy a cluster is (6): an objective for training, no bound any more.

==================  ====================================================  ========================
symbol              meaning                                               here
==================  ====================================================  ========================
h_i (of a network)  encoding of a point in the context of the set         ``encode``
e_i                 its representation on the unit sphere in R^D1         ``Representations.sphere``
m^k, s_j            prototype of step k, scores of pioneers (Eq 11)       ``prototypes``
p(z | S_I)          prior of the cluster vector (Eq 12)                   ``prior``
p(h_i | z, S_I)     decoder (Eq 13)                                       ``Scene.logits``
q(I)                pioneers among the members: central ones              ``central_scores``
q(z | h)            encoder (Eq 14)                                       ``posterior``
==================  ====================================================  ========================

Corrections of the paper and readings of ours.

(1) The second term of Eq 11 does not depend on j, so the softmax cancels it. Separation acts per point here:
    the mean over l < k of cos(e_j, m^l) / tau is subtracted. The printed term stays as a regularizer.
(2) A table of K prototypes would bound K. m^k comes from a network over the mean encoding of what is
    assigned and of what is left.
(3) Attention from all points to all points would be quadratic. A cluster V_l enters by its mean encoding, and
    U_k by a few inducing vectors; the pioneer alone attends to every point of U_k.
(4) Sums over clusters V_l are one attention over their means, which does not grow with k.
(5) The prior's mean is of unit length like the encoder's, and both add to a representation: the pioneer's,
    and the mean of the cluster's. Representations are centred in the data set before they are normalized.
(6) The order of clusters is not given by the data: a training step assigns random clusters, and any
    of the others may come next. Several are tried, the target is the cluster of the pioneer, and p(I) learns
    to prefer those whose members the network finds easily.
(7) A few points of assigned clusters are missed, as at test time. One more choice besides the pioneers says
    that only such stragglers are left; the paper would open a cluster for each.
(8) A q(I) of the same architecture as p(I) has only to agree with it, and both end at outlying points, which
    are easy to name and lead to worse clusters. Here q(I) has no parameters and prefers central members. The
    likeliest pioneer still tends to the rim: Eq 11 scores points by one direction, and the maximum along a
    direction is an extreme point. So a network of each point's encoding adds a second score, for how central
    it is (``central``), and a cluster is generated again from its most central member (``generation``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.nn.attention import MultiheadAttentionBlock, SetEncoder
from clusterwise.papers.chigac.bound import Gaussian, Scene, Strategy
from clusterwise.papers.chigac.generation import Loop
from clusterwise.papers.chigac.prefixes import masked_mean, next_clusters, objectives, random_prefix
from clusterwise.papers.estimator import AmortizedClusterer
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask

__all__ = ["CHiGac", "CHiGacConfig", "CHiGacNetwork", "Representations", "StepContext"]

# Weight of the printed second term of Eq 11, which pushes prototypes apart.
SEPARATION_WEIGHT = 0.01


@dataclass(frozen=True)
class CHiGacConfig:
    """Options of CHiGac networks; stored in the header of a weights file."""

    n_features: int = 2
    inference: Strategy = "ergodic"
    width: int = 64
    n_heads: int = 4
    n_inducing: int = 16
    n_encoder_blocks: int = 5
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    n_coordinates: int = 64  # D1
    n_hidden: int = 32  # of the decoder
    n_summaries: int = 8  # inducing vectors that stand for U_k
    n_inner_steps: int = field(default=10, metadata={"least": 0})  # M
    inner_rate: float = 0.3  # eta_psi
    n_states: int = 4  # pioneers that a training step looks at, per data set
    hybrid: bool = True  # also score memberships given a draw of the prior, as at test time
    central: bool = False  # whether pioneers have a second score besides Eq 11: how central they are
    # When to stop: when the network says that only stragglers are left, which then join the cluster of their
    # largest membership; or when no point is left, as printed.
    stop: Literal["learned", "empty"] = "learned"
    # How often a cluster is generated again from its most central member; 0 as printed.
    recentre: int = field(default=5, metadata={"least": 0})


class Representations(NamedTuple):
    """A data set as the loop sees it."""

    h: Tensor  # (R, N, width)
    sphere: Tensor  # (R, N, D), e_i
    pioneering: Tensor  # (R, N, D), e_i for the choice of pioneers
    central: Tensor  # (R, N), a score that Eq 11 does not have; zero without it


class StepContext(NamedTuple):
    """The assigned clusters and the points left over, as step k attends to them."""

    keys: Tensor  # (R, 1 + K, width), assigned clusters by their means, after a vector for "none"
    key_mask: Tensor  # (R, 1 + K)
    left: Tensor  # (R, N), True for points in S_k
    hidden: Tensor  # (R, N, H)
    offset: Tensor  # (R, N)


class CHiGacNetwork(AmortizedModel):
    """Pioneer selection, prior, decoder, encoder, and the bound on the likelihood of a cluster."""

    method = "chigac"
    config_class = CHiGacConfig

    def __init__(self, config: CHiGacConfig) -> None:
        super().__init__()
        self.config = config
        width, heads, d = config.width, config.n_heads, config.n_coordinates
        self.encoder = SetEncoder(
            config.n_features,
            width,
            heads,
            config.n_inducing,
            config.n_encoder_blocks,
            config.n_wavelengths,
        )
        self.to_sphere = nn.Linear(width, 2 * d)

        def perceptron(n_in: int, n_out: int) -> nn.Sequential:
            return nn.Sequential(
                nn.LayerNorm(n_in), nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, n_out)
            )

        # theta
        self.prototype = perceptron(2 * width, d + 1)
        self.nothing = nn.Parameter(torch.zeros(1, 1, width))
        self.assigned = nn.Parameter(torch.zeros(1, 1, width))
        self.pioneer_to_clusters = MultiheadAttentionBlock(width, heads)
        self.pioneer_to_points = MultiheadAttentionBlock(width, heads)
        self.to_prior = perceptron(width, 2 * d)
        self.summaries = nn.Parameter(torch.empty(1, config.n_summaries, width))
        nn.init.xavier_uniform_(self.summaries)
        self.summarize_left = MultiheadAttentionBlock(width, heads)
        self.points_to_summaries = MultiheadAttentionBlock(width, heads)
        self.to_hidden = nn.Linear(width, config.n_hidden + 1)
        with torch.no_grad():
            self.to_hidden.bias[-1] = -8.0  # between the cosines of members and of others
        self.slope = nn.Parameter(torch.randn(config.n_hidden) * 0.1)
        self.out = nn.Parameter(torch.randn(config.n_hidden) * 0.1)
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.central = perceptron(width, 1) if config.central else None
        # phi
        self.pioneer_to_members = MultiheadAttentionBlock(width, heads)
        self.to_posterior = perceptron(width + d, 2 * d)
        if config.inference == "iterative":
            self.update = perceptron(4 * d, 2 * d)

    def encode(self, points: Tensor, mask: Tensor | None) -> Representations:
        """Encode (R, N, n_features) points once; all steps of the loop read it."""
        h = self.encoder(points, mask)
        raw = self.to_sphere(h)
        # Encodings of points have most in common; cosines should see how they differ.
        everyone = torch.ones_like(h[..., 0], dtype=torch.bool) if mask is None else mask
        sphere, pioneering = (raw - masked_mean(raw, everyone).unsqueeze(1)).chunk(2, dim=-1)
        central = torch.zeros_like(h[..., 0]) if self.central is None else self.central(h).squeeze(-1)
        return Representations(
            h, functional.normalize(sphere, dim=-1), functional.normalize(pioneering, dim=-1), central
        )

    # -- theta -----------------------------------------------------------------------------------

    def prototypes(self, mean_assigned: Tensor, mean_left: Tensor) -> tuple[Tensor, Tensor]:
        """m^k of unit length (..., D), and the score of "nobody is left" (...), from means (..., width)."""
        raw = self.prototype(torch.cat([mean_assigned, mean_left], dim=-1))
        return functional.normalize(raw[..., :-1], dim=-1), raw[..., -1]

    def context(self, h: Tensor, sums: Tensor, sizes: Tensor, left: Tensor) -> StepContext:
        """Context of the points when clusters with these sums (R, K, width) and sizes (R, K) are assigned."""
        means = sums / sizes.clamp(min=1).unsqueeze(-1) + self.assigned
        keys = torch.cat([self.nothing.expand(len(h), -1, -1), means], dim=1)
        exists = torch.cat([left.new_ones(len(h), 1), sizes > 0], dim=1)
        summaries = self.summarize_left(self.summaries.expand(len(h), -1, -1), h, left)
        seen = torch.cat([keys, summaries], dim=1)
        mask = torch.cat([exists, exists.new_ones(len(h), summaries.shape[1])], dim=1)
        raw = self.to_hidden(self.points_to_summaries(h, seen, mask))
        return StepContext(keys, exists, left, raw[..., :-1], raw[..., -1])

    def prior(
        self, h: Tensor, context: StepContext, h_pioneer: Tensor, e_pioneer: Tensor
    ) -> tuple[Gaussian, Tensor]:
        """p(z | S_I) of Eq 12 for S pioneers (R, S, .) of each data set; and the pioneers' context."""
        w = self.pioneer_to_clusters(h_pioneer, context.keys, context.key_mask)
        w = self.pioneer_to_points(w, h, context.left)
        raw_mean, b = self.to_prior(w).chunk(2, dim=-1)
        return Gaussian(functional.normalize(e_pioneer + raw_mean, dim=-1), b), w

    def scene(
        self, sphere: Tensor, context: StepContext, prior: Gaussian, target: Tensor, counts: Tensor
    ) -> Scene:
        """Everything that p(h, z | S_I) needs."""
        decoder = (context.hidden, context.offset, self.slope, self.out, self.scale)
        return Scene(sphere, *decoder, prior, target, counts)

    # -- phi -------------------------------------------------------------------------------------

    def posterior(self, encoded: Representations, members: Tensor, w_pioneer: Tensor) -> Gaussian:
        """q(z | h, S_I) of Eq 14 for clusters with ``members`` (R, S, N).

        The pioneer's context ``w_pioneer`` (R, S, width) comes from V_1 .. V_k-1 and U_k; here it attends to
        every point of V_k, too.
        """
        n_states = members.shape[1]
        everyone = encoded.h.repeat_interleave(n_states, dim=0)
        w = self.pioneer_to_members(
            w_pioneer.detach().flatten(0, 1).unsqueeze(1), everyone, members.flatten(0, 1) > 0
        )
        pooled = members @ encoded.sphere / members.sum(-1, keepdim=True).clamp(min=1)
        known = torch.cat([w.unflatten(0, (-1, n_states)).squeeze(2), pooled], dim=-1)
        raw_mean, b = self.to_posterior(known).chunk(2, dim=-1)
        return Gaussian(functional.normalize(functional.normalize(pooled, dim=-1) + raw_mean, dim=-1), b)

    def learned_update(self, psi: Gaussian, gradient: Gaussian) -> Gaussian:
        """One step of iterative amortized inference."""
        raw = self.update(torch.cat([*psi, *(10 * part for part in gradient)], dim=-1))
        by_mean, by_b = raw.chunk(2, dim=-1)
        return Gaussian(psi.mean + 0.1 * by_mean, psi.b + 0.1 * by_b)

    # -- training and inference ------------------------------------------------------------------

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """The negative objective per point at random states of the loop."""
        encoded = self.encode(task.points, None)
        prefix = random_prefix(task.labels, task.n_clusters, self.config.n_states, generator)
        candidates = next_clusters(self, encoded, prefix, generator)
        value = objectives(self, candidates, prefix, generator)
        n_points = task.points.shape[1]
        return -value.mean() / n_points + SEPARATION_WEIGHT * candidates.regularizer

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
    ) -> list[Inference]:
        """Partitions of B data sets: one path takes likely pioneers and mean vectors, others draw both."""
        encoded = self.encode(points, None if bool(mask.all()) else mask)
        seeds = seeds or [0] * len(points)
        return Loop(self, encoded, mask, seeds, n_draws, max_clusters).run()


# -- estimator ---------------------------------------------------------------------------------------


class CHiGac(AmortizedClusterer):
    """CHiGac (Liu, Wang & Jing 2021): clusters grow from representative rows, the pioneers; k is found.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one: a
    pioneer is chosen among the remaining rows, a latent vector of its cluster follows from it, and
    together they decide which rows belong to the cluster. All three are random variables of a trained
    model, so that further draws show how certain the answer is.

    Parameters
    ----------
    max_network_points : int or None
        As for :class:`AMCP`; None stands for 256.
    weights, projection, scaling, max_clusters, random_state, verbose, device
        As for :class:`AMCP`; ``weights=None`` stands for "chigac-2d".

    Attributes
    ----------
    pioneers_ : ndarray of shape (K,)
        A row that stands for each cluster of ``labels_``: the pioneer that it was generated from, a central
        member. Of a sample of a source the number of the row in the source.
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order. ``anchor`` is the pioneer.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, k_posterior_, means_, covariances_, \
proportions_, weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`.

    Examples
    --------
    >>> import clusterwise as cw
    >>> rng = np.random.default_rng(1)
    >>> drawn = cw.priors.MixtureOfGaussians(k_max=4).draw_set(rng, 400)
    >>> est = cw.CHiGac(random_state=0).fit(drawn.points)
    >>> int(est.n_clusters_)
    3
    >>> bool((est.labels_[est.pioneers_] == range(3)).all())
    True
    """

    _method = "chigac"

    @property
    def pioneers_(self) -> np.ndarray:
        """A row for each cluster, (K,)."""
        anchors = np.array([step.anchor for step in self.steps_], dtype=np.int64)
        rows = self._rows
        assert rows is not None
        labels = self._found.assigner.memberships(rows.features).argmax(axis=1)
        clusters = rows.in_input_order(labels)[anchors]
        pioneers = anchors[np.argsort(clusters, kind="stable")][-self.n_clusters_ :]
        return pioneers if self._source is None else self.sample_rows_[pioneers]
