"""A tree without its crumbs: stems that end where two sizeable parts come apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.clusterer.features import Nodes

__all__ = ["Stem", "stems_of"]

# A part smaller than this share of all rows falls off its stem instead of making a branch.
LEAST_SHARE = 0.01


@dataclass(frozen=True)
class Stem:
    """A chain of nodes from one branching to the next, by places among the judged nodes."""

    nodes: tuple[int, ...]  # from the top
    parent: int  # stem that it branches off, -1 for the first
    depth: int  # branchings above it
    start: float  # first and last row of its top node, as shares of all rows from left to right
    end: float

    def best(self, scores: np.ndarray) -> int:
        """The node of the stem with the largest of scores (v,)."""
        return max(self.nodes, key=lambda node: float(scores[node]))


def stems_of(nodes: Nodes) -> list[Stem]:
    """The stems of a tree, parents first."""
    m = nodes.tree.n_rows
    least = max(2.0, LEAST_SHARE * m)
    stems: list[Stem] = []
    to_do = [(0, -1, 0)]
    while to_do:
        node, parent, depth = to_do.pop()
        chain = [node]
        while True:
            large = [int(c) for c in nodes.children[chain[-1]] if c >= 0 and nodes.sizes[c] >= least]
            if len(large) != 1:
                break
            chain.append(large[0])
        start = nodes.tree.starts[nodes.nodes[node]]
        stems.append(Stem(tuple(chain), parent, depth, start / m, (start + nodes.sizes[node]) / m))
        to_do += [(child, len(stems) - 1, depth + 1) for child in reversed(large)]
    return stems
