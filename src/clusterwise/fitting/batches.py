"""``fit`` for more rows than memory: a sample goes through the stages, all rows are held against the result.

    survey    one pass: every number is checked, and a sample of rows is chosen by their numbers
    fit       the sample goes through prepare, propose, refine and describe, as data in memory do
    review    one pass: every row is labelled; sizes of the clusters, and rows that need a closer look

A closer look is taken at rows that lie far from all clusters, and at clusters that have few rows in the
sample. If these hold groups that lie apart, the sample was too small to show them. Their rows are added to
it, and fit and review are done again. That they were chosen with more than their share is undone in the
shares of the clusters, and in P(K), see ``posterior.log_of_choice``. The likelihood needs no correction: to
choose rows by where they lie changes how large clusters are in the sample, not what they look like.

Every pass is a map over batches and a sum, a minimum or a choice over small results: it may run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from clusterwise.fitting.groups import find_groups
from clusterwise.gaussian.quick import LabelledRows
from clusterwise.rows import Batch, RowSource
from clusterwise.rows.sampling import Chosen, choose_rows, largest_key, lowest, random_keys, stack

__all__ = ["Fitted", "Progress", "Result", "first_rows", "fit_batches", "survey"]

# Rows far out that are looked at closely; a row is far if its outlier score is above this.
MOST_OUTLYING, FAR = 5_000, 0.9
# Clusters with fewer rows in the sample are looked at closely, with this many of their rows.
FEW_ROWS, ROWS_OF_FEW = 100, 200
# Share of the sample that rows of missed groups may take, and how often they are looked for.
SHARE_OF_GROUPS, MOST_ROUNDS = 0.2, 3

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

    @property
    def labels(self) -> np.ndarray:
        """Labels (m,) of the sample in its order."""

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
class Closer:
    """Rows to look at closely, with a number for each."""

    chosen: Chosen
    values: np.ndarray  # (m,) outlier scores, or labels

    def join(self, other: Closer, most: int) -> Closer:
        """Both, or those with the lowest keys."""
        if len(other.chosen) == 0:
            return self
        rows = np.concatenate([self.chosen.rows, other.chosen.rows])
        values = np.concatenate([self.values, other.values])
        chosen = lowest([self.chosen, other.chosen], most)
        order = np.argsort(rows, kind="stable")
        return Closer(chosen, values[order[np.searchsorted(rows, chosen.rows, sorter=order)]])


@dataclass(frozen=True)
class Reviewed:
    """What is kept of a batch in the second pass."""

    counts: np.ndarray  # (K,)
    first: np.ndarray  # (K,) number of the first row of each cluster
    n_outlying: int
    outlying: Closer  # some of these rows, with their scores
    of_few: Closer  # some rows of clusters with few rows in the sample, with their labels

    def join(self, other: Reviewed) -> Reviewed:
        """What is kept of two batches."""
        return Reviewed(
            self.counts + other.counts,
            np.minimum(self.first, other.first),
            self.n_outlying + other.n_outlying,
            self.outlying.join(other.outlying, MOST_OUTLYING),
            self.of_few.join(other.of_few, ROWS_OF_FEW * len(self.counts)),
        )


def first_rows(labels: np.ndarray, start: int, n_clusters: int) -> np.ndarray:
    """Number of the first row of each cluster, (K,), of rows from ``start`` on with labels (m,)."""
    first = np.full(n_clusters, np.iinfo(np.int64).max)
    for cluster in range(n_clusters):
        is_member = labels == cluster
        if is_member.any():
            first[cluster] = start + int(is_member.argmax())
    return first


@dataclass(frozen=True)
class Review:
    """The task of the second pass."""

    label: Callable[[Batch], LabelledRows]
    threshold: float  # of outlier scores
    largest: np.ndarray  # (K,) keys of rows of each cluster that are looked at
    seed: int

    def __call__(self, batch: Batch) -> Reviewed:
        """Sizes of the clusters, and rows that need a closer look."""
        labels, _, scores = self.label(batch)
        k = len(self.largest)
        first = first_rows(labels, batch.start, k)
        outlying = np.flatnonzero(scores > self.threshold)
        keys = random_keys(batch.start + outlying, self.seed)
        kept = np.sort(np.argsort(keys, kind="stable")[:MOST_OUTLYING])
        some = outlying[kept]
        of_few = np.flatnonzero((self.largest > 0)[labels])
        keys_of_few = random_keys(batch.start + of_few, self.seed)
        low = keys_of_few <= self.largest[labels[of_few]]
        of_few = of_few[low]
        return Reviewed(
            np.bincount(labels, minlength=k),
            first,
            len(outlying),
            Closer(choose_rows(batch, some, keys[kept]), scores[some]),
            Closer(choose_rows(batch, of_few, keys_of_few[low]), labels[of_few]),
        )


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

    ``fit`` takes rows as the source has them, and how many rows each stands for; it returns a ``Fitted``.
    """
    uniform = survey(source, read, most, seed, progress)
    sample: Chosen = uniform
    weights: np.ndarray | None = None
    added: list[Strata] = []
    for round_number in range(MOST_ROUNDS):
        progress("clustering a sample", 0, len(sample))
        fitted = fit(sample.data, weights)
        reviewed = _review(source, fitted, weights, seed + 1, progress)
        if len(sample) >= source.n_rows or round_number == MOST_ROUNDS - 1:
            break
        missed = _missed(fitted, sample, reviewed, int(SHARE_OF_GROUPS * most))
        if missed is None:
            break
        added.append(missed)
        sample, weights = _enlarged(uniform, added, source.n_rows, most)
    in_use = np.argsort(reviewed.first, kind="stable")[: np.count_nonzero(reviewed.counts)]
    shares = reviewed.counts[in_use] / reviewed.counts.sum()
    return Result(fitted, weights, shares, in_use, sample.rows)


def _review(
    source: RowSource, fitted: Fitted, weights: np.ndarray | None, seed: int, progress: Progress
) -> Reviewed:
    n, k = source.n_rows, fitted.n_clusters
    counts = np.bincount(fitted.labels, minlength=k)
    stand_for = np.bincount(fitted.labels, weights, minlength=k)
    sizes = n * stand_for / stand_for.sum()
    largest = np.array([largest_key(ROWS_OF_FEW, int(size)) for size in sizes], dtype=np.uint64)
    largest[counts >= FEW_ROWS] = 0
    task = Review(fitted.label, fitted.outlying, largest, seed)
    total: Reviewed | None = None
    done = 0
    for one in source.map(task):
        done += int(one.counts.sum())
        progress("reviewing", done, n)
        total = one if total is None else total.join(one)
    assert total is not None  # the survey found rows
    return total


@dataclass(frozen=True)
class Strata:
    """Rows of groups that the sample lacks, in place of those that it has of the same kind."""

    chosen: Chosen
    stand_for: np.ndarray  # (m,) how many rows each of them stands for
    replaced: np.ndarray  # rows of the sample that belong to the same part of the data


def _missed(fitted: Fitted, sample: Chosen, reviewed: Reviewed, most: int) -> Strata | None:
    """Groups apart from all clusters, and clusters that fall apart, at most ``most`` rows of them."""
    found: list[tuple[Chosen, float]] = []
    replaced = [np.empty(0, dtype=np.int64)]
    outlying = reviewed.outlying
    if len(outlying.chosen) > 0:
        features = fitted.features_of(outlying.chosen.data)
        share = reviewed.n_outlying / len(outlying.chosen)
        for group in find_groups(features, outlying.values > FAR, fitted.features):
            found.append((outlying.chosen.take(group), share))
    of_few = reviewed.of_few
    for cluster in np.unique(of_few.values):
        members = np.flatnonzero(of_few.values == cluster)
        rows = of_few.chosen.take(members)
        features = fitted.features_of(rows.data)
        groups = find_groups(features, np.ones(len(members), dtype=bool), fitted.features[:0])
        if len(groups) > 1:
            found += [(rows.take(group), reviewed.counts[cluster] / len(members)) for group in groups]
            replaced.append(sample.rows[fitted.labels == cluster])
    if not found:
        return None
    each = max(1, most // len(found))
    parts = [(rows.take(np.arange(min(each, len(rows)))), share * len(rows)) for rows, share in found]
    stand_for = [np.full(len(rows), size / len(rows)) for rows, size in parts]
    return Strata(stack([rows for rows, _ in parts]), np.concatenate(stand_for), np.concatenate(replaced))


def _enlarged(uniform: Chosen, added: list[Strata], n_rows: int, most: int) -> tuple[Chosen, np.ndarray]:
    """The sample with rows of groups in place of some others, and how many rows each stands for."""
    groups = stack([one.chosen for one in added])
    stand_for = np.concatenate([one.stand_for for one in added])
    # Of rows that were added twice the last time counts.
    last = len(groups) - 1 - np.unique(groups.rows[::-1], return_index=True)[1]
    gone = np.concatenate([groups.rows, *[one.replaced for one in added]])
    last = last[~np.isin(groups.rows[last], np.concatenate([one.replaced for one in added]))]
    groups, stand_for = groups.take(last), stand_for[last]
    others = np.flatnonzero(~np.isin(uniform.rows, gone))
    others = np.sort(others[np.argsort(uniform.keys[others], kind="stable")[: most - len(groups)]])
    rest = max(n_rows - float(stand_for.sum()), float(len(others))) / max(1, len(others))
    weights = np.concatenate([np.full(len(others), rest), stand_for])
    return stack([uniform.take(others), groups]), weights
