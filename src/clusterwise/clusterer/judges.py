"""The two networks that judge branches of trees and candidate partitions, in numpy.

They are trained in torch (``training.node_judge``, ``training.partition_judge``), and a test holds both
implementations equal: clustering does without torch. Scoring proposed clusters by their predicted overlap
with a true one is known from face clustering (Yang et al., CVPR 2019). Here a branch also sees its parent,
sibling and children, and, once all branches have a first score, the best cut below it; a partition is
compared with all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erf, expit, log_softmax, softmax

from clusterwise._threads import in_threads
from clusterwise.clusterer.branches import (
    N_RANGE_FEATURES,
    N_SPLIT_FEATURES,
    Branches,
    ScoredTree,
    measure_branches,
    values_below,
)
from clusterwise.clusterer.features import (
    BICS,
    LOG_ROWS,
    MODULARITIES,
    N_CLUSTER_FEATURES,
    N_PARTITION_FEATURES,
    PartitionFeatures,
    agreements,
    features_of_partition,
)
from clusterwise.clusterer.graph import Graph
from clusterwise.clusterer.trees import LINKAGES, trees_of
from clusterwise.exceptions import WeightsFileError

__all__ = [
    "FARTHEST_FEATURE",
    "LOG_NATS",
    "SIMILAR",
    "SMALL_MODULARITY",
    "Judges",
    "PartitionScores",
    "joint_probabilities",
    "probabilities_of_k",
    "rank",
]

# Standardized features beyond this say no more than this.
FARTHEST_FEATURE = 6.0
# Partitions with at least this adjusted Rand index between them count as similar.
SIMILAR = 0.9
# Typical size of the logs of differences in evidence.
LOG_NATS = 4.0
# A difference in modularity that is large enough to matter.
SMALL_MODULARITY = 0.1
# Answers whose expected ARI differs by less than this are equally good.
SAME_EXPECTATION = 0.01
# P(K) is given for numbers of clusters up to this.
MAX_K = 200
EPSILON = 1e-5  # of torch's layer norm

Parameters = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class PartitionScores:
    """Judgement of c candidates."""

    expected_ari: np.ndarray  # (c,) adjusted Rand index with the truth
    choice: np.ndarray  # (c,) probability of being the best candidate
    numbers: np.ndarray  # (c,) probability of a candidate as far as its number of clusters goes
    agreement: np.ndarray  # (c, c) adjusted Rand index between candidates
    n_clusters: np.ndarray  # (c,)
    out_of_range: float  # share of features far outside of what the training tables have


@dataclass(frozen=True)
class Judges:
    """Parameters of both networks by their names."""

    nodes: Parameters
    partitions: Parameters
    name: str = ""  # of the weights
    max_out_of_range: float = np.inf  # what one in a thousand of the training tables has

    def __post_init__(self) -> None:
        for network, widths in (
            (self.nodes, {"centres": N_RANGE_FEATURES + N_SPLIT_FEATURES}),
            (self.partitions, {"centres": N_CLUSTER_FEATURES, "partition_centres": N_PARTITION_FEATURES}),
        ):
            if network and any(len(network[name]) != width for name, width in widths.items()):
                raise WeightsFileError(
                    f"The weights {self.name!r} do not fit this version of clusterwise; train them again."
                )

    @property
    def spread_of_k(self) -> float:
        """How far a candidate's probability extends to similar numbers; see ``probabilities_of_k``."""
        return float(self.partitions["spread"])

    def score_trees(self, graph: Graph) -> tuple[ScoredTree, ...]:
        """The linkage trees of a graph's rows with the expected overlap of each branch with a cluster."""
        graph.directions  # noqa: B018  what several threads need
        measured = in_threads(lambda kind: measure_branches(graph, *trees_of(graph, (kind,))), LINKAGES)
        scores = expit(score_branches(self.nodes, measured)).astype(np.float64)
        ends = np.cumsum([len(branches.nodes) for branches in measured])[:-1]
        return tuple(
            ScoredTree(branches, own, values_below(branches.sizes, branches.children, own))
            for branches, own in zip(measured, np.split(scores, ends), strict=True)
        )

    def score(self, graph: Graph, candidates: Sequence[np.ndarray]) -> PartitionScores:
        """Scores of candidates, labels (m,) each, of a graph whose trees are scored."""
        graph.moments, graph.adjacency  # noqa: B018
        features = in_threads(lambda labels: features_of_partition(graph, labels), candidates)
        return score_partitions(self.partitions, features, agreements(candidates))


def score_branches(network: Parameters, trees: Sequence[Branches]) -> np.ndarray:
    """Logits (V,) of the overlaps with true clusters of the branches of some trees, tree after tree."""
    features, parents, children, sizes = _joined(trees)
    states = _perceptron(network, "embed", _standardized(network, "", features))
    of_parent = children[np.maximum(parents, 0)]
    siblings = np.where(of_parent[:, 0] == np.arange(len(parents)), of_parent[:, 1], of_parent[:, 0])
    relatives = parents, np.where(parents >= 0, siblings, -1), children
    n_rounds = len([name for name in network if name.startswith("before.") and name.endswith(".absent")])
    for i in range(n_rounds):
        states = _exchanged(network, f"before.{i}", states, *relatives)
    first = expit(_linear(network, "first_head.1", _normalized(network, "first_head.0", states))[:, 0])
    below = values_below(sizes, children, first.astype(np.float64)).astype(np.float32)
    above = np.where(parents >= 0, first[np.maximum(parents, 0)], 0)
    states = states + _linear(network, "first_scores", np.stack([first, below, first - below, above], axis=1))
    for i in range(n_rounds):
        states = _exchanged(network, f"after.{i}", states, *relatives)
    return _linear(network, "head.1", _normalized(network, "head.0", states))[:, 0]


def _joined(trees: Sequence[Branches]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, parents, children and sizes of the branches of some trees behind each other."""
    offsets = np.cumsum([0] + [len(one.nodes) for one in trees[:-1]])
    pairs = list(zip(trees, offsets, strict=True))
    return (
        np.concatenate([one.features for one in trees]),
        np.concatenate([np.where(one.parents >= 0, one.parents + offset, -1) for one, offset in pairs]),
        np.concatenate([np.where(one.children >= 0, one.children + offset, -1) for one, offset in pairs]),
        np.concatenate([one.sizes for one in trees]),
    )


def _exchanged(
    network: Parameters,
    name: str,
    states: np.ndarray,
    parents: np.ndarray,
    siblings: np.ndarray,
    children: np.ndarray,
) -> np.ndarray:
    """States (v, w) after messages between a branch, its parent, its sibling and its children."""
    seen = _normalized(network, f"{name}.norm", states)
    # The last rows stand for a parent, a sibling, a child that is not there.
    table = np.concatenate([seen, network[f"{name}.absent"]])
    v = len(states)

    def state_of(indices: np.ndarray, absent: int) -> np.ndarray:
        return table[np.where(indices >= 0, indices, v + absent)]

    left, right = state_of(children[:, 0], 2), state_of(children[:, 1], 2)
    messages = [seen, state_of(parents, 0), state_of(siblings, 1), left + right, np.maximum(left, right)]
    return states + _perceptron(network, f"{name}.mix", np.concatenate(messages, axis=1))


def score_partitions(
    network: Parameters, features: Sequence[PartitionFeatures], agreement: np.ndarray
) -> PartitionScores:
    """Scores of c candidates with their features, and the agreements (c, c) between them."""
    clusters = np.concatenate([one.clusters for one in features])
    partition = np.stack([one.partition for one in features])
    embedded = _perceptron(network, "embed", _standardized(network, "", clusters))
    starts = np.cumsum([0] + [len(one.shares) for one in features[:-1]])
    shares = np.concatenate([one.shares for one in features]).astype(np.float32)
    pooled = [
        np.add.reduceat(embedded * shares[:, None], starts),
        np.minimum.reduceat(embedded, starts),
        np.maximum.reduceat(embedded, starts),
        _standardized(network, "partition_", partition),
        _behind_the_best(partition),
    ]
    states = _perceptron(network, "join", np.concatenate(pooled, axis=1))
    for i in range(len([name for name in network if name.endswith(".sharpness")])):
        states = _compared(network, f"rounds.{i}", states, agreement.astype(np.float32))
    heads = _linear(network, "heads.1", _normalized(network, "heads.0", states)).astype(np.float64)
    far = np.abs((clusters - network["centres"]) / network["spreads"]) > FARTHEST_FEATURE
    return PartitionScores(
        expit(heads[:, 0]),
        softmax(heads[:, 1]),
        np.exp(log_softmax(heads[:, 2] / float(network["temperature"]))),
        agreement,
        np.array([len(one.shares) for one in features]),
        float(far.mean()),
    )


def _compared(network: Parameters, name: str, states: np.ndarray, agreement: np.ndarray) -> np.ndarray:
    """States (c, w) after a comparison of each candidate with those like it, and with all of them."""
    seen = _normalized(network, f"{name}.norm", states)
    similar = softmax(network[f"{name}.sharpness"] * agreement, axis=1)
    everyone = [np.broadcast_to(one, seen.shape) for one in (seen.mean(axis=0), seen.max(axis=0))]
    support = agreement.mean(axis=1, keepdims=True)
    close = (agreement > SIMILAR).mean(axis=1, keepdims=True, dtype=np.float32)
    mixed = np.concatenate([seen, similar @ seen, *everyone, support, close], axis=1)
    return states + _perceptron(network, f"{name}.mix", mixed)


def _behind_the_best(partition: np.ndarray) -> np.ndarray:
    """How far each candidate is behind the best of its data set, (c, 4).

    By its BICs, as logs of nats, and its modularities. Features of single candidates say this per row, and
    too coarsely to tell good candidates apart.
    """
    bics, modularities = partition[:, list(BICS)], partition[:, list(MODULARITIES)]
    nats = (bics - bics.min(axis=0)) * np.exp(partition[:, LOG_ROWS, None]) / 2
    behind = [np.log1p(nats) / LOG_NATS, (modularities.max(axis=0) - modularities) / SMALL_MODULARITY]
    return np.asarray(np.concatenate(behind, axis=1), dtype=np.float32)


def _standardized(network: Parameters, prefix: str, features: np.ndarray) -> np.ndarray:
    scaled = (features.astype(np.float32) - network[f"{prefix}centres"]) / network[f"{prefix}spreads"]
    return np.clip(scaled, -FARTHEST_FEATURE, FARTHEST_FEATURE)


def _linear(network: Parameters, name: str, inputs: np.ndarray) -> np.ndarray:
    return np.asarray(inputs @ network[f"{name}.weight"].T + network[f"{name}.bias"])


def _perceptron(network: Parameters, name: str, inputs: np.ndarray) -> np.ndarray:
    """Two layers with a GELU between them."""
    hidden = _linear(network, f"{name}.0", inputs)
    return _linear(network, f"{name}.2", hidden * (0.5 + 0.5 * erf(hidden * np.float32(np.sqrt(0.5)))))


def _normalized(network: Parameters, name: str, states: np.ndarray) -> np.ndarray:
    centred = states - states.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + EPSILON)
    return np.asarray(scaled * network[f"{name}.weight"] + network[f"{name}.bias"])


# -- from scores to an answer -------------------------------------------------------------------------


def joint_probabilities(choice: np.ndarray, numbers: np.ndarray, n_clusters: np.ndarray) -> np.ndarray:
    """Probability of each candidate, (c,): P(K) by one head of the judge, the choice given K by another."""
    joint = np.zeros(len(choice))
    for k in np.unique(n_clusters):
        same = n_clusters == k
        joint[same] = numbers[same].sum() * choice[same] / max(choice[same].sum(), 1e-300)
    return np.asarray(joint / joint.sum())


def rank(scores: PartitionScores) -> np.ndarray:
    """Places of c candidates from the best to the worst answer, (c,).

    The agreement with the truth that a candidate can expect is estimated twice: by the network itself, and by
    the Bayes rule from the agreement with all candidates and their probabilities of being the best one. The
    mean of both counts. Candidates that can expect the same up to ``SAME_EXPECTATION`` are told apart by the
    choice: a few rows more or less make no difference to the index, but a small cluster is one.
    """
    expected = (scores.agreement @ scores.choice + scores.expected_ari) / 2
    leading = expected >= expected.max() - SAME_EXPECTATION
    return np.lexsort((-np.where(leading, scores.choice, expected), ~leading))


def probabilities_of_k(
    probabilities: np.ndarray, n_clusters: np.ndarray, spread: float, max_k: int = MAX_K
) -> np.ndarray:
    """Probability of each number of clusters 1 .. ``max_k``, (max_k,), from those of c candidates, (c,).

    The true number need not be among the candidates: each gives some of its probability to similar numbers,
    by ``exp(-abs(log(ratio)) / spread)``. So 2 hardly gives any to 1 or 3, but 20 does to 19 and 21.
    """
    numbers = np.arange(1, max_k + 1)
    found, place = np.unique(n_clusters, return_inverse=True)
    mass = np.bincount(place.reshape(-1), weights=probabilities)
    kernel = np.exp(-np.abs(np.log(numbers[:, None] / found)) / spread)
    return np.asarray((kernel / kernel.sum(axis=0)) @ (mass / mass.sum()))
