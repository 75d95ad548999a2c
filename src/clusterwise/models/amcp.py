"""Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters one by one on stored encodings.

An encoder runs once per data set and gives every point an encoding x_i in (0, 1)^D. Step k of the
cluster-wise loop then works on these encodings alone:

1. *InterCC* draws the seed of the next cluster among the unassigned points S_k (Eqs 8-10);
2. *IntraCM* runs T EM steps of a mixture with one reference phi_j for each cluster so far, one for the
   new cluster, started at the seed, and one component for the rest (Eqs 3-7); in torch for training, here,
   and in numpy with all its options for the loop, in ``amcp_mixing``;
3. the plan's column k says who joins C_k; earlier clusters are revised by their own columns (AMCP*).

Objective (``AMCP.loss``; Eq 11), unrolled over the T steps:

    - log p(C_k | .)                      cross-entropy of the plan against the true columns
    - w sum_j q_ij log(pi_j p_ij / q_ij)  the bound of IntraCM (Eq 4)

=====================  ================================================  =================================
symbol                 meaning                                           here
=====================  ================================================  =================================
x_i                    encoding of a point                               ``AMCP.encode``
phi_j, f_theta(phi_j)  reference of a component, its decoded centre      ``Decoder``
log p(x_i | phi_j)     Gaussian, fixed covariance; the rest: a constant  ``log_joint`` (Eq 3)
q_ij                   responsibility                                    ``e_step`` (Eq 4)
q_ij                   transport plan                                    ``amcp_mixing`` (Eqs 5-6)
phi_j, pi_j updates    gradient step or closed form; mean of q           ``m_step`` (Eq 7)
M, its column sums     similarity of unassigned to assigned points       ``amcp_loop`` (Eq 9)
seed of C_k            one draw of Eq 10                                 ``amcp_loop`` (Eq 10)
=====================  ================================================  =================================

Corrections of the paper and readings of ours.

(1) Eq 6 puts p where log p belongs.
(2) Eq 7's sign is that of ascent on the error; we step along sum_i q_ij (x_i - f(phi_j)) grad f, divided by
    the mass of component j, or the step would grow with N.
(3) Columns of the plan sum to pi, re-estimated in each step; 1/k, as printed, forces equal clusters and
    stays as an option.
(4) Eq 9 does not type-check; barycentric projections of assigned and unassigned points are compared, on
    rows centred in the cube and normalized.
(5) Eq 10 needs column sums of M only, one product with the mean projection of the assigned points.
(6) One draw of Eq 10 is a point, so it is the seed of C_k; whether a point makes a good seed is learned
    along with it, from the loss of the clusters that seeds lead to.
(7) Algorithm 1 loops while S_k is *not* empty; its first cluster comes from the same step with nothing
    assigned, k-means stays as an option.
(8) The component of the rest has a constant density on the cube: what is left is many clusters, which no
    single reference describes.
(9) With a linear f_theta the M-step has a closed form, in which W cancels: the centre is the mean of the
    encodings under q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.models.amcp_encoding import NumpyEncoding
from clusterwise.models.amcp_loop import Loop, first_by_k_means, uniform_numbers
from clusterwise.models.amcp_mixing import NEVER, Encodings, IntraCM
from clusterwise.models.amcp_path import compiled_inference
from clusterwise.models.base import AmortizedModel, Inference, TrainingTask
from clusterwise.nn.encoder import SetEncoder

__all__ = ["AMCP", "AMCPConfig", "Decoder", "Encoded", "Mixing", "Options", "random_state"]


@dataclass(frozen=True)
class AMCPConfig:
    """What defines an AMCP network; stored in the header of its weights file."""

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


@dataclass(frozen=True)
class Options:
    """Choices of the cluster-wise loop that need no other weights: the ablations of section 4.3."""

    e_step: Literal["regular", "sinkhorn"] = "regular"
    n_em_steps: int | None = None  # None: as trained
    proportions: Literal["free", "balanced"] = "free"
    update: bool = True  # AMCP*: earlier clusters are revised
    first_cluster: Literal["learned", "k-means"] = "learned"
    epsilon: float = 1.0  # of the Sinkhorn E-step
    sinkhorn_iterations: int = 10

    @property
    def is_usual(self) -> bool:
        """Whether ``amcp_path`` has all of it."""
        usual = ("regular", "free", "learned")
        return (self.e_step, self.proportions, self.first_cluster) == usual


class Mixing(NamedTuple):
    """A mixture over the encodings of B data sets; the last of the J components is the rest."""

    references: Tensor  # phi, (B, J, D)
    log_proportions: Tensor  # log pi, (B, J)
    log_plan: Tensor  # log q, (B, N, J), rows sum to one


class Encoded(NamedTuple):
    """Encodings of B data sets, with what every EM step needs of them."""

    x: Tensor  # (B, N, D)
    extended: Tensor  # (B, N, D + 1), x and a one
    half_squares: Tensor  # (B, N, 1), |x|^2 / 2

    @classmethod
    def of(cls, x: Tensor) -> Encoded:
        """Prepare encodings (B, N, D)."""
        extended = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
        return cls(x, extended, 0.5 * x.square().sum(-1, keepdim=True))

    def mass_and_means(self, log_plan: Tensor) -> tuple[Tensor, Tensor]:
        """Mass (B, J) of each component under a plan, and the mean of its encodings (B, J, D)."""
        sums = torch.exp(log_plan).transpose(1, 2) @ self.extended
        return sums[..., -1], sums[..., :-1] / (sums[..., -1:] + 1e-6)

    def log_shares(self, mass: Tensor) -> Tensor:
        """Log proportions (B, J) of components with this mass; one without any gets no point ever."""
        return torch.where(mass > 0, torch.log(mass.clamp(min=1e-9) / self.x.shape[1]), NEVER)


class Decoder(nn.Module):
    """f_theta: from references phi (B, J, D) to centres in (0, 1)^D, and the M-step that goes with it."""

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
        """f_theta(phi), (B, J, D)."""
        if self.kind == "linear":
            return references
        return torch.sigmoid(self.outer(torch.tanh(self.inner(torch.sigmoid(references)))))

    def m_step(self, references: Tensor, means: Tensor) -> Tensor:
        """Eq 7 with the mean error of each component: ``means`` - f(phi), all (B, J, D)."""
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


class AMCP(AmortizedModel):
    """Encoder, decoder f_theta, and the cluster-wise loop of Algorithm 1."""

    method = "amcp"
    config_class = AMCPConfig

    def __init__(self, config: AMCPConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = SetEncoder(
            config.n_features,
            config.width,
            config.n_heads,
            config.n_inducing,
            config.n_encoder_blocks,
            config.n_wavelengths,
        )
        self.to_encoding = nn.Linear(config.width, config.n_coordinates)
        self.decoder = Decoder(config.decoder, config.n_coordinates, config.n_hidden)
        self.log_sd = nn.Parameter(torch.tensor(-1.5))  # of a component, the same in all directions
        self.log_density_of_rest = nn.Parameter(torch.tensor(-4.0))
        self.log_seed_loss = nn.Sequential(nn.Linear(config.width, 32), nn.ReLU(), nn.Linear(32, 1))
        self._in_numpy: NumpyEncoding | None = None

    def encode(self, points: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encodings x (B, N, D), and the log loss expected of each point as a seed, (B, N)."""
        h = self.encoder(points, mask)
        # The head reads the encoding but does not shape it.
        return torch.sigmoid(self.to_encoding(h)), self.log_seed_loss(h.detach()).squeeze(-1)

    # -- IntraCM ---------------------------------------------------------------------------------

    def log_joint(self, points: Encoded, mixing: Mixing) -> Tensor:
        """log(pi_j p(x_i | f(phi_j))) of Eq 3, (B, N, J), up to a term that depends on the point alone.

        Densities are relative to a component's peak; the last component is the rest. What is left out is
        ``-|x_i|^2 / (2 sd^2)``, so the constant of the rest has the opposite.
        """
        centres = self.decoder(mixing.references[:, :-1])
        precision = torch.exp(-2 * self.log_sd)
        # The offset of a component is -|c|^2 / 2, all in units of the precision.
        offsets = centres.square().sum(-1).unsqueeze(1)
        gaussian = torch.baddbmm(offsets, points.x, centres.transpose(1, 2), beta=-0.5)
        relative = torch.cat([gaussian, points.half_squares + self.log_density_of_rest / precision], dim=-1)
        return precision * relative + mixing.log_proportions.unsqueeze(1)

    def e_step(self, points: Encoded, mixing: Mixing) -> Tensor:
        """Return log q of Eq 4, (B, N, J)."""
        return torch.log_softmax(self.log_joint(points, mixing), dim=-1)

    def log_evidence(self, points: Encoded, mixing: Mixing) -> Tensor:
        """log sum_j pi_j p(x_i | f(phi_j)), (B, N): the bound of Eq 4 at its best q."""
        own = torch.exp(-2 * self.log_sd) * points.half_squares.squeeze(-1)
        return torch.logsumexp(self.log_joint(points, mixing), dim=-1) - own

    def m_step(self, points: Encoded, mixing: Mixing) -> Mixing:
        """Eq 7 (or the closed form) for the references, and the mean of q for the proportions."""
        mass, means = points.mass_and_means(mixing.log_plan)
        # A component that no point wants stays where it is.
        means = torch.where(mass.unsqueeze(-1) > 1e-3, means, self.decoder(mixing.references))
        references = self.decoder.m_step(mixing.references, means)
        return Mixing(references, points.log_shares(mass), mixing.log_plan)

    def intra_cluster_mixing(
        self, points: Encoded, columns: Tensor, seeds: Tensor, n_columns: int
    ) -> list[Mixing]:
        """Run T EM steps from the present columns of the points; return the mixing after each.

        ``columns`` (B, N) is the cluster of each assigned point, ``n_columns`` - 1 = k - 1 of them, and
        ``n_columns`` for unassigned ones; ``seeds`` (B,) starts the component n_columns - 1.
        """
        x = points.x
        members = functional.one_hot(columns, n_columns + 1).to(x.dtype)  # (B, N, J)
        sums = members.transpose(1, 2) @ points.extended
        mass, means = sums[..., -1], sums[..., :-1] / sums[..., -1:].clamp(min=1)
        rows = torch.arange(len(x), device=x.device)
        means = torch.cat([means[:, :-2], x[rows, seeds].unsqueeze(1), means[:, -1:]], dim=1)
        # What is unassigned is half the new cluster's until the first E-step says more.
        unassigned = 0.5 * mass[:, -1:]
        log_proportions = points.log_shares(torch.cat([mass[:, :-2], unassigned, unassigned], dim=1))
        mixing = Mixing(self.decoder.start(means), log_proportions, x.new_zeros(0))
        path = [mixing._replace(log_plan=self.e_step(points, mixing))]
        for _ in range(self.config.n_em_steps - 1):
            mixing = self.m_step(points, path[-1])
            path.append(mixing._replace(log_plan=self.e_step(points, mixing)))
        return path

    # -- training --------------------------------------------------------------------------------

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Eq 11 at random states of the loop, averaged over points, states and EM steps."""
        n_states = self.config.n_states
        x, expected = self.encode(task.points, None)
        x, labels, n_clusters, expected = (
            t.repeat_interleave(n_states, dim=0) for t in (x, task.labels, task.n_clusters, expected)
        )
        columns, target, seeds, n_columns = random_state(labels, n_clusters, generator)
        encoded = Encoded.of(x)
        path = self.intra_cluster_mixing(encoded, columns, seeds, n_columns)
        weights = torch.arange(1, len(path) + 1, device=x.device, dtype=x.dtype)
        weights = weights / weights.sum()
        own = target.unsqueeze(2)  # the column that each point should get
        of_step = [-mixing.log_plan.gather(2, own).squeeze(2).mean(1) for mixing in path]
        of_state = torch.stack(of_step, dim=1) @ weights
        # Eq 4 with the components' width held fixed: it draws encodings to their references.
        bound = self.log_evidence(encoded, path[-1]).mean() / x.shape[-1]
        rows = torch.arange(len(x), device=x.device)
        target_of_head = torch.log(of_step[-1].detach() + SMALLEST_LOSS)
        of_head = functional.mse_loss(expected[rows, seeds], target_of_head)
        return of_state.mean() - BOUND_WEIGHT * bound + HEAD_WEIGHT * of_head

    # -- inference -------------------------------------------------------------------------------

    def _encoding_in_numpy(self) -> NumpyEncoding:
        """Return the last one, if no parameter has changed since."""
        if self._in_numpy is None or not self._in_numpy.holds():
            with torch.inference_mode(False):
                self._in_numpy = NumpyEncoding(self)
        return self._in_numpy

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
        options: Options | None = None,
    ) -> list[Inference]:
        """Partition B data sets; one path takes the likeliest seeds, ``n_draws`` more draw them (Eq 10)."""
        options = options or Options()
        present, intra = mask.cpu().numpy(), IntraCM(self, options)
        if self.decoder.kind == "linear" and options.is_usual and points.device.type == "cpu":
            encode, paths = self._encoding_in_numpy(), []
            for of_set, rows, seed in zip(points.numpy(), present, seeds or [0] * len(points), strict=True):
                numbers = uniform_numbers(seed, n_draws, max_clusters)
                paths.append(compiled_inference(intra, *encode(of_set[rows]), rows, numbers))
            return paths
        x, expected = (t.cpu().numpy() for t in self.encode(points, None if bool(mask.all()) else mask))
        first = first_by_k_means(points, mask).cpu().numpy() if options.first_cluster == "k-means" else None
        found = []
        # Together go the paths through one data set or, if there is one path each, several data sets.
        at_a_time = 1 if n_draws > 0 else max(1, POINTS_AT_A_TIME // max(1, points.shape[1]))
        for start in range(0, len(points), at_a_time):
            sets = slice(start, start + at_a_time)
            numbers = uniform_numbers(seeds[start] if seeds else 0, n_draws, max_clusters)
            numbers = numbers if n_draws > 0 else np.repeat(numbers, len(x[sets]), axis=0)
            encodings = Encodings.of(x[sets], present[sets], intra.precision)
            loop = Loop(intra, encodings, present[sets], expected[sets], numbers, options.update)
            loop.run(None if first is None else first[sets])
            found += [loop.inference(b, points.device) for b in range(len(x[sets]))]
        return found


# Weight of the bound per coordinate; the cross-entropy does the work, this keeps encodings compact.
BOUND_WEIGHT = 0.02
# Weight of the head that predicts the loss of a seed; it shares no parameter with the rest.
HEAD_WEIGHT = 0.1
# Losses below this are all the same to it.
SMALLEST_LOSS = 0.01
# Points of the data sets whose clusters are generated together; more of them would only take more memory.
POINTS_AT_A_TIME = 16384


def random_state(
    labels: Tensor, n_clusters: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Draw a state that the loop could be in: ``columns``, ``target`` (B, N), ``seeds`` (B,), and k.

    Some true clusters are assigned, uniformly many, but some of their points were missed; a seed is
    drawn among the points of the other clusters, by point or by cluster. The target is the column that each
    point should get: its assigned cluster, the seed's cluster (column k - 1) or the rest (column k).
    """
    n_sets, n_points = labels.shape
    k_max = int(n_clusters.max())
    exists = torch.arange(k_max) < n_clusters[:, None]
    rank = torch.rand(n_sets, k_max, generator=generator).masked_fill(~exists, 2.0).argsort().argsort()
    n_assigned = (torch.rand(n_sets, 1, generator=generator) * n_clusters[:, None]).long()  # 0 .. K-1
    k = int(n_assigned.max()) + 1
    rank_of_point = rank.gather(1, labels)
    taken = rank_of_point < n_assigned
    # Seeds: half of the states draw a point, half a cluster first, or tiny clusters were never seen.
    sizes = functional.one_hot(labels, k_max).sum(1).to(torch.float32)
    by_cluster = torch.rand(n_sets, 1, generator=generator) < 0.5
    chance = torch.where(by_cluster, 1.0 / sizes.gather(1, labels), 1.0) * ~taken
    seeds = torch.multinomial(chance, 1, generator=generator)
    in_new = labels == labels.gather(1, seeds)
    rest = torch.full_like(labels, k)
    target = torch.where(taken, rank_of_point, torch.where(in_new, k - 1, rest))
    missed_share = 0.1 * torch.rand(n_sets, 1, generator=generator) ** 2
    missed = torch.rand(n_sets, n_points, generator=generator) < missed_share
    missed &= sizes.gather(1, labels) >= 8  # a cluster that was assigned has some points
    columns = torch.where(taken & ~missed, rank_of_point, rest)
    return columns, target, seeds.squeeze(1), k
