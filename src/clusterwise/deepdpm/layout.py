"""Places for rows such that neighbours are near each other and others are not: the layout of UMAP.

McInnes, Healy & Melville (2018): edges of the neighbour graph pull their ends together, and every row
pushes rows drawn at random away, ::

    sum over edges of  log(1 + |z - z'|^2) - sum_{z''} log(|z - z''|^2 / (1 + |z - z''|^2)).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import coo_matrix, csr_matrix
from torch import Tensor

from clusterwise.deepdpm.adam import Adam
from clusterwise.deepdpm.neighbours import graph_weights
from clusterwise.deepdpm.training import to_tensor

__all__ = ["layout", "neighbour_graph"]

BATCH, NEGATIVES = 4096, 5
LEARNING_RATE = 0.1
# How often an edge is drawn on average, and the fewest and most steps that this may take.
DRAWS, LEAST_STEPS, MOST_STEPS = 40, 300, 4000
# Two rows at the same place push each other apart no harder than rows at this squared distance.
LEAST_SQUARE = 1e-2
# Largest coordinate at the start.
FIRST_SIZE = 5.0


def neighbour_graph(neighbours: np.ndarray, distances: np.ndarray) -> coo_matrix:
    """Symmetric graph (n, n) from the neighbours of each row (n, k): a + b - ab for weights both ways."""
    n, k = neighbours.shape
    rows = np.repeat(np.arange(n), k)
    one_way = csr_matrix((graph_weights(distances).ravel(), (rows, neighbours.ravel())), shape=(n, n))
    return (one_way + one_way.T - one_way.multiply(one_way.T)).tocoo()


def layout(rng: np.random.Generator, graph: coo_matrix, start: np.ndarray, device: str) -> np.ndarray:
    """Places (n, l) of the rows, found from ``start`` (n, l); their mean is zero, their mean variance one."""
    n = len(start)
    first = start - start.mean(axis=0)
    first *= FIRST_SIZE / max(np.abs(first).max(), 1e-12)
    places = to_tensor(first, device).requires_grad_()
    optimizer = Adam([places], LEARNING_RATE)
    heads, tails = graph.row.astype(np.int64), graph.col.astype(np.int64)
    shares = np.cumsum(graph.data) / graph.data.sum()
    n_steps = int(np.clip(DRAWS * len(heads) // BATCH, LEAST_STEPS, MOST_STEPS))
    for step in range(n_steps):
        optimizer.learning_rate = LEARNING_RATE * (1 - step / n_steps)
        edges = np.minimum(np.searchsorted(shares, rng.random(BATCH)), len(heads) - 1)
        others = rng.integers(n, size=(NEGATIVES, BATCH))
        index = [torch.from_numpy(rows).to(device) for rows in (heads[edges], tails[edges], others)]
        optimizer.step(_cross_entropy(places, *index))
    result = places.detach().cpu().numpy().astype(np.float64)
    result -= result.mean(axis=0)
    scaled: np.ndarray = result / max(np.sqrt(result.var(axis=0).mean()), 1e-12)
    return scaled


def _cross_entropy(places: Tensor, heads: Tensor, tails: Tensor, others: Tensor) -> Tensor:
    """The loss of edges from ``heads`` (b,) to ``tails`` (b,), with ``others`` (m, b) pushed away."""
    ends = places[heads]
    attraction = torch.log1p((ends - places[tails]).square().sum(dim=1)).sum()
    gaps = (ends - places[others]).square().sum(dim=2)
    repulsion = (torch.log1p(gaps) - torch.log(gaps + LEAST_SQUARE)) * (others != heads)
    return attraction + repulsion.sum()
