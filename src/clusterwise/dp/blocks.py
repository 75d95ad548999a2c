"""Rows in blocks that may lie on other machines: what a sampler does to a block, and what it returns of it.

A block keeps the labels of its rows, and the sides that they are on in their clusters. Every operation takes
a block and its points, and returns the block as it is afterwards and a small result: sums, and the labels of
the few rows of a sample. What is decided about all blocks between two operations, a relabelling or a split,
comes as a ``Change`` with the next one. Operations are pure, with random numbers of their own: after a loss
they are run again and return the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
from scipy.special import expit, log_expit

from clusterwise.dp.state import draw_categories
from clusterwise.gaussian.niw import NormalInverseWishart, sum_by_label
from clusterwise.gaussian.sorted_rows import Rows

__all__ = [
    "Block",
    "Blocks",
    "Change",
    "Held",
    "LocalBlocks",
    "PerBlock",
    "Proposed",
    "arguments_of",
    "cut",
    "draw_labels",
    "draw_with_sides",
    "generator_of",
    "least_slice",
    "places_of",
    "propose",
    "start",
]


@dataclass(frozen=True)
class Block:
    """The state of one block of n rows."""

    labels: np.ndarray  # (n,) int32
    sides: np.ndarray  # (n,) bool
    sample: np.ndarray  # rows of the block that are in the sample
    members: np.ndarray | None = None  # rows that the last proposal was about
    drawn: np.ndarray | None = None  # which of these would leave


@dataclass(frozen=True)
class Change:
    """What has been decided since the last operation: first a split, then new names."""

    split: tuple[
        int, ...
    ] = ()  # the label of those who leave, if the last proposal was a split that was taken
    labels: np.ndarray | None = None  # (K, 2) new label by label and side
    sides: np.ndarray | None = None  # (K, 2) new side by label and side

    def apply(self, block: Block) -> Block:
        """The block after the change."""
        labels, sides = block.labels, block.sides
        if self.split and block.members is not None and block.drawn is not None:
            labels = labels.copy()
            labels[block.members[block.drawn]] = self.split[0]
        if self.labels is not None:
            at = (labels, sides.astype(np.intp))
            sides = sides if self.sides is None else self.sides[at]
            labels = self.labels[at].astype(np.int32)
        return Block(labels, sides, block.sample)


def start(n_rows: int, sample: np.ndarray) -> Block:
    """A block of one cluster."""
    return Block(np.zeros(n_rows, dtype=np.int32), np.zeros(n_rows, dtype=bool), sample)


def least_slice(
    block: Block, points: np.ndarray, rng: np.random.Generator, change: Change, openness: np.ndarray
) -> tuple[Block, float]:
    """The smallest slice variable of a block; see ``sweep``. Openness is (K,)."""
    block = change.apply(block)
    slices = rng.random(len(points)) * openness[block.labels]
    return block, float(slices.min(initial=1.0))


def draw_labels(
    block: Block,
    points: np.ndarray,
    rng: np.random.Generator,
    prior: NormalInverseWishart,
    eta: np.ndarray,
    openness: np.ndarray,
    before: np.ndarray,
) -> tuple[Block, tuple[np.ndarray, np.ndarray]]:
    """Draw all labels anew with the slices of ``least_slice``, whose random numbers are the same.

    ``before`` (K,) is the openness of the clusters there were; ``eta`` (K', p) and ``openness`` (K',) include
    new ones. Returns sums (K', p) and the labels of the sample.
    """
    k = len(before)
    slices = rng.random(len(points)) * before[block.labels]
    labels, statistics = np.empty(len(points), dtype=np.int32), np.zeros((len(eta), prior.n_statistics))
    most_open = float(openness[k:].max(initial=0.0))
    for part, some in Rows(points).chunks(prior.n_statistics + k):
        lifted, of_chunk = prior.terms(some), slices[part]
        logits = lifted @ eta[:k].T
        for cluster in np.flatnonzero(openness[:k] < 1):
            logits[of_chunk >= openness[cluster], cluster] = -np.inf
        explorers = np.flatnonzero(of_chunk < most_open)
        beyond = lifted[explorers] @ eta[k:].T
        beyond[of_chunk[explorers, None] >= openness[k:]] = -np.inf
        beyond = np.concatenate([logits[explorers], beyond], axis=1)
        drawn = draw_categories(rng, logits)
        drawn[explorers] = draw_categories(rng, beyond)
        labels[part] = drawn
        statistics += sum_by_label(lifted, drawn, len(eta))
    return replace(block, labels=labels), (statistics, labels[block.sample])


def draw_with_sides(
    block: Block,
    points: np.ndarray,
    rng: np.random.Generator,
    prior: NormalInverseWishart,
    eta: np.ndarray,
    odds: np.ndarray,
) -> tuple[Block, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Draw labels by ``eta`` (K, p) and sides by log odds (K, p); see ``subclusters``.

    Returns sums (2 K, p) of the sides of all clusters, and labels and sides of the sample.
    """
    k = len(eta)
    labels, sides = np.empty(len(points), dtype=np.int32), np.empty(len(points), dtype=bool)
    statistics = np.zeros((2 * k, prior.n_statistics))
    for part, some in Rows(points).chunks(prior.n_statistics + k):
        lifted = prior.terms(some)
        drawn = draw_categories(rng, lifted @ eta.T)
        side = rng.random(len(drawn)) < expit(np.einsum("np,np->n", lifted, odds[drawn]))
        labels[part], sides[part] = drawn, side
        statistics += sum_by_label(lifted, 2 * drawn + side, 2 * k)
    block = Block(labels, sides, block.sample)
    return block, (statistics, labels[block.sample], sides[block.sample])


def cut(
    block: Block,
    points: np.ndarray,
    rng: np.random.Generator,
    change: Change,
    prior: NormalInverseWishart,
    fresh: np.ndarray,
    odds: np.ndarray,
) -> tuple[Block, tuple[np.ndarray, np.ndarray]]:
    """Cut the clusters in ``fresh`` (K,) bool anew by log odds (K, p).

    Returns sums (K, p) of their second sides, and the sides of the sample.
    """
    block = change.apply(block)
    sides, upper = block.sides.copy(), np.zeros((len(fresh), prior.n_statistics))
    members = np.flatnonzero(fresh[block.labels])
    for part, some in Rows(points).chunks_of(members, prior.n_statistics):
        lifted, labels = prior.terms(some), block.labels[members[part]]
        side = np.einsum("np,np->n", lifted, odds[labels]) > 0
        sides[members[part]] = side
        upper += sum_by_label(lifted[side], labels[side], len(fresh))
    return replace(block, sides=sides), (upper, sides[block.sample])


@dataclass(frozen=True)
class Proposed:
    """What a block says about a split or a merger."""

    log_probability: float  # of the sides
    statistics: np.ndarray  # (2, p) of both sides


def propose(
    block: Block,
    points: np.ndarray,
    rng: np.random.Generator,
    change: Change,
    prior: NormalInverseWishart,
    pair: tuple[int, int],
    odds: np.ndarray,
    known: np.ndarray,
    anchors: Sequence[int],
) -> tuple[Block, Proposed]:
    """Draw sides of the rows of one cluster, or look at those of two; see ``anchored``.

    ``odds`` (p,) are of the second side, ``known`` (m,) the sides of the block's rows in the sample, which
    have been drawn already. The ``anchors`` are rows of the block whose sides were never in question.
    """
    block = change.apply(block)
    a, b = pair
    members = np.flatnonzero(block.labels == a if a == b else (block.labels == a) | (block.labels == b))
    free = np.ones(len(members), dtype=bool)
    free[np.searchsorted(members, np.asarray(anchors, dtype=np.int64))] = False
    sides = block.labels[members] == b
    heights = rng.random(len(members) if a == b else 0)
    if a == b:
        in_sample = block.labels[block.sample] == a
        places = np.searchsorted(members, block.sample[in_sample])
        heights[places] = np.where(known[in_sample], -1.0, 2.0)  # below or above every probability
    log_probability, statistics = 0.0, np.zeros((2, prior.n_statistics))
    for part, some in Rows(points).chunks_of(members, prior.n_statistics):
        lifted = prior.terms(some)
        logits = lifted @ odds
        if a == b:
            sides[part] = heights[part] < expit(logits)
        log_probability += float(log_expit(np.where(sides[part], logits, -logits))[free[part]].sum())
        upper = sides[part] @ lifted
        statistics += np.stack([lifted.sum(axis=0) - upper, upper])
    return replace(block, members=members, drawn=sides), Proposed(log_probability, statistics)


class Blocks(ABC):
    """All blocks of a data set, and a way to run an operation on each."""

    n_blocks: int

    @abstractmethod
    def run(self, operation: Callable[..., Any], seed: int | None, *arguments: Any) -> list[Any]:
        """Run an operation on all blocks with the same arguments; results in the order of the blocks.

        A tuple ``PerBlock`` among the arguments has one for each block.
        """

    @abstractmethod
    def fork(self) -> Blocks:
        """The same rows for another chain."""


class PerBlock(tuple[Any, ...]):
    """An argument that differs from block to block."""


def arguments_of(arguments: Sequence[Any], index: int) -> list[Any]:
    """The arguments for one block."""
    return [one[index] if isinstance(one, PerBlock) else one for one in arguments]


def generator_of(seed: int | None, index: int) -> np.random.Generator:
    """The random numbers of one operation on one block."""
    return np.random.default_rng([0 if seed is None else seed, index])


@dataclass(frozen=True)
class Held:
    """Blocks, and where the rows of a sample are in them."""

    blocks: Blocks
    block_of: np.ndarray  # (m,) ascending
    place_of: np.ndarray  # (m,) row in that block


def places_of(rows: np.ndarray, lengths: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Blocks and places in them of ascending row numbers (m,), for blocks of these lengths."""
    edges = np.concatenate([[0], np.cumsum(lengths)])
    block_of = np.searchsorted(edges, rows, side="right") - 1
    return block_of, rows - edges[block_of]


class LocalBlocks(Blocks):
    """Blocks of this process, in threads; points may be mapped from a file."""

    def __init__(self, points: Sequence[np.ndarray], samples: Sequence[np.ndarray]) -> None:
        self.points, self.samples, self.n_blocks = points, samples, len(points)
        self.n_threads = min(len(points), joblib.cpu_count())
        self.states = [start(len(some), sample) for some, sample in zip(points, samples, strict=True)]

    def run(self, operation: Callable[..., Any], seed: int | None, *arguments: Any) -> list[Any]:
        """See ``Blocks``."""

        def of_block(index: int) -> Any:
            rng, given = generator_of(seed, index), arguments_of(arguments, index)
            self.states[index], result = operation(self.states[index], self.points[index], rng, *given)
            return result

        if self.n_threads == 1:
            return list(map(of_block, range(self.n_blocks)))
        with ThreadPoolExecutor(self.n_threads) as threads:
            return list(threads.map(of_block, range(self.n_blocks)))

    def fork(self) -> LocalBlocks:
        """See ``Blocks``."""
        return LocalBlocks(self.points, self.samples)
