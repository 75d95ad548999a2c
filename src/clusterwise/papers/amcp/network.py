"""Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters one by one on stored encodings.

An encoder runs once per data set and gives every point an encoding x_i in (0, 1)^D. Step k of the
cluster-wise loop (``generate_clusters``) then works on these encodings alone:

1. *InterCC* draws the seed of the next cluster among the unassigned points S_k (Eqs 8-10);
2. *IntraCM* runs T EM steps of a mixture with one reference phi_j for each cluster so far, one for the
   new cluster, started at the seed, and one component for the rest (Eqs 3-7);
3. the plan's column k says who joins C_k; earlier clusters are revised by their own columns (AMCP*);
4. when no point is left, IntraCM goes on over the data themselves, and a learned judge splits and merges
   clusters (``revision``).

Objective (``loss``; Eq 11), unrolled over the T steps, at random states of the loop::

    - log p(C_k | .)                      cross-entropy of the plan against the true columns
    - w sum_j q_ij log(pi_j p_ij / q_ij)  the bound of IntraCM (Eq 4), the components' width held fixed
    - v log sum_i s_i exp(-loss_i)        the chance that a drawn seed i leads to a right cluster (Eqs 9-10)
    + densities and decisions of step 4   if the configuration asks for them

=====================  ================================================  =================================
symbol                 meaning                                           here
=====================  ================================================  =================================
x_i                    encoding of a point                               ``AMCPNetwork.encode``
phi_j, f_theta(phi_j)  reference of a component, its decoded centre      ``Decoder``
log p(x_i | phi_j)     Gaussian, fixed covariance; the rest: a constant  ``log_joint`` (Eq 3)
q_ij                   responsibility, or transport plan                 ``e_step`` (Eq 4, Eqs 5-6)
epsilon                of the transport, learned                         ``log_epsilon`` (Eq 6)
phi_j, pi_j updates    gradient step or closed form; mean of q           ``m_step`` (Eq 7)
M, its column means    similarity of unassigned to assigned points       ``similarity_to_assigned`` (Eq 9)
s_i, seed of C_k       probability of a seed, one draw of it             ``seed_logits`` (Eq 10)
=====================  ================================================  =================================

Departures from the paper, corrections of it and readings of ours; the largest one first.

(1) The paper's x_i are the data, scaled to the cube. Here they are encodings by a network of set attention
    that sees the whole data set, so that clusters of any width and shape may be round; ``encoder="none"`` is
    the printed one.
(2) Eq 6 puts p where log p belongs.
(3) Eq 7's sign is that of ascent on the error; we step along sum_i q_ij (x_i - f(phi_j)) grad f, divided by
    the mass of component j, or the step would grow with N.
(4) Columns of the plan sum to 1/k as printed, which forces equal clusters and stays as an option. Free ones
    are asked to be those of the step before; the kernel is without them. How strictly they hold
    (unbalanced transport), and epsilon, are learned: strictness 0 and epsilon 1 are the regular E-step.
(5) Eq 9 does not type-check; barycentric projections of assigned and unassigned points are compared, on
    rows centred in the cube and normalized. Eq 10 needs column sums of M only, one product with the mean
    projection of the assigned points.
(6) One draw of Eq 10 is a point, so it is the seed of C_k. How much the similarity counts is learned, and so
    is the loss to be expected of the cluster that a seed leads to, which counts as well.
(7) Algorithm 1 loops while S_k is *not* empty; its first cluster comes from the same step with nothing
    assigned, k-means stays as an option.
(8) The component of the rest has a constant density on the cube: what is left is many clusters, which no
    single reference describes.
(9) With a linear f_theta, the default, the M-step has a closed form, in which W cancels: the centre is the
    mean of the encodings under q.
(10) Splits and merges after the loop are not in the paper; some states of training have two clusters as one.
     Their mixture is one of the data, as Eq 3 has it, with a covariance for each cluster, which is learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from clusterwise.nn.attention import SetEncoder
from clusterwise.nn.sinkhorn import sinkhorn
from clusterwise.papers.amcp.cluster_loop import (
    ABSENT,
    NEVER,
    UNASSIGNED,
    first_by_k_means,
    generate_clusters,
    uniform_numbers,
)
from clusterwise.papers.amcp.learned_gaussians import ClusterJudge
from clusterwise.papers.amcp.loss import loop_loss, revision_loss
from clusterwise.papers.amcp.revision import revise_partitions
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask

__all__ = ["AMCPConfig", "AMCPNetwork", "Decoder", "Encodings", "Mixing"]

# Points of the paths that run together; with more of them the processor's cache would not do.
POINTS_AT_A_TIME = 16384


@dataclass(frozen=True)
class AMCPConfig:
    """What defines an AMCP network and its loop; stored in the header of its weights file."""

    n_features: int = 2
    decoder: Literal["linear", "mlp"] = "linear"
    width: int = 96
    n_heads: int = 4
    n_inducing: int = 16
    n_encoder_blocks: int = 5
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    n_coordinates: int = 32  # D
    n_hidden: int = 64  # of the MLP decoder
    n_em_steps: int = 3  # T
    n_states: int = 4  # states of the loop that a training step looks at, per data set
    encoder: Literal["set", "none"] = "set"  # "none", as printed: the mixture is one of the scaled data
    e_step: Literal["regular", "sinkhorn"] = "regular"
    sinkhorn_iterations: int = 8
    proportions: Literal["free", "balanced"] = "free"
    coupling: bool = True  # InterCC: whether a seed's chance depends on what is assigned
    update: bool = True  # AMCP*: whether a step revises earlier clusters
    first_cluster: Literal["learned", "k-means"] = "learned"  # "k-means", as printed
    merged_share: float = field(default=0.25, metadata={"least": 0})  # of states with two clusters as one
    revision: bool = False  # whether clusters are split and merged at the end
    trained: Literal["all", "revision"] = "all"  # "revision" leaves all else as it is at the start


class Encodings(NamedTuple):
    """Encodings of P data sets of N points, with what every EM step needs of them."""

    x: Tensor  # (P, N, D)
    extended: Tensor  # (P, N, D + 1), x and a one; zero for absent points
    half_squares: Tensor  # (P, 1, N), |x|^2 / 2
    n_points: Tensor  # (P, 1), of those that are present

    @classmethod
    def of(cls, x: Tensor, mask: Tensor | None = None) -> Encodings:
        """Prepare encodings (P, N, D) of the points that ``mask`` (P, N) marks, or of all."""
        extended = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
        if mask is not None:
            extended = extended * mask.unsqueeze(-1)
        half_squares = 0.5 * x.square().sum(-1).unsqueeze(1)
        return cls(x, extended, half_squares, extended[..., -1].sum(1, keepdim=True))

    def rows(self, which: Tensor) -> Encodings:
        """Those of some data sets, by a mask or by numbers."""
        return Encodings(*(values[which] for values in self))

    def mass_and_means(self, plan: Tensor) -> tuple[Tensor, Tensor]:
        """Mass (P, J) of each component under a plan (P, J, N), and the mean of its encodings (P, J, D)."""
        sums = plan @ self.extended
        return sums[..., -1], sums[..., :-1] / (sums[..., -1:] + 1e-6)


class Mixing(NamedTuple):
    """A mixture over the encodings of P data sets; the last of the J components is the rest."""

    references: Tensor  # phi, (P, J, D)
    log_proportions: Tensor  # log pi, (P, J)
    log_plan: Tensor  # log q, (P, J, N), sums to one over the components


class Decoder(nn.Module):
    """f_theta: from references phi (P, J, D) to centres in (0, 1)^D, and the M-step that goes with it."""

    def __init__(self, kind: Literal["linear", "mlp"], n_coordinates: int, n_hidden: int) -> None:
        super().__init__()
        self.kind = kind
        if kind == "mlp":
            self.inner = nn.Linear(n_coordinates, n_hidden)
            self.outer = nn.Linear(n_hidden, n_coordinates)
            self.log_step = nn.Parameter(torch.tensor(1.0))  # log eta

    def start(self, centres: Tensor) -> Tensor:
        """References to begin with, for clusters whose encodings have these means."""
        return centres if self.kind == "linear" else torch.logit(centres, eps=1e-4)

    def forward(self, references: Tensor) -> Tensor:
        """f_theta(phi), (P, J, D)."""
        if self.kind == "linear":
            return references
        return torch.sigmoid(self.outer(torch.tanh(self.inner(torch.sigmoid(references)))))

    def m_step(self, references: Tensor, means: Tensor) -> Tensor:
        """Eq 7 with the mean error of each component: ``means`` - f(phi), all (P, J, D)."""
        if self.kind == "linear":
            return means
        squashed = torch.sigmoid(references)
        hidden = torch.tanh(self.inner(squashed))
        centres = torch.sigmoid(self.outer(hidden))
        # The gradient of f, transposed, times the error, layer by layer.
        back = (means - centres) * centres * (1 - centres)
        back = (back @ self.outer.weight) * (1 - hidden.square())
        back = (back @ self.inner.weight) * squashed * (1 - squashed)
        return references + torch.exp(self.log_step) * back


class AMCPNetwork(AmortizedModel):
    """Encoder, decoder f_theta, and what is learned of the cluster-wise loop of Algorithm 1."""

    method = "amcp"
    config_class = AMCPConfig

    def __init__(self, config: AMCPConfig) -> None:
        super().__init__()
        self.config = config
        n_coordinates = config.n_features
        if config.encoder == "set":
            n_coordinates = config.n_coordinates
            self.encoder = SetEncoder(
                config.n_features,
                config.width,
                config.n_heads,
                config.n_inducing,
                config.n_encoder_blocks,
                config.n_wavelengths,
            )
            self.to_encoding = nn.Linear(config.width, n_coordinates)
            self.log_seed_loss = nn.Sequential(nn.Linear(config.width, 32), nn.ReLU(), nn.Linear(32, 1))
        self.decoder = Decoder(config.decoder, n_coordinates, config.n_hidden)
        self.log_sd = nn.Parameter(torch.tensor(-1.5))  # of a component, the same in all directions
        self.log_density_of_rest = nn.Parameter(torch.tensor(-4.0))
        # Eq 10: weights of the dissimilarity to what is assigned, and of the loss expected from a seed.
        self.log_weight_of_dissimilarity = nn.Parameter(torch.tensor(math.log(10.0)))
        self.log_weight_of_expected_loss = nn.Parameter(torch.tensor(math.log(2.0)))
        if config.e_step == "sinkhorn":
            self.log_epsilon = nn.Parameter(torch.tensor(0.0))
            self.strictness = nn.Parameter(torch.tensor(0.0))  # its logit
        self.judge = ClusterJudge() if config.revision else None

    def encode(self, points: Tensor, mask: Tensor | None) -> tuple[Encodings, Tensor]:
        """Encodings of B data sets, and the log loss expected of each point as a seed, (B, N)."""
        if self.config.encoder == "none":
            return Encodings.of(in_cube(points, mask), mask), torch.zeros_like(points[..., 0])
        h = self.encoder(points, mask)
        # The head reads the encoding but does not shape it.
        log_seed_loss = self.log_seed_loss(h.detach()).squeeze(-1)
        return Encodings.of(torch.sigmoid(self.to_encoding(h)), mask), log_seed_loss

    # -- InterCC ---------------------------------------------------------------------------------

    def seed_logits(self, similarity: Tensor, log_seed_loss: Tensor, unassigned: Tensor) -> Tensor:
        """Eq 10: logits of the next seed for all points (P, N), NEVER for those that are not unassigned."""
        logits = -log_seed_loss * torch.exp(self.log_weight_of_expected_loss)
        if self.config.coupling:
            logits = logits + (1 - similarity) * torch.exp(self.log_weight_of_dissimilarity)
        return logits.masked_fill(~unassigned, NEVER)

    # -- IntraCM ---------------------------------------------------------------------------------

    def intra_cluster_mixing(self, points: Encodings, columns: Tensor, seeds: Tensor, k: int) -> list[Mixing]:
        """The mixtures of T EM steps from the present columns of the points, (P, N).

        A column is one of the k clusters so far or UNASSIGNED; ``seeds`` (P,) start the new component k.
        """
        mass, means = mass_and_means_of(points, columns, k)
        rows = torch.arange(len(seeds), device=seeds.device)
        of_seeds = points.x[rows, seeds].unsqueeze(1)
        means = torch.cat([means[:, :k], of_seeds, means[:, k + 1 :]], dim=1)
        # What the seed was part of, as a rule what is unassigned, is half the new cluster's until the first
        # E-step says more.
        own = columns.gather(1, seeds.unsqueeze(1))
        origin = torch.where(own == UNASSIGNED, k + 1, own)
        half = 0.5 * mass.gather(1, origin)
        mass = mass.scatter(1, origin, half).scatter(1, torch.full_like(origin, k), half)
        mixing = Mixing(self.decoder.start(means), self._log_proportions(points, mass), mass.new_zeros(0))
        path = [mixing._replace(log_plan=self.e_step(points, mixing))]
        for _ in range(self.config.n_em_steps - 1):
            mixing = self.m_step(points, path[-1])
            path.append(mixing._replace(log_plan=self.e_step(points, mixing)))
        return path

    def mixing_of_columns(self, points: Encodings, columns: Tensor, k: int) -> Mixing:
        """The mixture that columns (P, N) as they are stand for; the new component k has no share."""
        mass, means = mass_and_means_of(points, columns, k)
        return Mixing(self.decoder.start(means), self._log_proportions(points, mass), mass.new_zeros(0))

    def log_joint(self, points: Encodings, mixing: Mixing, log_sd: Tensor | None = None) -> Tensor:
        """log(pi_j p(x_i | f(phi_j))) of Eq 3, (P, J, N), up to a term that depends on the point alone.

        Densities are relative to a component's peak; the last component is the rest. What is left out is
        ``-|x_i|^2 / (2 sd^2)``, so the constant of the rest has the opposite.
        """
        centres = self.decoder(mixing.references[:, :-1])
        precision = torch.exp(-2 * (self.log_sd if log_sd is None else log_sd))
        log_proportions = mixing.log_proportions.unsqueeze(2)
        scaled = precision * centres
        offsets = log_proportions[:, :-1] - 0.5 * (scaled * centres).sum(-1, keepdim=True)
        gaussian = torch.baddbmm(offsets, scaled, points.x.transpose(1, 2))
        rest = precision * points.half_squares + (log_proportions[:, -1:] + self.log_density_of_rest)
        return torch.cat([gaussian, rest], dim=1)

    def e_step(self, points: Encodings, mixing: Mixing) -> Tensor:
        """log q of Eq 4 or of Eq 6, (P, J, N)."""
        log_joint = self.log_joint(points, mixing)
        if self.config.e_step == "regular":
            return torch.log_softmax(log_joint, dim=1)
        # The kernel is without the proportions, which are the columns: those of the step before.
        kernel = (log_joint - mixing.log_proportions.unsqueeze(2)).transpose(1, 2)
        present = points.extended[..., -1] > 0
        rows = torch.zeros_like(kernel[..., 0]).masked_fill(~present, -torch.inf)
        columns = mixing.log_proportions + torch.log(points.n_points)
        epsilon, strictness = self._transport()
        plan = sinkhorn(kernel, rows, columns, epsilon, self.config.sinkhorn_iterations, strictness)
        return plan.masked_fill(~present.unsqueeze(2), 0.0).transpose(1, 2)

    def _transport(self) -> tuple[Tensor | float, Tensor | float]:
        """Epsilon and strictness of the Sinkhorn E-step; 1 and 1 if the network was trained without it."""
        if not hasattr(self, "log_epsilon"):
            return 1.0, 1.0
        return torch.exp(self.log_epsilon), torch.sigmoid(self.strictness)

    def m_step(self, points: Encodings, mixing: Mixing) -> Mixing:
        """Eq 7 (or the closed form) for the references, and the mean of q for the proportions."""
        mass, means = points.mass_and_means(torch.exp(mixing.log_plan))
        # A component that no point wants stays where it is.
        means = torch.where(mass.unsqueeze(-1) > 1e-3, means, self.decoder(mixing.references))
        references = self.decoder.m_step(mixing.references, means)
        return mixing._replace(references=references, log_proportions=self._log_proportions(points, mass))

    def _log_proportions(self, points: Encodings, mass: Tensor) -> Tensor:
        """log pi (P, J) of components with this mass; one without any gets no point ever."""
        if self.config.proportions == "balanced":
            log_shares = -torch.log((mass > 0).sum(1, keepdim=True)).to(mass.dtype)
        else:
            log_shares = torch.log(mass.clamp(min=1e-9) / points.n_points)
        return torch.where(mass > 0, log_shares, NEVER)

    def log_evidence(self, points: Encodings, mixing: Mixing) -> Tensor:
        """log sum_j pi_j p(x_i | f(phi_j)), (P, N): the bound of Eq 4 at its best q.

        The components' width is held fixed: densities are relative to their peaks, and without the normalizer
        a wider component would always be the better one.
        """
        log_sd = self.log_sd.detach()
        own = torch.exp(-2 * log_sd) * points.half_squares.squeeze(1)
        return torch.logsumexp(self.log_joint(points, mixing, log_sd), dim=1) - own

    # -- training and inference ------------------------------------------------------------------

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Eq 11 at random states of the loop, and what is learned of splits and merges, if they are."""
        if self.judge is None:
            return loop_loss(self, task, generator)
        loss = revision_loss(self, self.judge, task, generator)
        return loss if self.config.trained == "revision" else loss + loop_loss(self, task, generator)

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
        revise: bool = True,
    ) -> list[Inference]:
        """Partitions of B data sets; one path takes the likeliest seeds, ``n_draws`` more draw them (Eq 10).

        With ``revise`` and weights that have learned it, clusters are split and merged at the end.
        """
        numbers = [uniform_numbers(seed, n_draws, max_clusters) for seed in seeds or [0] * len(points)]
        uniform = torch.cat(numbers).to(points.device)
        of_set = torch.arange(len(points), device=points.device).repeat_interleave(1 + n_draws)
        encodings, log_seed_loss = self.encode(points, None if bool(mask.all()) else mask)
        columns = torch.where(mask, UNASSIGNED, ABSENT)
        if self.config.first_cluster == "k-means":
            columns = columns.masked_fill(first_by_k_means(points, mask), 0)
        found = []
        for paths in torch.arange(len(of_set)).split(max(1, POINTS_AT_A_TIME // points.shape[1])):
            sets = of_set[paths]
            of_paths = (encodings.rows(sets), log_seed_loss[sets], columns[sets], uniform[paths])
            found.append(generate_clusters(self, *of_paths))
        labels, capped = torch.cat([one.labels for one in found]), torch.cat([one.capped for one in found])
        steps = [steps for one in found for steps in one.steps]
        if revise and self.judge is not None and self.config.revision:
            # The last number of a path chooses no seed, unless the loop comes to its cap.
            probability = torch.where(uniform[:, -1] < 0, 0.5, uniform[:, -1])
            logits = torch.logit(probability, eps=1e-9)
            labels, capped, _ = revise_partitions(
                self.judge, points[of_set], mask[of_set], labels, max_clusters, logits
            )
        return [
            Inference(own[0], tuple(steps[b * (1 + n_draws)]), None, bool(at_cap[0]), tuple(own[1:]))
            for b, (own, at_cap) in enumerate(
                zip(labels.split(1 + n_draws), capped.split(1 + n_draws), strict=True)
            )
        ]


def mass_and_means_of(points: Encodings, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Mass (P, k + 2) and mean encodings (P, k + 2, D) of k clusters, a new one, empty, and the rest."""
    codes = torch.arange(k + 2, device=columns.device)
    codes[-1] = UNASSIGNED
    members = (columns.unsqueeze(1) == codes.unsqueeze(1)).to(points.x.dtype)  # (P, k + 2, N)
    sums = members @ points.extended
    return sums[..., -1], sums[..., :-1] / sums[..., -1:].clamp(min=1)


def in_cube(points: Tensor, mask: Tensor | None) -> Tensor:
    """Each data set (B, N, d) in (0, 1), with one scale for all features, as f_theta's sigmoid asks."""
    present = torch.ones_like(points[..., :1], dtype=torch.bool) if mask is None else mask.unsqueeze(-1)
    lowest = points.masked_fill(~present, torch.inf).amin(1, keepdim=True)
    highest = points.masked_fill(~present, -torch.inf).amax(1, keepdim=True)
    extent = (highest - lowest).amax(-1, keepdim=True).clamp(min=1e-9)
    return 0.05 + 0.9 * (points - lowest) / extent
