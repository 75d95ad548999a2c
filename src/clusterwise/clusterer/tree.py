"""A binary tree over rows, laid out so that the rows below every node stand side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise._compiled import compiled

__all__ = ["Tree", "tree_of_merges"]


@dataclass(frozen=True)
class Tree:
    """Nodes 0 .. m-1 are the rows, the later ones join two earlier ones, the last one is the root."""

    kind: str
    children: np.ndarray  # (2m - 1, 2), -1 for rows
    parents: np.ndarray  # (2m - 1,), -1 for the root
    sizes: np.ndarray  # (2m - 1,) rows below
    starts: np.ndarray  # (2m - 1,) first place in ``order`` of the rows below
    heights: np.ndarray  # (2m - 1,) where the children were joined; 0 for rows
    order: np.ndarray  # (m,) rows from left to right

    @property
    def n_rows(self) -> int:
        """Number of rows m."""
        return len(self.order)

    def rows(self, node: int) -> np.ndarray:
        """The rows below a node."""
        return self.order[self.starts[node] : self.starts[node] + self.sizes[node]]


def tree_of_merges(kind: str, merges: np.ndarray, heights: np.ndarray) -> Tree:
    """Lay out merges (m - 1, 2) of nodes, in scipy's numbering."""
    m = len(merges) + 1
    children, parents = np.full((2 * m - 1, 2), -1), np.full(2 * m - 1, -1)
    sizes, starts = np.ones(2 * m - 1, dtype=np.int64), np.zeros(2 * m - 1, dtype=np.int64)
    order = np.empty(m, dtype=np.int64)
    _lay_out(np.ascontiguousarray(merges, dtype=np.int64), children, parents, sizes, starts, order)
    full = np.concatenate([np.zeros(len(order)), np.asarray(heights, dtype=np.float64)])
    return Tree(kind, children, parents, sizes, starts, full, order)


@compiled
def _lay_out(
    merges: np.ndarray,
    children: np.ndarray,
    parents: np.ndarray,
    sizes: np.ndarray,
    starts: np.ndarray,
    order: np.ndarray,
) -> None:
    """Write the other arrays of a ``Tree``, which are -1, -1, ones, zeros and room."""
    m = len(order)
    for i in range(m - 1):
        left, right = merges[i, 0], merges[i, 1]
        children[m + i, 0], children[m + i, 1] = left, right
        parents[left] = parents[right] = m + i
        sizes[m + i] = sizes[left] + sizes[right]
    for node in range(2 * m - 2, m - 1, -1):
        left, right = children[node, 0], children[node, 1]
        starts[left] = starts[node]
        starts[right] = starts[node] + sizes[left]
    for row in range(m):
        order[starts[row]] = row
