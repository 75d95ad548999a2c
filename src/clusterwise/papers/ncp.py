"""Neural Clustering Process (Pakman et al. 2020): the label of one point after the other.

With some points already in clusters 1 .. K, the next point x_n joins cluster k (an old one, or the new
one k = K + 1) with a probability that is a softmax over all K + 1 choices:

    p(c_n = k | c_{1:n-1}, x) = exp f(G_k, U) / sum_j exp f(G_j, U),   G_k = G with x_n added to cluster k

Objective: - log p(c_n | c_{1:n-1}, x) of the true label, averaged over positions n in random orders.

=========  ==============================================================  ============================
symbol     meaning                                                         here
=========  ==============================================================  ============================
h(x_i)     what a point adds to its cluster; H_k = sum of them             ``h``; ``Encoded.in_cluster``
u(x_i)     what a point adds to what is unassigned; U = sum of them        ``u``; ``Encoded.in_rest``
g(H_k)     what a cluster adds to all clusters; G = sum of them            ``g``; ``cluster_votes``
f(G, U)    logit of a choice                                               ``f``; ``logits``
=========  ==============================================================  ============================

Sums commute with linear maps, so nothing wider than a hidden layer is ever summed: a point is kept as
W h(x) with W the first matrix of g, and a cluster as its *vote* V g(H_k), with V the columns of f's first
matrix that read G. The last matrix of g and V act as one matrix. This changes rounding only, and makes a
choice cost two small layers of g and of f.

Readings of ours. (1) The prefix of a random order is a random subset, and the choice does not depend on the
order within it, so training draws a fresh subset for every position that it looks at: an unbiased estimate
of the same objective, with less correlated terms than all positions of one order. (2) The first point of an
order has no choice and is not trained on. (3) x_n itself belongs neither to U nor to the clusters when its
choice is weighed. (4) The coordinates enter with sines and cosines (``n_wavelengths``), as in the other
networks here; ``n_wavelengths = 0`` is the plain multilayer perceptron.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.exceptions import RecipeError
from clusterwise.nn.encoder import CoordinateEmbedding
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask
from clusterwise.papers.ncp_loop import Winner, draw_partitions, inference_from_draws

__all__ = ["NCP", "Encoded", "NCPConfig", "Positions", "choice_log_probabilities", "draw_positions"]


@dataclass(frozen=True)
class NCPConfig:
    """What defines an NCP network; stored in the header of its weights file."""

    n_features: int = 2
    width: int = 128  # of the hidden layers of h, u, g and f
    n_hidden: int = 2  # hidden layers of each of them
    h_size: int = 128
    u_size: int = 128
    g_size: int = 256
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    points_per_position: int = 8  # training looks at one position for this many points of a data set


class Encoded(NamedTuple):
    """B data sets point by point, in the units of the first hidden layers of g and f."""

    in_cluster: Tensor  # (B, N, width), W h(x_i)
    in_rest: Tensor  # (B, N, width), V' u(x_i)


class Positions(NamedTuple):
    """P positions in each of B data sets: who is assigned, and who comes next."""

    assigned: Tensor  # (B, P, N) bool
    next_point: Tensor  # (B, P) int64


def draw_positions(n_sets: int, n_positions: int, n_points: int, generator: torch.Generator) -> Positions:
    """Draw a random order and a place from its second to its last, for every position anew."""
    order = torch.rand(n_sets, n_positions, n_points, generator=generator).argsort(-1)
    place = torch.randint(1, n_points, (n_sets, n_positions, 1), generator=generator)
    before = torch.arange(n_points) < place
    assigned = torch.zeros_like(before).scatter(-1, order, before)
    return Positions(assigned, order.gather(-1, place).squeeze(-1))


class Layers(nn.Sequential):
    """A first layer, then PReLU and a linear map, once or more often."""

    def __init__(self, first: nn.Module, sizes: Sequence[int]) -> None:
        maps = [(nn.PReLU(), nn.Linear(*pair)) for pair in itertools.pairwise(sizes)]
        super().__init__(first, *itertools.chain.from_iterable(maps))

    @property
    def first(self) -> nn.Linear:
        """The first layer, of networks that start with a linear one."""
        return cast("nn.Linear", self[0])

    @property
    def last(self) -> nn.Linear:
        """The last layer."""
        return cast("nn.Linear", self[len(self) - 1])

    def between(self, values: Tensor) -> Tensor:
        """Apply all layers but the first and the last."""
        for index in range(1, len(self) - 1):  # a slice would build a module at every call
            values = self[index](values)
        return values

    def then(self, points: Tensor, matrix: Tensor) -> Tensor:
        """Return ``matrix`` times the output, with the matrix and the last layer as one map."""
        last = self.last
        return functional.linear(self.between(self[0](points)), matrix @ last.weight, matrix @ last.bias)


class NCP(AmortizedModel):
    """The four networks h, u, g, f."""

    method = "ncp"
    config_class = NCPConfig

    def __init__(self, config: NCPConfig) -> None:
        super().__init__()
        self.config = config
        hidden = [config.width] * config.n_hidden

        def of_points(size: int) -> Layers:
            embed = CoordinateEmbedding(config.n_features, config.width, config.n_wavelengths)
            return Layers(embed, [*hidden, size])

        self.h = of_points(config.h_size)
        self.u = of_points(config.u_size)
        self.g = Layers(nn.Linear(config.h_size, config.width), [*hidden, config.g_size])
        self.f = Layers(nn.Linear(config.g_size + config.u_size, config.width), [*hidden, 1])

    def encode(self, points: Tensor) -> Encoded:
        """Points (B, N, d) in the units in which they are summed."""
        reads_u = self.f.first.weight[:, self.config.g_size :]
        return Encoded(self.h.then(points, self.g.first.weight), self.u.then(points, reads_u))

    def vote_map(self) -> tuple[Tensor, Tensor]:
        """The last layer of g and the part of f's first that reads G, as one linear map: weight and bias."""
        reads_g = self.f.first.weight[:, : self.config.g_size]
        return reads_g @ self.g.last.weight, reads_g @ self.g.last.bias

    def cluster_votes(self, summed: Tensor, vote_map: tuple[Tensor, Tensor]) -> Tensor:
        """V g(H_k), (..., width), from ``summed`` = W H_k with the bias of g's first layer, (..., width)."""
        return functional.linear(self.g.between(summed), *vote_map)

    def logits(self, read: Tensor) -> Tensor:
        """f(G, U), (...), from what its first layer makes of G and U, bias included, (..., width)."""
        # Without the last bias, which would move all choices alike.
        return functional.linear(self.f.between(read), self.f.last.weight).squeeze(-1)

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        n_sets, n_points = task.labels.shape
        if n_points < 2:
            raise RecipeError("A data set of one point has no choice to learn from; set n_points from 2 up.")
        n_positions = -(-n_points // self.config.points_per_position)
        positions = draw_positions(n_sets, n_positions, n_points, generator)
        log_p, target = choice_log_probabilities(self, self.encode(task.points), task.labels, positions)
        return -log_p.gather(-1, target.unsqueeze(-1)).mean()

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
        n_orders: int = 10,
        greedy: bool = False,
        winner: Winner = "agreeing",
    ) -> list[Inference]:
        """Partition B data sets, each in ``n_orders`` random orders, of which one wins.

        Each label is drawn from the network's probabilities, so that the partitions are draws from its
        posterior; ``greedy`` takes the likeliest label instead. With ``n_draws`` > 0 there are as many
        orders, none of them greedy.
        """
        if n_draws > 0:
            n_orders, greedy = n_draws, False
        draws = draw_partitions(
            self, points, mask, seeds or [0] * len(points), max_clusters, n_orders, greedy
        )
        return [inference_from_draws(*of_set, winner) for of_set in zip(draws, mask, strict=True)]


def choice_log_probabilities(
    model: NCP, encoded: Encoded, labels: Tensor, positions: Positions
) -> tuple[Tensor, Tensor]:
    """Log probability of every choice at the given positions, and the true choice.

    The first is (B, P, K + 1), with the clusters named by ``labels`` (B, N) in 0 .. K-1 and the new
    cluster last; a cluster without assigned points is no choice and has -inf. The second is (B, P).
    """
    n_sets, n_positions, n_points = positions.assigned.shape
    n_clusters = int(labels.max()) + 1
    assigned = positions.assigned.to(encoded.in_rest.dtype)
    in_cluster = functional.one_hot(labels, n_clusters).to(assigned.dtype)  # (B, N, K)
    # (B, P, K, N): the assigned members of each cluster.
    members = assigned.unsqueeze(2) * in_cluster.transpose(1, 2).unsqueeze(1)
    summed = (members.flatten(1, 2) @ encoded.in_cluster).unflatten(1, (n_positions, n_clusters))
    exists = assigned @ in_cluster > 0  # (B, P, K)
    is_next = functional.one_hot(positions.next_point, n_points).to(assigned.dtype)
    own = is_next @ encoded.in_cluster  # (B, P, width)
    rest = (1 - assigned - is_next) @ encoded.in_rest

    # Only clusters that exist are evaluated: row r is a cluster of position ``of[r]``.
    exists, rest, own = exists.flatten(0, 1), rest.flatten(0, 1), own.flatten(0, 1)
    of, k = exists.nonzero(as_tuple=True)
    old = summed.flatten(0, 1)[of, k]
    sums = torch.cat([own, old, old + own[of]]) + model.g.first.bias
    votes = model.cluster_votes(sums, model.vote_map())
    alone, before, after = votes.split([len(own), len(of), len(of)])
    everything = rest.index_add(0, of, before) + model.f.first.bias  # f reads G and U as one sum
    logits = model.logits(torch.cat([everything + alone, everything[of] + after - before]))
    table = logits.new_full((len(own), n_clusters + 1), -torch.inf)
    table = table.index_put((of, k), logits[len(own) :])
    table = torch.cat([table[:, :-1], logits[: len(own), None]], dim=1)
    label = labels.gather(1, positions.next_point).flatten()
    is_old = exists.gather(1, label[:, None]).squeeze(1)
    target = torch.where(is_old, label, n_clusters)
    shape = (n_sets, n_positions)
    return torch.log_softmax(table, dim=1).unflatten(0, shape), target.unflatten(0, shape)
