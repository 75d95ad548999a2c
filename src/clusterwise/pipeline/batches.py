"""``fit`` for more rows than memory: a sample goes through the stages, and all rows are held against the result.

    survey    one pass: every number is checked, and a sample of rows is chosen by their numbers
    fit       the sample goes through prepare, propose, refine and describe, as data in memory do
    review    one pass: every row is labelled; sizes of the clusters, first rows, and rows that lie far out

If the rows far out hold groups, these are clusters that the sample was too small to show. Their rows are added
to it, the fit and the review are done again, and what the rows were chosen with more than their share is undone
in the shares of the clusters. The number of clusters needs no such correction: to choose rows by where they lie
changes how large clusters are in the sample, not how many there are.

Every pass is a map over batches and a sum, minimum or choice over small results, so that it may run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from clusterwise.components.quick import LabelledRows
from clusterwise.pipeline.groups import find_groups
from clusterwise.sources import Batch, RowSource
from clusterwise.sources.rows import stack_rows, take_rows
from clusterwise.sources.sampling import Chosen, choose_rows, largest_key, lowest, random_keys

__all__ = ["Fitted", "Progress", "Result", "fit_batches"]

# Rows far out that are looked at closely; a row is far if its outlier score is above this.
MOST_OUTLYING, FAR = 5_000, 0.9
# Share of the sample that rows of missed groups may take, and how often they are looked for.
SHARE_OF_GROUPS, MOST_ROUNDS = 0.1, 3

# Hears of the rows that a pass has done: its name, the rows so far, the rows altogether.
Progress = Callable[[str, int, int], object]


class Fitted(Protocol):
    """What a fit of a sample gives."""

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""

    @property
    def outlying(self) -> float:
        """Outlier score above which a row is not an ordinary one."""

    @property
    def features(self) -> np.ndarray:
        """Features (m, f) of the sample in its order."""

    def label(self, batch: Batch) -> LabelledRows:
        """Label all rows of a batch."""

    def features_of(self, data: Any) -> np.ndarray:
        """Features (m, f) of rows as the source has them."""


@dataclass(frozen=True)
class Survey:
    """The task of the first pass."""

    read: Callable[[Batch], np.ndarray] | None  # None: tables are checked when they are prepared
    largest: int  # key
    seed: int

    def __call__(self, batch: Batch) -> tuple[int, Chosen]:
        """Number of rows, and those that may be in the sample."""
        if self.read is not None:
            self.read(batch)
        keys = random_keys(np.arange(batch.start, batch.start + len(batch)), self.seed)
        places = np.flatnonzero(keys <= np.uint64(self.largest))
        return len(batch), choose_rows(batch, places, keys[places])


@dataclass(frozen=True)
class Reviewed:
    """What is kept of one batch in the second pass."""

    counts: np.ndarray  # (K,)
    first: np.ndarray  # (K,) number of the first row of each cluster
    n_outlying: int
    outlying: Chosen  # some of these rows
    scores: np.ndarray  # of these


@dataclass(frozen=True)
class Review:
    """The task of the second pass."""

    label: Callable[[Batch], LabelledRows]
    n_clusters: int
    threshold: float
    seed: int

    def __call__(self, batch: Batch) -> Reviewed:
        """Sizes of the clusters, and rows that lie far out."""
        labels, _, scores = self.label(batch)
        k = self.n_clusters
        first = np.full(k, np.iinfo(np.int64).max)
        found, places = np.unique(labels, return_index=True)
        first[found] = batch.start + places
        outlying = np.flatnonzero(scores > self.threshold)
        keys = random_keys(batch.start + outlying, self.seed)
        kept = np.sort(np.argsort(keys, kind="stable")[:MOST_OUTLYING])
        some = choose_rows(batch, outlying[kept], keys[kept])
        return Reviewed(np.bincount(labels, minlength=k), first, len(outlying), some, scores[outlying[kept]])


@dataclass(frozen=True)
class Result:
    """The last fit with what all rows say about it."""

    fitted: Any
    weights: np.ndarray | None  # (m,) how many rows each row of the sample stands for; None: all for as many
    shares: np.ndarray  # (K,) of all rows, of the clusters in use
    in_use: np.ndarray  # (K,) clusters that some row prefers, in the order of their first rows
    rows: np.ndarray  # (m,) numbers of the rows of the sample


def survey(
    source: RowSource,
    read: Callable[[Batch], np.ndarray] | None,
    most: int,
    seed: int,
    progress: Progress,
) -> Chosen:
    """Check all rows and choose at most ``most`` of them."""
    n = source.n_rows
    task = Survey(read, largest_key(most, n), seed)
    parts, done = [], 0
    for count, chosen in source.map(task):
        parts.append(chosen)
        done += count
        progress("reading", done, n)
    return lowest(parts, most)


def fit_batches(
    source: RowSource,
    read: Callable[[Batch], np.ndarray] | None,
    fit: Callable[[Any, np.ndarray | None], Any],
    most: int,
    seed: int,
    progress: Progress = lambda *_: None,
) -> Result:
    """Fit a sample of at most ``most`` rows, and look in all rows for what it lacks.

    ``fit`` takes rows as the source has them and how many rows each of them stands for; it returns a ``Fitted``.
    """
    uniform = survey(source, read, most, seed, progress)
    sample: Chosen = uniform
    weights: np.ndarray | None = None
    added: list[Chosen] = []
    shares: list[float] = []
    for round_number in range(MOST_ROUNDS):
        fitted = fit(sample.data, weights)
        reviewed = _review(source, fitted, seed + 1, progress)
        if len(sample) >= source.n_rows or round_number == MOST_ROUNDS - 1:
            break
        groups = _missed_groups(fitted, reviewed, int(SHARE_OF_GROUPS * most))
        if groups is None:
            break
        added.append(groups)
        shares.append(reviewed.n_outlying / max(1, len(reviewed.outlying)))
        sample, weights = _enlarged(uniform, added, shares, source.n_rows, most)
    in_use = np.argsort(reviewed.first, kind="stable")[: np.count_nonzero(reviewed.counts)]
    return Result(fitted, weights, reviewed.counts[in_use] / reviewed.counts.sum(), in_use, sample.rows)


def _review(source: RowSource, fitted: Fitted, seed: int, progress: Progress) -> Reviewed:
    task = Review(fitted.label, fitted.n_clusters, fitted.outlying, seed)
    total: Reviewed | None = None
    done = 0
    for one in source.map(task):
        done += int(one.counts.sum())
        progress("reviewing", done, source.n_rows)
        total = one if total is None else _sum(total, one)
    assert total is not None  # a survey found rows
    return total


def _sum(one: Reviewed, other: Reviewed) -> Reviewed:
    chosen, scores = one.outlying, one.scores
    if len(other.outlying) > 0:
        by_row = dict(zip(one.outlying.rows.tolist(), one.scores, strict=True))
        by_row |= dict(zip(other.outlying.rows.tolist(), other.scores, strict=True))
        chosen = lowest([one.outlying, other.outlying], MOST_OUTLYING)
        scores = np.array([by_row[row] for row in chosen.rows.tolist()])
    return Reviewed(
        one.counts + other.counts,
        np.minimum(one.first, other.first),
        one.n_outlying + other.n_outlying,
        chosen,
        scores,
    )


def _missed_groups(fitted: Fitted, reviewed: Reviewed, most: int) -> Chosen | None:
    """Rows of groups that lie apart from all clusters, at most so many, evenly from the groups."""
    if len(reviewed.outlying) == 0:
        return None
    features = fitted.features_of(reviewed.outlying.data)
    groups = find_groups(features, reviewed.scores > FAR, fitted.features)
    if not groups:
        return None
    each = max(1, most // len(groups))
    kept = np.sort(np.concatenate([group[:each] for group in groups])[:most])
    chosen = reviewed.outlying
    return Chosen(take_rows(chosen.data, kept), chosen.rows[kept], chosen.keys[kept])


def _enlarged(
    uniform: Chosen, added: list[Chosen], shares: list[float], n_rows: int, most: int
) -> tuple[Chosen, np.ndarray]:
    """The sample with rows of groups in place of some others, and what each row stands for."""
    rows = np.concatenate([one.rows for one in added])
    stand_for = np.concatenate([np.full(len(one), share) for one, share in zip(added, shares, strict=True)])
    rows, first = np.unique(rows, return_index=True)
    data = take_rows(stack_rows([one.data for one in added]), first)
    others = np.flatnonzero(~np.isin(uniform.rows, rows))
    others = np.sort(others[np.argsort(uniform.keys[others], kind="stable")[: most - len(rows)]])
    rest = max(n_rows - float(stand_for[first].sum()), float(len(others))) / max(1, len(others))
    weights = np.concatenate([np.full(len(others), rest), stand_for[first]])
    both = stack_rows([take_rows(uniform.data, others), data])
    numbers = np.concatenate([uniform.rows[others], rows])
    keys = np.zeros(len(numbers), dtype=np.uint64)
    return Chosen(both, numbers, keys), weights
