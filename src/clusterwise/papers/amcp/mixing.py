"""InterCC, IntraCM and their loop: seed a cluster by coupling, mix, take it out, until no point is left.

``network`` has the table of symbols and the readings of the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.nn.sinkhorn import sinkhorn
from clusterwise.papers.model import Step, drawn_points

if TYPE_CHECKING:
    from clusterwise.papers.amcp.network import AMCPNetwork

__all__ = [
    "ABSENT",
    "NEVER",
    "UNASSIGNED",
    "Decoder",
    "Encodings",
    "Mixing",
    "Paths",
    "columns_of",
    "e_step",
    "first_by_k_means",
    "generate_clusters",
    "intra_cluster_mixing",
    "log_evidence",
    "m_step",
    "mixing_of_columns",
    "seed_logits",
    "similarity_to_assigned",
    "uniform_numbers",
    "with_nearest",
]

# Log of "never": finite, so that no gradient is NaN.
NEVER = -1e4
# Columns of points that belong to no cluster.
UNASSIGNED, ABSENT = -1, -2
# Projections nearer to the middle of the cube than rounding tells count as this near.
MIN_SQUARE = 1e-6


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


# -- InterCC -----------------------------------------------------------------------------------------


def seed_logits(
    network: AMCPNetwork, similarity: Tensor, log_seed_loss: Tensor, unassigned: Tensor
) -> Tensor:
    """Eq 10: logits of the next seed for all points (P, N), NEVER for those that are not unassigned."""
    logits = -log_seed_loss * torch.exp(network.log_weight_of_expected_loss)
    if network.config.coupling:
        logits = logits + (1 - similarity) * torch.exp(network.log_weight_of_dissimilarity)
    return logits.masked_fill(~unassigned, NEVER)


# -- IntraCM -----------------------------------------------------------------------------------------


def intra_cluster_mixing(
    network: AMCPNetwork, points: Encodings, columns: Tensor, seeds: Tensor, k: int
) -> list[Mixing]:
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
    mixing = Mixing(
        network.decoder.start(means), log_proportions_of(network, points, mass), mass.new_zeros(0)
    )
    path = [mixing._replace(log_plan=e_step(network, points, mixing))]
    for _ in range(network.config.n_em_steps - 1):
        mixing = m_step(network, points, path[-1])
        path.append(mixing._replace(log_plan=e_step(network, points, mixing)))
    return path


def mixing_of_columns(network: AMCPNetwork, points: Encodings, columns: Tensor, k: int) -> Mixing:
    """The mixture that columns (P, N) as they are stand for; the new component k has no share."""
    mass, means = mass_and_means_of(points, columns, k)
    return Mixing(network.decoder.start(means), log_proportions_of(network, points, mass), mass.new_zeros(0))


def log_joint(
    network: AMCPNetwork, points: Encodings, mixing: Mixing, log_sd: Tensor | None = None
) -> Tensor:
    """log(pi_j p(x_i | f(phi_j))) of Eq 3, (P, J, N), up to a term that depends on the point alone.

    Densities are relative to a component's peak; the last component is the rest. What is left out is
    ``-|x_i|^2 / (2 sd^2)``, so the constant of the rest has the opposite.
    """
    centres = network.decoder(mixing.references[:, :-1])
    precision = torch.exp(-2 * (network.log_sd if log_sd is None else log_sd))
    log_proportions = mixing.log_proportions.unsqueeze(2)
    scaled = precision * centres
    offsets = log_proportions[:, :-1] - 0.5 * (scaled * centres).sum(-1, keepdim=True)
    gaussian = torch.baddbmm(offsets, scaled, points.x.transpose(1, 2))
    rest = precision * points.half_squares + (log_proportions[:, -1:] + network.log_density_of_rest)
    return torch.cat([gaussian, rest], dim=1)


def e_step(network: AMCPNetwork, points: Encodings, mixing: Mixing) -> Tensor:
    """log q of Eq 4 or of Eq 6, (P, J, N)."""
    log_terms = log_joint(network, points, mixing)
    if network.config.e_step == "regular":
        return torch.log_softmax(log_terms, dim=1)
    # The kernel is without the proportions, which are the columns: those of the step before.
    kernel = (log_terms - mixing.log_proportions.unsqueeze(2)).transpose(1, 2)
    present = points.extended[..., -1] > 0
    rows = torch.zeros_like(kernel[..., 0]).masked_fill(~present, -torch.inf)
    columns = mixing.log_proportions + torch.log(points.n_points)
    epsilon, strictness = transport_of(network)
    plan = sinkhorn(kernel, rows, columns, epsilon, network.config.sinkhorn_iterations, strictness)
    return plan.masked_fill(~present.unsqueeze(2), 0.0).transpose(1, 2)


def transport_of(network: AMCPNetwork) -> tuple[Tensor | float, Tensor | float]:
    """Epsilon and strictness of the Sinkhorn E-step; 1 and 1 if the network was trained without it."""
    if not hasattr(network, "log_epsilon"):
        return 1.0, 1.0
    return torch.exp(network.log_epsilon), torch.sigmoid(network.strictness)


def m_step(network: AMCPNetwork, points: Encodings, mixing: Mixing) -> Mixing:
    """Eq 7 (or the closed form) for the references, and the mean of q for the proportions."""
    mass, means = points.mass_and_means(torch.exp(mixing.log_plan))
    # A component that no point wants stays where it is.
    means = torch.where(mass.unsqueeze(-1) > 1e-3, means, network.decoder(mixing.references))
    references = network.decoder.m_step(mixing.references, means)
    return mixing._replace(references=references, log_proportions=log_proportions_of(network, points, mass))


def log_proportions_of(network: AMCPNetwork, points: Encodings, mass: Tensor) -> Tensor:
    """log pi (P, J) of components with this mass; one without any gets no point ever."""
    if network.config.proportions == "balanced":
        log_shares = -torch.log((mass > 0).sum(1, keepdim=True)).to(mass.dtype)
    else:
        log_shares = torch.log(mass.clamp(min=1e-9) / points.n_points)
    return torch.where(mass > 0, log_shares, NEVER)


def log_evidence(network: AMCPNetwork, points: Encodings, mixing: Mixing) -> Tensor:
    """log sum_j pi_j p(x_i | f(phi_j)), (P, N): the bound of Eq 4 at its best q.

    The components' width is held fixed: densities are relative to their peaks, and without the normalizer
    a wider component would always be the better one.
    """
    log_sd = network.log_sd.detach()
    own = torch.exp(-2 * log_sd) * points.half_squares.squeeze(1)
    return torch.logsumexp(log_joint(network, points, mixing, log_sd), dim=1) - own


def mass_and_means_of(points: Encodings, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Mass (P, k + 2) and mean encodings (P, k + 2, D) of k clusters, a new one, empty, and the rest."""
    codes = torch.arange(k + 2, device=columns.device)
    codes[-1] = UNASSIGNED
    members = (columns.unsqueeze(1) == codes.unsqueeze(1)).to(points.x.dtype)  # (P, k + 2, N)
    sums = members @ points.extended
    return sums[..., -1], sums[..., :-1] / sums[..., -1:].clamp(min=1)


# -- Algorithm 1 -----------------------------------------------------------------------------------


class Paths(NamedTuple):
    """What P paths of the loop lead to."""

    labels: Tensor  # (P, N), from 0 on; some may be nobody's
    capped: Tensor  # (P,) bool, whether there would have been more clusters
    steps: list[list[Step]]


def generate_clusters(
    network: AMCPNetwork, points: Encodings, log_seed_loss: Tensor, columns: Tensor, uniform: Tensor
) -> Paths:
    """Algorithm 1 for P paths at once: one cluster after the other until no point is left, or to the cap.

    ``columns`` (P, N) are UNASSIGNED, ABSENT or 0 for a first cluster that was found otherwise; ``uniform``
    (P, steps) draw the seeds, or take the likeliest where they are below zero.
    """
    everything = points
    final = columns.clone()
    steps: list[list[Step]] = [[] for _ in columns]
    similarity, paths = torch.zeros_like(log_seed_loss), torch.arange(len(columns), device=columns.device)
    k = int(columns.max()) + 1
    for path, members in enumerate(columns == 0 if k > 0 else ()):
        steps[path].append(Step(members, members.to(similarity.dtype)))
    left = (columns == UNASSIGNED).any(1)
    while k < uniform.shape[1]:
        if not bool(left.all()):  # some paths have come to their end
            final[paths] = columns
            points, paths, columns = points.rows(left), paths[left], columns[left]
            log_seed_loss, similarity, uniform = log_seed_loss[left], similarity[left], uniform[left]
        if len(paths) == 0:
            break
        unassigned = columns == UNASSIGNED
        logits, numbers = seed_logits(network, similarity, log_seed_loss, unassigned), uniform[:, k]
        seeds = logits.argmax(1) if bool((numbers < 0).all()) else drawn_points(logits, numbers)
        mixing = intra_cluster_mixing(network, points, columns, seeds, k)[-1]
        plan = torch.exp(mixing.log_plan)
        columns = columns_of(mixing.log_plan, columns, seeds, network.config.update)
        step = (columns == k, plan[:, k] * unassigned, seeds.tolist())
        for path, *of_path in zip(paths.tolist(), *step, strict=True):
            steps[path].append(Step(*of_path))
        left = (columns == UNASSIGNED).any(1)
        similarity = similarity_to_assigned(plan, network.decoder(mixing.references), columns >= 0)
        k += 1
    final[paths] = columns
    capped = (final == UNASSIGNED).any(1)
    for path in capped.nonzero().flatten().tolist():
        final[path] = with_nearest(everything.x[path], final[path])
    return Paths(final.clamp(min=0), capped, steps)


def columns_of(log_plan: Tensor, columns: Tensor, seeds: Tensor, update: bool) -> Tensor:
    """Columns (P, N) after a step with the plan q, (P, k + 2, N): who joins the new cluster k, who moves.

    With ``update`` earlier clusters keep their points or exchange them among each other and with the new one.
    """
    k = log_plan.shape[1] - 2
    (highest, best), rest = log_plan[:, :-1].max(dim=1), log_plan[:, -1]
    unassigned = columns == UNASSIGNED
    refused = unassigned & (rest > highest)
    moves = columns != ABSENT if update else unassigned & (best == k)
    after = torch.where(moves & ~refused, best, columns)
    return after.scatter(1, seeds.unsqueeze(1), k)  # so that every step makes progress


def similarity_to_assigned(plan: Tensor, centres: Tensor, assigned: Tensor) -> Tensor:
    """Column means of M (Eq 9) for every point, (P, N), without M.

    ``plan`` is (P, J, N), ``centres`` (P, J, D), ``assigned`` (P, N). With r_i the normalized barycentric
    projection sum_j q_ij centre_j, the mean over assigned a of r_a . r_i is one product with the mean of
    the r_a. All of them are combinations of the J centres, so that the products of those are enough.
    """
    centred = centres - 0.5
    projected = (centred @ centred.transpose(1, 2)) @ plan  # (P, J, N)
    inverse_norms = (projected * plan).sum(1).clamp(min=MIN_SQUARE).rsqrt()  # (P, N)
    sums = plan @ (assigned * inverse_norms).unsqueeze(2)  # of the r_a, in terms of the centres, (P, J, 1)
    similarity = (projected * sums).sum(1) * inverse_norms
    return similarity / assigned.sum(1, keepdim=True).clamp(min=1)


def with_nearest(x: Tensor, columns: Tensor) -> Tensor:
    """Columns (N,) after unassigned points joined the cluster with the nearest mean of encodings (N, D)."""
    used = columns[columns >= 0].unique()
    members = (columns == used.unsqueeze(1)).to(x.dtype)
    means = members @ x / members.sum(1, keepdim=True)
    return torch.where(columns == UNASSIGNED, used[torch.cdist(x, means).argmin(1)], columns)


def first_by_k_means(points: Tensor, mask: Tensor, k: int = 8, steps: int = 10) -> Tensor:
    """Members (B, N) of the first cluster as Algorithm 1 prints it: the likeliest cluster of k-means.

    Centres start far from each other; the tightest cluster with at least a fair share of the points wins.
    """
    rows = torch.arange(len(points), device=points.device)
    far = torch.where(mask, torch.inf, -torch.inf)
    start = mask.to(torch.int64).argmax(1)
    centres = [points[rows, start]]
    for _ in range(k - 1):
        far = torch.minimum(far, (points - centres[-1].unsqueeze(1)).square().sum(-1))
        centres.append(points[rows, far.argmax(1)])
    means = torch.stack(centres, dim=1)  # (B, k, d)
    for _ in range(steps):
        distances = torch.cdist(points, means).square()
        members = functional.one_hot(distances.argmin(2), k).to(points.dtype) * mask.unsqueeze(-1)
        sizes = members.sum(1)
        new = members.transpose(1, 2) @ points / sizes.clamp(min=1).unsqueeze(-1)
        means = torch.where(sizes.unsqueeze(-1) > 0, new, means)
    spread = (members * distances).sum(1) / sizes.clamp(min=1)
    spread = spread.masked_fill(sizes < mask.sum(1, keepdim=True) / (2 * k), torch.inf)
    return (members[rows, :, spread.argmin(1)] > 0) & mask


def uniform_numbers(seeds: Sequence[int], n_draws: int, n_steps: int) -> Tensor:
    """Random numbers that draw seeds, a row for each path of each data set, which has a seed of its own.

    The first path of each takes the likeliest, marked by -1.
    """
    parts = []
    for seed in seeds:
        drawn = torch.rand(n_draws, n_steps, generator=torch.Generator().manual_seed(seed))
        parts += [torch.full((1, n_steps), -1.0), drawn]
    return torch.cat(parts)
