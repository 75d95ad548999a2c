"""Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters one by one on stored encodings.

An encoder runs once per data set and gives every point an encoding x_i in (0, 1)^D. Step k of the
cluster-wise loop then works on these encodings alone:

1. *InterCC* draws the seed of the next cluster among the unassigned points S_k (Eqs 8-10);
2. *IntraCM* runs T EM steps of a mixture with one reference phi_j for each cluster so far, one for the
   new cluster, started at the seed, and one component for the rest (Eqs 3-7); in torch for training, here,
   and in numpy with all its options for the loop, in ``amcp_mixing``;
3. the plan's column k says who joins C_k; earlier clusters are revised by their own columns (AMCP*);
4. when no point is left, IntraCM goes on over the data themselves, and a learned judge splits and merges
   clusters (``amcp_revision``).

Objective (``AMCP.loss``; Eq 11), unrolled over the T steps, at random states of the loop (``amcp_states``)::

    - log p(C_k | .)                      cross-entropy of the plan against the true columns
    - w sum_j q_ij log(pi_j p_ij / q_ij)  the bound of IntraCM (Eq 4), the components' width held fixed
    - v log sum_i s_i exp(-loss_i)        the chance that a drawn seed i leads to a right cluster (Eqs 9-10)
    + densities and decisions of step 4   if the configuration asks for them, see ``amcp_reviser``

=====================  ================================================  =================================
symbol                 meaning                                           here
=====================  ================================================  =================================
x_i                    encoding of a point                               ``AMCP.encode``
phi_j, f_theta(phi_j)  reference of a component, its decoded centre      ``Decoder``
log p(x_i | phi_j)     Gaussian, fixed covariance; the rest: a constant  ``log_joint`` (Eq 3)
q_ij                   responsibility, or transport plan                 ``e_step`` (Eq 4, Eqs 5-6)
epsilon                of the transport, learned                         ``log_epsilon`` (Eq 6)
phi_j, pi_j updates    gradient step or closed form; mean of q           ``m_step`` (Eq 7)
M, its column sums     similarity of unassigned to assigned points       ``similarity_in_torch`` (Eq 9)
s_i, seed of C_k       probability of a seed, one draw of it             ``log_seed_probabilities`` (Eq 10)
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
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.nn.attention import SetEncoder
from clusterwise.nn.sinkhorn import sinkhorn
from clusterwise.papers.amcp_encoding import NumpyEncoding
from clusterwise.papers.amcp_loop import first_by_k_means, loops, similarity_in_torch, uniform_numbers
from clusterwise.papers.amcp_mixing import NEVER, IntraCM
from clusterwise.papers.amcp_options import AMCPConfig, Options
from clusterwise.papers.amcp_path import compiled_inference
from clusterwise.papers.amcp_reviser import Reviser
from clusterwise.papers.amcp_states import State, random_state
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask

__all__ = ["AMCP", "AMCPConfig", "Decoder", "Encoded", "Mixing", "Options"]


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
        self.reviser = Reviser() if config.revision else None
        self.register_load_state_dict_pre_hook(_add_fixed_weights)  # type: ignore[no-untyped-call]
        self._in_numpy: NumpyEncoding | None = None

    def encode(self, points: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encodings x (B, N, D), and the log loss expected of each point as a seed, (B, N)."""
        if self.config.encoder == "none":
            return in_cube(points, mask), torch.zeros_like(points[..., 0])
        h = self.encoder(points, mask)
        # The head reads the encoding but does not shape it.
        return torch.sigmoid(self.to_encoding(h)), self.log_seed_loss(h.detach()).squeeze(-1)

    # -- IntraCM ---------------------------------------------------------------------------------

    def log_joint(self, points: Encoded, mixing: Mixing, log_sd: Tensor | None = None) -> Tensor:
        """log(pi_j p(x_i | f(phi_j))) of Eq 3, (B, N, J), up to a term that depends on the point alone.

        Densities are relative to a component's peak; the last component is the rest. What is left out is
        ``-|x_i|^2 / (2 sd^2)``, so the constant of the rest has the opposite.
        """
        centres = self.decoder(mixing.references[:, :-1])
        precision = torch.exp(-2 * (self.log_sd if log_sd is None else log_sd))
        # The offset of a component is -|c|^2 / 2, all in units of the precision.
        offsets = centres.square().sum(-1).unsqueeze(1)
        gaussian = torch.baddbmm(offsets, points.x, centres.transpose(1, 2), beta=-0.5)
        relative = torch.cat([gaussian, points.half_squares + self.log_density_of_rest / precision], dim=-1)
        return precision * relative + mixing.log_proportions.unsqueeze(1)

    def e_step(self, points: Encoded, mixing: Mixing) -> Tensor:
        """Return log q of Eq 4 or of Eq 6, (B, N, J)."""
        if self.config.e_step == "regular":
            return torch.log_softmax(self.log_joint(points, mixing), dim=-1)
        columns = mixing.log_proportions  # those of the step before
        kernel = self.log_joint(points, mixing) - columns.unsqueeze(1)
        rows = torch.zeros_like(kernel[..., 0])
        epsilon, strictness = torch.exp(self.log_epsilon), torch.sigmoid(self.strictness)
        n_points = math.log(rows.shape[1])
        return sinkhorn(
            kernel, rows, columns + n_points, epsilon, self.config.sinkhorn_iterations, strictness
        )

    def log_evidence(self, points: Encoded, mixing: Mixing) -> Tensor:
        """log sum_j pi_j p(x_i | f(phi_j)), (B, N): the bound of Eq 4 at its best q.

        The components' width is held fixed: densities are relative to their peaks, and without the normalizer
        a wider component would always be the better one.
        """
        log_sd = self.log_sd.detach()
        own = torch.exp(-2 * log_sd) * points.half_squares.squeeze(-1)
        return torch.logsumexp(self.log_joint(points, mixing, log_sd), dim=-1) - own

    def m_step(self, points: Encoded, mixing: Mixing) -> Mixing:
        """Eq 7 (or the closed form) for the references, and the mean of q for the proportions."""
        mass, means = points.mass_and_means(mixing.log_plan)
        # A component that no point wants stays where it is.
        means = torch.where(mass.unsqueeze(-1) > 1e-3, means, self.decoder(mixing.references))
        references = self.decoder.m_step(mixing.references, means)
        if self.config.proportions == "balanced":
            return Mixing(references, mixing.log_proportions, mixing.log_plan)
        return Mixing(references, points.log_shares(mass), mixing.log_plan)

    def intra_cluster_mixing(
        self, points: Encoded, columns: Tensor, seeds: Tensor, n_columns: int
    ) -> list[Mixing]:
        """Run T EM steps from the present columns of the points; return the mixing after each.

        ``columns`` (B, N) is the cluster of each assigned point, ``n_columns`` - 1 = k - 1 of them, and
        ``n_columns`` for unassigned ones; ``seeds`` (B,) starts the component n_columns - 1.
        """
        x = points.x
        mass, means = self._of_columns(points, columns, n_columns)
        rows = torch.arange(len(x), device=x.device)
        means = torch.cat([means[:, :-2], x[rows, seeds].unsqueeze(1), means[:, -1:]], dim=1)
        # What the seed was part of, as a rule what is unassigned, is half the new cluster's until the first
        # E-step says more.
        giver = columns.gather(1, seeds.unsqueeze(1))
        given = 0.5 * mass.gather(1, giver)
        mass = mass.scatter_add(1, giver, -given).scatter(1, torch.full_like(giver, n_columns - 1), given)
        mixing = Mixing(self.decoder.start(means), self._log_shares(points, mass), x.new_zeros(0))
        path = [mixing._replace(log_plan=self.e_step(points, mixing))]
        for _ in range(self.config.n_em_steps - 1):
            mixing = self.m_step(points, path[-1])
            path.append(mixing._replace(log_plan=self.e_step(points, mixing)))
        return path

    def _of_columns(self, points: Encoded, columns: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
        """Mass (B, J) of each component and the mean of its encodings (B, J, D), for hard columns (B, N)."""
        members = functional.one_hot(columns, n_columns + 1).to(points.x.dtype)  # (B, N, J)
        sums = members.transpose(1, 2) @ points.extended
        return sums[..., -1], sums[..., :-1] / sums[..., -1:].clamp(min=1)

    def _log_shares(self, points: Encoded, mass: Tensor) -> Tensor:
        """Log proportions (B, J) of components with this mass, or equal ones for all that have any."""
        if self.config.proportions == "free":
            return points.log_shares(mass)
        n_present = (mass > 0).sum(1, keepdim=True).to(mass.dtype)
        return torch.where(mass > 0, -torch.log(n_present), NEVER)

    def of_transport(self) -> tuple[float, float]:
        """Epsilon and strictness of the Sinkhorn E-step; 1 and 1 if the network was trained without it."""
        if self.config.e_step == "regular":
            return 1.0, 1.0
        return math.exp(self.log_epsilon.item()), torch.sigmoid(self.strictness).item()

    # -- InterCC ---------------------------------------------------------------------------------

    def log_seed_probabilities(
        self, points: Encoded, expected: Tensor, columns: Tensor, n_columns: int
    ) -> Tensor:
        """Eqs 8-10: log probability of each point (B, N) as the next seed; NEVER for assigned ones.

        ``expected`` (B, N) is the log loss expected of each; ``columns`` as in ``intra_cluster_mixing``.
        """
        unassigned = columns == n_columns
        logits = -expected * torch.exp(self.log_weight_of_expected_loss)
        if self.config.coupling:
            mass, means = self._of_columns(points, columns, n_columns)  # column n_columns - 1 has none
            mixing = Mixing(self.decoder.start(means), self._log_shares(points, mass), points.x.new_zeros(0))
            plan = torch.exp(self.e_step(points, mixing))
            similarity = similarity_in_torch(plan, self.decoder(mixing.references), ~unassigned)
            logits = logits + (1 - similarity) * torch.exp(self.log_weight_of_dissimilarity)
        return torch.log_softmax(logits.masked_fill(~unassigned, NEVER), dim=1)

    def _seed_loss(self, points: Encoded, expected: Tensor, state: State) -> Tensor:
        """Minus the log of the chance that a right cluster comes out of a drawn seed, averaged over states.

        That is the sum of the seeds' probabilities over points of clusters not yet taken, each times
        exp(-loss), the likelihood that the head predicts for its cluster.
        """
        left = state.columns == state.k
        log_seeds = self.log_seed_probabilities(points, expected.detach(), state.columns, state.k)
        right = left & (state.target >= state.k - 1)
        log_likelihood = -torch.exp(expected.detach().clamp(max=LARGEST_LOG_LOSS))
        chance = torch.logsumexp((log_seeds + log_likelihood).masked_fill(~right, NEVER), dim=1)
        some = right.any(1)  # in states that revise, nothing is left
        return -(chance * some).sum() / some.sum().clamp(min=1)

    # -- training --------------------------------------------------------------------------------

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Eq 11 at random states of the loop, and what the revision learns, as far as there is one."""
        if self.reviser is None:
            return self._loop_loss(task, generator)
        of_revision = self._revision_loss(self.reviser, task, generator)
        if self.config.trained == "revision":
            return of_revision
        return self._loop_loss(task, generator) + of_revision

    def _revision_loss(self, reviser: Reviser, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Densities of clusters, and decisions on the way from what the loop finds."""
        # Half of the data sets: decisions are more expensive than densities.
        some = slice(math.ceil(len(task.points) / 2))
        points, labels = task.points[some], task.labels[some]
        most = 2 * int(task.n_clusters.max()) + 2
        present = torch.ones_like(labels, dtype=torch.bool)
        found = self.infer(points, present, max_clusters=most, options=Options(revise=False))
        of_judge = reviser.judge_loss(points, labels, [one.labels for one in found])
        return reviser.density_loss(task.points, task.labels, generator) + of_judge

    def _loop_loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Eq 11, averaged over points, states and EM steps."""
        config = self.config
        x, expected = self.encode(task.points, None)
        x, labels, n_clusters, expected, raw = (
            t.repeat_interleave(config.n_states, dim=0)
            for t in (x, task.labels, task.n_clusters, expected, task.points)
        )
        state = random_state(labels, n_clusters, generator, raw, config.revising)
        encoded = Encoded.of(x)
        path = self.intra_cluster_mixing(encoded, state.columns, state.seeds, state.k)
        weights = torch.arange(1, len(path) + 1, device=x.device, dtype=x.dtype)
        weights = weights / weights.sum()
        own = state.target.unsqueeze(2)  # the column that each point should get
        of_step = [-mixing.log_plan.gather(2, own).squeeze(2).mean(1) for mixing in path]
        of_state = torch.stack(of_step, dim=1) @ weights
        # Eq 4: it draws encodings to their references.
        bound = self.log_evidence(encoded, path[-1]).mean() / x.shape[-1]
        target_of_head = torch.log(of_step[-1].detach() + SMALLEST_LOSS)
        errors = (expected.gather(1, state.seeds.unsqueeze(1)).squeeze(1) - target_of_head).square()
        fresh = (state.columns.gather(1, state.seeds.unsqueeze(1)) == state.k).squeeze(1)
        of_head = (errors * fresh).sum() / fresh.sum().clamp(min=1)
        of_seed = self._seed_loss(encoded, expected, state)
        return of_state.mean() - BOUND_WEIGHT * bound + HEAD_WEIGHT * of_head + SEED_WEIGHT * of_seed

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
        options = (options or Options()).of_network(self.config)
        present, intra = mask.cpu().numpy(), IntraCM(self, options)
        numbers = [uniform_numbers(seed, n_draws, max_clusters) for seed in seeds or [0] * len(points)]
        has_encoder = self.config.encoder == "set"
        if has_encoder and self.decoder.kind == "linear" and options.is_usual and points.device.type == "cpu":
            of_sets = self._encoding_in_numpy().of_sets(points.numpy(), present)
            found = [
                compiled_inference(intra, *of_set, rows, of_paths)
                for of_set, rows, of_paths in zip(of_sets, present, numbers, strict=True)
            ]
        else:
            encoded = self.encode(points, None if bool(mask.all()) else mask)
            first = first_by_k_means(points, mask) if options.first_cluster == "k-means" else None
            found = loops(intra, *encoded, present, first, numbers)
        if self.reviser is None or not options.revise:
            return found
        # The last number of a path chooses no seed, unless the loop comes to its cap.
        of_judge = [of_paths[1:, -1] for of_paths in numbers]
        return self.reviser.of_all(found, points.cpu().numpy(), present, of_judge, max_clusters)


# Weight of the bound per coordinate; the cross-entropy does the work, this keeps encodings compact.
BOUND_WEIGHT = 0.02
# Weight of the head that predicts the loss of a seed; it shares no parameter with the rest.
HEAD_WEIGHT = 0.1
# Weight of the choice of the next seed.
SEED_WEIGHT = 0.1
# Losses below this are all the same to it.
SMALLEST_LOSS = 0.01
# No loss is larger than that of "never", whatever the head predicts.
LARGEST_LOG_LOSS = math.log(-NEVER)


def in_cube(points: Tensor, mask: Tensor | None) -> Tensor:
    """Bring each data set (B, N, d) to (0, 1), one scale for all features, as f_theta's sigmoid asks."""
    present = torch.ones_like(points[..., :1], dtype=torch.bool) if mask is None else mask.unsqueeze(-1)
    lowest = points.masked_fill(~present, torch.inf).amin(1, keepdim=True)
    highest = points.masked_fill(~present, -torch.inf).amax(1, keepdim=True)
    extent = (highest - lowest).amax(-1, keepdim=True).clamp(min=1e-9)
    return 0.05 + 0.9 * (points - lowest) / extent


def _add_fixed_weights(model: AMCP, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Weights of Eq 10 were constants in earlier weights files: those that a new network begins with."""
    for name in ("log_weight_of_dissimilarity", "log_weight_of_expected_loss"):
        state.setdefault(prefix + name, getattr(model, name).detach().clone())
