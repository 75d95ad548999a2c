"""Neural Clustering Process (Pakman et al. 2020): the label of one point after the other.

With some points already in clusters 1 .. K, the next point x_n joins cluster k (an old one, or the new
one k = K + 1) with a probability that is a softmax over all K + 1 choices:

    p(c_n = k | c_{1:n-1}, x) = exp f(G_k, U) / sum_j exp f(G_j, U),   G_k = G with x_n added to cluster k

Objective: - log p(c_n | c_{1:n-1}, x) of the true label, averaged over positions n in random orders. In use,
labels are drawn from these probabilities in several random orders, all at once; each order gives a partition
with its probability, and one of them is the answer (``inference_of_draws``).

=========  ==============================================================  ==============================
symbol     meaning                                                         here
=========  ==============================================================  ==============================
h(x_i)     what a point adds to its cluster; H_k = sum of them             ``h``; ``PointTerms.in_cluster``
u(x_i)     what a point adds to what is unassigned; U = sum of them        ``u``; ``PointTerms.in_rest``
g(H_k)     what a cluster adds to all clusters; G = sum of them            ``g``; ``cluster_terms``
f(G, U)    logit of a choice                                               ``f``; ``logits``
=========  ==============================================================  ==============================

Sums commute with linear maps, so nothing wider than a hidden layer is ever summed: a point is kept as
W h(x) with W the first matrix of g, and a cluster as its *term* V g(H_k), with V the columns of f's first
matrix that read G. The last matrix of g and V act as one matrix. This changes rounding only, and makes a
choice cost two small layers of g and of f.

Readings of ours. (1) The prefix of a random order is a random subset, so training draws a fresh subset for
every position that it looks at: an unbiased estimate with less correlated terms than all positions of one
order. (2) The first point of an order has no choice and is not trained on. (3) x_n itself belongs neither to
U nor to the clusters when its choice is weighed. (4) Coordinates enter with sines and cosines; with
``n_wavelengths = 0`` as they are. (5) The paper's answer is the most probable of the partitions; ours agrees
most with the others, by their probabilities to the power 1/T.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from sklearn.utils._param_validation import Interval
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.exceptions import RecipeError
from clusterwise.nn.attention import CoordinateEmbedding
from clusterwise.papers.estimator import AmortizedClusterer
from clusterwise.papers.model import AmortizedModel, Inference, Step, TrainingTask
from clusterwise.pretrained import Weights

__all__ = ["NCP", "NCPConfig", "NCPNetwork", "PartitionDraws", "choice_log_probabilities", "draw_partitions"]

# T: the probability of a partition is far too sure of itself. Chosen on validation data.
TEMPERATURE = 14.0
# Orders of different data sets that run as one batch: more of them no longer fit the processor's cache.
ROWS_AT_ONCE = 256
FIRST_SLOTS = 8  # doubled when an order has more clusters


@dataclass(frozen=True)
class NCPConfig:
    """Options of NCP networks; stored in the header of a weights file."""

    n_features: int = 2
    width: int = 128  # of the hidden layers of h, u, g and f
    n_hidden: int = 2  # hidden layers of each of them
    h_size: int = 128
    u_size: int = 128
    g_size: int = 256
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    points_per_position: int = 8  # training looks at one position for this many points of a data set
    # Which of several drawn partitions is the answer: that with the highest probability, as in the paper, or
    # that which agrees most with the others.
    winner: Literal["likeliest", "agreeing"] = "agreeing"


# -- network -----------------------------------------------------------------------------------------


class PointTerms(NamedTuple):
    """B data sets point by point, in the units of the first hidden layers of g and f."""

    in_cluster: Tensor  # (B, N, width), W h(x_i)
    in_rest: Tensor  # (B, N, width), V' u(x_i)


class Layers(nn.Sequential):
    """A first layer, then PReLU and a linear map, once or more often."""

    def __init__(self, first: nn.Module, sizes: Sequence[int]) -> None:
        maps = [(nn.PReLU(), nn.Linear(*pair)) for pair in itertools.pairwise(sizes)]
        super().__init__(first, *itertools.chain.from_iterable(maps))

    @property
    def ends(self) -> tuple[nn.Linear, nn.Linear]:
        """The first layer, where it is linear, and the last."""
        return cast("tuple[nn.Linear, nn.Linear]", (self[0], self[len(self) - 1]))

    def between(self, values: Tensor) -> Tensor:
        """The values after all layers but the first and the last."""
        for index in range(1, len(self) - 1):  # a slice would build a module at every call
            values = self[index](values)
        return values

    def then(self, points: Tensor, matrix: Tensor) -> Tensor:
        """``matrix`` times the output, with the matrix and the last layer as one map."""
        _, last = self.ends
        return functional.linear(self.between(self[0](points)), matrix @ last.weight, matrix @ last.bias)


class NCPNetwork(AmortizedModel):
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

    def encode(self, points: Tensor) -> PointTerms:
        """Points (B, N, d) in the units in which they are summed."""
        reads_u = self.f.ends[0].weight[:, self.config.g_size :]
        return PointTerms(self.h.then(points, self.g.ends[0].weight), self.u.then(points, reads_u))

    def term_map(self) -> tuple[Tensor, Tensor]:
        """The last layer of g and the part of f's first that reads G, as one linear map: weight and bias."""
        reads_g = self.f.ends[0].weight[:, : self.config.g_size]
        return reads_g @ self.g.ends[1].weight, reads_g @ self.g.ends[1].bias

    def cluster_terms(self, summed: Tensor, term_map: tuple[Tensor, Tensor]) -> Tensor:
        """V g(H_k), (..., width), from ``summed`` = W H_k with the bias of g's first layer, (..., width)."""
        return functional.linear(self.g.between(summed), *term_map)

    def logits(self, read: Tensor) -> Tensor:
        """f(G, U), (...), from what its first layer makes of G and U, bias included, (..., width)."""
        # Without the last bias, which would move all choices alike.
        return functional.linear(self.f.between(read), self.f.ends[1].weight).squeeze(-1)

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
    ) -> list[Inference]:
        """Partitions of B data sets, each drawn in ``n_orders`` random orders, of which one wins.

        All of them are draws, whatever ``n_draws`` asks for.
        """
        seeds = seeds or [0] * len(points)
        draws = draw_partitions(self, points, mask, seeds, max_clusters, n_orders)
        return [inference_of_draws(*one, self.config.winner) for one in zip(draws, mask, strict=True)]


# -- training ----------------------------------------------------------------------------------------


class Positions(NamedTuple):
    """P positions in each of B data sets: who is assigned, and who comes next."""

    assigned: Tensor  # (B, P, N) bool
    next_point: Tensor  # (B, P) int64


def draw_positions(n_sets: int, n_positions: int, n_points: int, generator: torch.Generator) -> Positions:
    """Positions, each at a place of a random order from its second to its last."""
    order = torch.rand(n_sets, n_positions, n_points, generator=generator).argsort(-1)
    place = torch.randint(1, n_points, (n_sets, n_positions, 1), generator=generator)
    before = torch.arange(n_points) < place
    assigned = torch.zeros_like(before).scatter(-1, order, before)
    return Positions(assigned, order.gather(-1, place).squeeze(-1))


def choice_log_probabilities(
    model: NCPNetwork, encoded: PointTerms, labels: Tensor, positions: Positions
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
    sums = torch.cat([own, old, old + own[of]]) + model.g.ends[0].bias
    terms = model.cluster_terms(sums, model.term_map())
    alone, before, after = terms.split([len(own), len(of), len(of)])
    everything = rest.index_add(0, of, before) + model.f.ends[0].bias  # f reads G and U as one sum
    logits = model.logits(torch.cat([everything + alone, everything[of] + after - before]))
    table = logits.new_full((len(own), n_clusters + 1), -torch.inf)
    table = table.index_put((of, k), logits[len(own) :])
    table = torch.cat([table[:, :-1], logits[: len(own), None]], dim=1)
    label = labels.gather(1, positions.next_point).flatten()
    is_old = exists.gather(1, label[:, None]).squeeze(1)
    target = torch.where(is_old, label, n_clusters)
    shape = (n_sets, n_positions)
    return torch.log_softmax(table, dim=1).unflatten(0, shape), target.unflatten(0, shape)


# -- inference: many orders of many data sets, point by point ----------------------------------------


class PartitionDraws(NamedTuple):
    """S partitions of one data set of N points, each found in an order of its own."""

    labels: Tensor  # (S, N) int64, clusters named in the order of their birth; 0 for absent points
    log_probability: Tensor  # (S,) float64, of the partition given the data and the order
    probabilities: Tensor  # (S, N), of each point's label when it was chosen; 0 for absent points
    cap_reached: Tensor  # (S,) bool


def draw_partitions(
    model: NCPNetwork, points: Tensor, mask: Tensor, seeds: Sequence[int], max_clusters: int, n_orders: int
) -> list[PartitionDraws]:
    """Partitions of B data sets, points (B, N, d) and mask (B, N), in ``n_orders`` random orders each."""
    # Sets of similar size go together; the smaller ones of a batch drop off its end when they are through.
    by_size = mask.sum(1).argsort(descending=True, stable=True).tolist()
    per_batch = max(1, ROWS_AT_ONCE // n_orders)
    results: dict[int, PartitionDraws] = {}
    for start in range(0, len(by_size), per_batch):
        sets = by_size[start : start + per_batch]
        drawn = [random_orders(mask[b], seeds[b], n_orders) for b in sets]
        orders, numbers = (torch.cat(of_sets) for of_sets in zip(*drawn, strict=True))
        sums = RunningSums(model, points[sets], mask[sets], orders, numbers, max_clusters)
        results.update(zip(sets, sums.draw(), strict=True))
    return [results[b] for b in range(len(points))]


def random_orders(mask: Tensor, seed: int, n_orders: int) -> tuple[Tensor, Tensor]:
    """Orders (S, N) of the points, absent ones last, and numbers (S, N) that draw the labels."""
    present = mask.nonzero().squeeze(1)
    generator = torch.Generator().manual_seed(seed)
    orders = torch.rand(n_orders, len(present), generator=generator).argsort(1)
    numbers = torch.rand(n_orders, len(present), generator=generator)
    absent = (~mask).nonzero().squeeze(1).expand(n_orders, -1)
    padding = (0, len(mask) - len(present))
    return torch.cat([present[orders.to(mask.device)], absent], 1), functional.pad(numbers, padding)


class RunningSums:
    """Sums that the choices of R orders (R, N) need: W H_k and V g(H_k) of every cluster, the input of f.

    There are equally many orders of each of B data sets, the largest set first, and ``numbers`` (R, N) that
    draw the labels. A slot holds one cluster of every order; the first without one is the new one.
    """

    def __init__(
        self,
        model: NCPNetwork,
        points: Tensor,
        mask: Tensor,
        orders: Tensor,
        numbers: Tensor,
        max_clusters: int,
    ) -> None:
        n_rows, device = len(orders), mask.device
        self.n_orders, self.model, self.max_clusters = n_rows // len(points), model, max_clusters
        sizes = mask.sum(1)
        self.orders, self.numbers = orders[:, : int(sizes[0])], numbers.to(points)
        encoded = model.encode(points)
        self.first_point = mask.shape[1] * torch.arange(len(points), device=device)
        self.first_point = self.first_point.repeat_interleave(self.n_orders)
        # One look-up for both that a point adds.
        self.added = torch.cat([encoded.in_cluster, encoded.in_rest], dim=-1).flatten(0, 1)
        self.term_map = model.term_map()
        self.summed = encoded.in_rest.new_zeros(FIRST_SLOTS, n_rows, encoded.in_rest.shape[-1])  # W H_k
        self.terms = torch.zeros_like(self.summed)  # V g(H_k)
        # Thousands of additions and removals: in double precision the sum over nothing is nothing.
        of_set = torch.where(mask.unsqueeze(-1), encoded.in_rest, 0.0).to(torch.float64).sum(1)
        self.read = of_set.repeat_interleave(self.n_orders, dim=0) + model.f.ends[0].bias  # of G and U

        self.rows, places = (torch.arange(n, device=device) for n in (n_rows, self.orders.shape[1]))
        self.n_rows: list[int] = (self.n_orders * (sizes[:, None] > places).sum(0)).tolist()  # at each place
        self.n_slots = 1  # in use by any order, the new one included
        self.n_clusters = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self.labels = torch.zeros(n_rows, mask.shape[1], dtype=torch.int64, device=device)
        self.probabilities = encoded.in_rest.new_zeros(n_rows, mask.shape[1])
        self.log_probability = self.read.new_zeros(n_rows)
        self.cap_reached = torch.zeros(n_rows, dtype=torch.bool, device=device)

    def draw(self) -> list[PartitionDraws]:
        """The partitions of each data set, after a label for every point of every order."""
        for place, n_rows in enumerate(self.n_rows):
            self._label(place, n_rows)
        kept = (self.labels, self.log_probability, self.probabilities, self.cap_reached)
        return [
            PartitionDraws(*of_set) for of_set in zip(*(v.split(self.n_orders) for v in kept), strict=True)
        ]

    def _label(self, place: int, r: int) -> None:
        """Give the point at this place of each of the first r orders a label."""
        k, point, row = self.n_slots, self.orders[:r, place], self.rows[:r]
        in_cluster, in_rest = self.added[self.first_point[:r] + point].tensor_split(2, dim=1)  # (r, width)
        self.read[:r] -= in_rest
        with_point = self.summed[:k, :r] + (in_cluster + self.model.g.ends[0].bias)
        gain = self.model.cluster_terms(with_point, self.term_map).sub_(self.terms[:k, :r])  # (k, r, width)
        logits = self.model.logits(gain + self.read[:r].to(gain.dtype))  # (k, r)
        beyond_new = torch.arange(k, device=row.device).unsqueeze(1) > self.n_clusters[:r]
        log_p = torch.log_softmax(logits.masked_fill_(beyond_new, -torch.inf), dim=0)
        slot = self._drawn(log_p, place)
        beyond = slot == self.max_clusters
        if beyond.any():  # where the choice is a cluster beyond the cap one of the others is chosen
            self.cap_reached[:r] |= beyond
            within = torch.log_softmax(log_p[: self.max_clusters], dim=0)
            log_p = torch.where(beyond, functional.pad(within, (0, 0, 0, 1)), log_p)
            slot = torch.where(beyond, self._drawn(within, place), slot)
        chosen, gain = log_p[slot, row], gain[slot, row]
        self.summed[slot, row] += in_cluster
        self.terms[slot, row] += gain
        self.read[:r] += gain
        self.n_clusters[:r] += slot == self.n_clusters[:r]
        self.labels[row, point] = slot
        self.probabilities[row, point] = chosen.exp()
        self.log_probability[:r] += chosen
        self.n_slots = max(k, int(slot.max()) + 2)
        if self.n_slots > len(self.summed):
            self.summed = torch.cat([self.summed, torch.zeros_like(self.summed)])
            self.terms = torch.cat([self.terms, torch.zeros_like(self.terms)])

    def _drawn(self, log_p: Tensor, place: int) -> Tensor:
        """Slots (r,) drawn by their log probabilities (k, r), by inversion."""
        edges = log_p.exp().cumsum(0)
        # Scaled to the last edge: a number above all of them would choose a slot that is none.
        return (self.numbers[: log_p.shape[1], place] * edges[-1] >= edges[:-1]).sum(0)


# -- the answer --------------------------------------------------------------------------------------


def inference_of_draws(draws: PartitionDraws, mask: Tensor, winner: str = "agreeing") -> Inference:
    """The partition of S that wins as the answer, with all of them and what they count as its draws."""
    weights = torch.softmax(draws.log_probability / TEMPERATURE, dim=0)
    best = int(draws.log_probability.argmax())
    if winner == "agreeing":
        best = int(binder_losses(draws.labels[:, mask], weights).argmin())
    labels, probabilities = draws.labels[best], draws.probabilities[best]
    of_cluster = [mask & (labels == k) for k in range(int(labels[mask].max()) + 1)]
    steps = tuple(Step(members, torch.where(members, probabilities, 0.0)) for members in of_cluster)
    # An order that a cap kept from opening a cluster has another probability than without it.
    cap_reached = bool(draws.cap_reached.any())
    log_probability = float(draws.log_probability[best])
    shares = (0.0, *weights.tolist())
    return Inference(labels, steps, cap_reached, tuple(draws.labels), shares, log_probability)


def binder_losses(labels: Tensor, weights: Tensor) -> Tensor:
    """Pairs of points that each of S partitions (S, N) treats differently from the others, (S,).

    Twice the mean over these by their weights (S,): pairs are counted in both directions. By the sizes of
    clusters and of their intersections, without the pairs themselves.
    """
    k = int(labels.max()) + 1
    members = functional.one_hot(labels, k).transpose(1, 2).flatten(0, 1).to(torch.float64)
    shared = (members @ members.T).square().unflatten(0, (-1, k)).unflatten(2, (-1, k)).sum((1, 3))  # (S, S)
    own = shared.diagonal()
    return own * weights.sum() + own @ weights - 2 * shared @ weights


# -- estimator ---------------------------------------------------------------------------------------


class NCP(AmortizedClusterer):
    """Neural Clustering Process (Pakman et al. 2020): rows are labelled one after another; k is found.

    A trained network gives each row the probabilities of joining one of the clusters so far or opening a new
    one. Multiplied along a random order of the rows they are the probability of a partition: labels drawn
    from them are draws from a posterior over partitions, and of many orders the partition that agrees most
    with the others is the network's answer. As a row costs a step, the network sees a sample of the rows.

    Parameters
    ----------
    n_orders : int
        Random orders of the rows (S in the paper), which run as one batch; also the number of draws behind
        ``k_posterior_``.
    max_network_points : int or None
        As for :class:`AMCP`; None stands for 256.
    weights, projection, scaling, max_clusters, random_state, verbose, device
        As for :class:`AMCP`; ``weights=None`` stands for "ncp-2d".

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters: the draws count as they do where they choose the answer.
    partition_log_probability_ : float
        Log probability of the answer, given the data and the order in which it was found.
    steps_ : tuple of ClusteringStep
        The network's clusters in the order in which they appeared, with the probabilities of their members.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.1, 0.1], [5.0, 5.1], [5.1, 5.0], [5.1, 5.1]]
    >>> cw.NCP(random_state=0).fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    _method = "ncp"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "n_orders": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        n_orders: int = 50,
        weights: str | Path | Weights | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.n_orders = n_orders
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

    def _options(self) -> dict[str, Any]:
        return {"n_orders": self.n_orders}

    @property
    def partition_log_probability_(self) -> float | None:
        """Log probability of the network's own partition."""
        return self._answer.log_probability
