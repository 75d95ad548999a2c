"""Rows in blocks, which may lie in memory, in a file or on other machines: how a sampler reaches them.

A block keeps a code for each of its rows, 2 * label + side: the cluster that a row is in, and the side of the
cluster that it is on. An operation takes a block and its rows, and returns the block as it is afterwards and
a small result: sums, and the codes of the few rows of a sample. Rows in memory are one block, and all of them
are in the sample. What is decided about all blocks between two operations, splits and new names, is a table
of new codes that comes with the next operation. Operations are pure, with random numbers of their own: after
a loss they are run again and return the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np

from clusterwise.rows.sorted_rows import Rows

__all__ = ["Block", "Blocks", "ChainRows", "LocalBlocks", "Operation", "operate", "samples_of", "start"]


@dataclass(frozen=True)
class Block:
    """What is known of the n rows of a block."""

    codes: np.ndarray  # (n,) int32
    sample: np.ndarray  # ascending places of the rows that are in the sample

    @property
    def labels(self) -> np.ndarray:
        """Cluster of each row, (n,)."""
        return self.codes >> 1


# Takes a block, its rows, random numbers and arguments; returns the block afterwards and a result.
Operation = Callable[..., tuple[Block, Any]]


def start(n_rows: int, sample: np.ndarray) -> Block:
    """A block of one cluster."""
    return Block(np.zeros(n_rows, dtype=np.int32), sample)


def operate(
    operation: Operation,
    block: Block,
    rows: Rows,
    key: tuple[int, int],
    new_codes: np.ndarray | None,
    arguments: Sequence[Any],
) -> tuple[Block, Any]:
    """The block after an operation, and its result; the rows get their ``new_codes`` before.

    ``key`` has the seed of the operation and the number of the block.
    """
    if new_codes is not None:
        block = replace(block, codes=new_codes[block.codes])
    return operation(block, rows, np.random.default_rng(key), *arguments)


class Blocks(ABC):
    """All blocks of a data set, and a way to run an operation on each."""

    samples: Sequence[np.ndarray]  # of each block, ascending places of the rows in the sample
    n_rows: int

    @abstractmethod
    def run(
        self,
        operation: Operation,
        seed: int,
        new_codes: np.ndarray | None,
        *arguments: Any,
        of_each: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Results of an operation on all blocks, in their order; ``of_each`` has a last argument for each."""

    @abstractmethod
    def fork(self) -> Blocks:
        """The same rows for another chain."""


class LocalBlocks(Blocks):
    """Blocks of this process, in threads; rows may be mapped from a file."""

    def __init__(self, rows: Sequence[Rows], samples: Sequence[np.ndarray]) -> None:
        self.rows, self.samples, self.n_rows = rows, samples, sum(map(len, rows))
        self.n_threads = min(len(rows), joblib.cpu_count())
        self.states = [start(len(some), sample) for some, sample in zip(rows, samples, strict=True)]

    def run(
        self,
        operation: Operation,
        seed: int,
        new_codes: np.ndarray | None,
        *arguments: Any,
        of_each: Sequence[Any] | None = None,
    ) -> list[Any]:
        def of_block(index: int) -> Any:
            given = arguments if of_each is None else (*arguments, of_each[index])
            self.states[index], result = operate(
                operation, self.states[index], self.rows[index], (seed, index), new_codes, given
            )
            return result

        if self.n_threads == 1:
            return list(map(of_block, range(len(self.rows))))
        with ThreadPoolExecutor(self.n_threads) as threads:
            return list(threads.map(of_block, range(len(self.rows))))

    def fork(self) -> LocalBlocks:
        return LocalBlocks(self.rows, self.samples)


def samples_of(rows: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Places of ascending row numbers (m,) in blocks of these lengths, those of each block."""
    edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    cuts = np.searchsorted(rows, edges)
    return [rows[cuts[i] : cuts[i + 1]] - edges[i] for i in range(len(lengths))]


class ChainRows:
    """The rows as one chain sees them: all in blocks, and those of the sample at hand.

    Which rows are in the sample does not depend on the partition, so that proposals may look at it.
    """

    def __init__(self, blocks: Blocks, sample: Rows) -> None:
        self.blocks, self.sample = blocks, sample
        self.new_codes: np.ndarray | None = None  # what the blocks have yet to be told

    @classmethod
    def in_memory(cls, rows: Rows, labels: np.ndarray | None = None) -> ChainRows:
        """Rows in one block, all in the sample; they are one cluster if ``labels`` (n,) are not given."""
        blocks = LocalBlocks([rows], [np.arange(len(rows))])
        if labels is not None:
            blocks.states[0] = replace(blocks.states[0], codes=(2 * labels).astype(np.int32))
        return cls(blocks, rows)

    @property
    def n_rows(self) -> int:
        """Number of rows of all blocks."""
        return self.blocks.n_rows

    @property
    def all_at_hand(self) -> bool:
        """Whether all rows are in the sample."""
        return len(self.sample) == self.n_rows

    def rename(self, new_codes: np.ndarray) -> None:
        """Give all rows the code that ``new_codes`` (2 K,) has in the place of their own."""
        new_codes = new_codes.astype(np.int32)
        self.new_codes = new_codes if self.new_codes is None else new_codes[self.new_codes]

    def rename_clusters(self, names: np.ndarray) -> None:
        """Give all rows the label that ``names`` (K,) has in the place of their own; sides stay."""
        self.rename(np.repeat(2 * names, 2) + np.tile([0, 1], len(names)))

    def run(
        self, operation: Operation, seed: int, *arguments: Any, of_sample: np.ndarray | None = None
    ) -> list[Any]:
        """Results of an operation on all blocks; each gets its part of values ``of_sample`` (m,)."""
        new_codes, self.new_codes = self.new_codes, None
        of_each = None
        if of_sample is not None:
            of_each = np.split(of_sample, np.cumsum([len(some) for some in self.blocks.samples])[:-1])
        return self.blocks.run(operation, seed, new_codes, *arguments, of_each=of_each)
