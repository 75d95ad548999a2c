"""Proposers: callables from the graph of the rows to label vectors, from which the judges choose.

A proposer sees the ``Graph`` (points, neighbours, spanning trees, adjacency matrix, linkage trees with
scored branches) and yields labels (m,) of its rows, of any names; nobody asks later who proposed what. So
anything that clusters rows can take part::

    def halves(graph):
        yield graph.points[:, 0] > 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from scipy.special import ndtri

from clusterwise.clusterer.communities import leiden_partitions
from clusterwise.clusterer.graph import Graph
from clusterwise.clusterer.trees import Tree, tree_of_merges, ward_linkage
from clusterwise.exceptions import ClusterwiseError
from clusterwise.gaussian.search import likeliest_partition, search
from clusterwise.neighbours import MANY_COLUMNS
from clusterwise.partition import canonical_labels

__all__ = ["PROPOSERS", "Proposer", "communities", "distinct", "mixtures", "proposers_of", "tree_cuts"]

Proposer = Callable[[Graph], Iterable[np.ndarray]]

# EM is not tried from more clusters than this.
MAX_CLUSTERS_OF_EM = 40
# The whole search would take most of the time, and the judge looks beyond Gaussians anyway.
ROUNDS_OF_SEARCH = 2
# Ward's trees are also cut into these numbers of clusters.
WARD_LEVELS = (2, 3, 4, 5, 6, 8, 10, 15)


def tree_cuts(graph: Graph) -> Iterator[np.ndarray]:
    """The best cut of each linkage tree by the scores of its branches, and some levels of Ward's."""
    for scored in graph.trees:
        yield scored.best_partition(graph.points)
    for scored in graph.trees:
        if scored.tree.kind == "ward":
            yield from _levels(scored.tree)


def rank_levels(graph: Graph) -> Iterator[np.ndarray]:
    """Levels of Ward's tree of the rows by their ranks: nothing is far out, and no distribution skewed."""
    ranks = np.stack([_average_ranks(column) for column in graph.points.T], axis=1)
    scores = ndtri(ranks / (graph.n_rows + 1)) * graph.points.std(axis=0)
    yield from _levels(tree_of_merges("ward", *ward_linkage(scores)))


def _average_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1 on; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((counts.cumsum() - (counts - 1) / 2)[place])


def _levels(tree: Tree) -> Iterator[np.ndarray]:
    return (tree.level(k) for k in WARD_LEVELS if k < tree.n_rows // 2)


def mixtures(graph: Graph) -> Iterator[np.ndarray]:
    """Gaussian mixtures that start from the best cuts, fitted by EM, and the best of them after a search."""
    cuts = [canonical_labels(scored.best_partition(graph.points)) for scored in graph.trees]
    starts = {labels.tobytes(): labels for labels in cuts if 1 < labels.max() + 1 <= MAX_CLUSTERS_OF_EM}
    some = list(starts.values()) or [likeliest_partition(graph.directions)]
    fitted = search(graph.directions, some, max_rounds=0)
    yield from (mixture.labels for mixture in fitted)
    best = canonical_labels(fitted[0].labels)  # without empty clusters
    yield search(graph.directions, [best], max_rounds=ROUNDS_OF_SEARCH)[0].labels


def communities(graph: Graph) -> Iterator[np.ndarray]:
    """Communities of the neighbour graph at several resolutions."""
    # In many columns rows have neighbours by chance, whom they do not share with each other.
    by_shared = graph.points.shape[1] > MANY_COLUMNS
    for labels in leiden_partitions(graph.adjacency_of_more, by_shared):
        yield labels if graph.places is None else labels[graph.places]


PROPOSERS: Mapping[str, Proposer] = {
    "tree-cuts": tree_cuts,
    "mixtures": mixtures,
    "communities": communities,
    "rank-levels": rank_levels,
}


def proposers_of(names_or_callables: Sequence[str | Proposer] | None) -> tuple[Proposer, ...]:
    """Ours by their names, a user's own as they are; None: all of ours."""
    if names_or_callables is None:
        return tuple(PROPOSERS.values())
    for one in names_or_callables:
        if not callable(one) and one not in PROPOSERS:
            raise ClusterwiseError(
                f"proposers holds {one!r}, which is neither a callable from a graph to label vectors nor one "
                f"of {', '.join(map(repr, PROPOSERS))}."
            )
    return tuple(one if callable(one) else PROPOSERS[one] for one in names_or_callables)


def distinct(points: np.ndarray, proposed: Iterable[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The different partitions among labels (m,) each, numbered by first appearance; equal rows share one.

    A single cluster is always among them, as the first one.
    """
    m = len(points)
    known: dict[bytes, int] = {}
    equal = [known.setdefault(row.tobytes(), place) for place, row in enumerate(points + 0.0)]  # no -0.0
    twin = np.array(equal)  # the first row that is equal to each one
    one = np.zeros(m, dtype=np.int64)
    found: dict[bytes, np.ndarray] = {one.tobytes(): one}
    for labels in proposed:
        if np.shape(labels) != (m,):
            raise ClusterwiseError(
                f"A proposer returned labels of shape {np.shape(labels)}; it must return one label for each "
                f"of the {m} rows of the graph."
            )
        labels = canonical_labels(np.unique(labels, return_inverse=True)[1].reshape(-1)[twin])
        found.setdefault(labels.tobytes(), labels)
    return tuple(found.values())
