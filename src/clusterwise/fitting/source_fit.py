"""``fit`` for more rows than memory: a sample is clustered, and all rows are held against the result.

    survey    one pass: every number is checked, and a sample of rows is chosen by their numbers
    cluster   the sample is clustered as data in memory are
    review    one pass: every row is assigned; sizes of the clusters, and rows that need a closer look

A closer look is taken at rows that lie far from all clusters, and at clusters that have few rows in the
sample. If these hold groups that lie apart (``find_groups``), the sample was too small to show them. Their
rows are added to it, and it is clustered and reviewed again. That they were chosen with more than their
share is undone in the mixing weights of the clusters, and in P(K), see
``uncertainty.log_sampling_correction``. The likelihood needs no correction: to choose rows by where they
lie changes how large clusters are in the sample, not what they look like.

Every pass is a map over batches and a sum, a minimum or a choice over small results: it may run elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from clusterwise.fitting.protocol import AssignedRows, Assigner, Clustering, Method, Progress, assign_rows
from clusterwise.neighbours import CORE_NEIGHBOUR, fit_projection, nearest
from clusterwise.rows import Batch, RowSource
from clusterwise.rows.batches import Chosen, OnFeatures, choose_rows, lowest, max_key, random_keys, stack
from clusterwise.rows.sorted_rows import Origin, SortedRows, sort_rows

__all__ = ["AssignFeatures", "Reader", "SourceFit", "find_groups", "fit_source", "survey"]

# Rows far out that are looked at closely; a row is far if its outlier score is above this.
MAX_OUTLYING, FAR = 5_000, 0.9
# Clusters with fewer rows in the sample are looked at closely, with this many of their rows.
FEW_ROWS, ROWS_OF_FEW = 100, 200
# Share of the sample that rows of missed groups may take, and how often they are looked for.
SHARE_OF_GROUPS, MAX_ROUNDS = 0.2, 3

# Rows that are among each other's nearest neighbours, this many, are connected.
N_NEIGHBOURS = 10
# Fewer rows are no group, whatever room there is around them.
MIN_GROUP = 10
# A group lies apart: from all but so few of its rows the way to others is this many times that within it.
APART = 2.0
FEW_CLOSE = 2


class Reader(Protocol):
    """Turns batches of a source into numbers, perhaps as it has learned from a sample of them."""

    @property
    def is_fitted(self) -> bool:
        """Whether it can read batches already."""

    def fit(self, sample: Any) -> Reader:
        """One that can read batches, by rows as the source has them."""

    def __call__(self, batch: Batch) -> np.ndarray:
        """Numbers (m, d) of a batch, all finite."""


@dataclass(frozen=True)
class AssignFeatures:
    """What is written down of rows of features (n, f), which are some of ``n_rows``."""

    assigner: Assigner
    n_rows: int

    def __call__(self, features: np.ndarray) -> AssignedRows:
        """See ``Assigner.assign``."""
        return self.assigner.assign(features, self.n_rows)


@dataclass(frozen=True)
class SampleFit:
    """A clustering of a sample of the rows of a source."""

    reader: Reader
    sample: Chosen
    rows: SortedRows
    found: Clustering
    labels: np.ndarray  # (m,) of the sorted rows

    @property
    def labels_in_source(self) -> np.ndarray:
        """Labels (m,) of the rows in the order of the source."""
        return self.rows.in_input_order(self.labels)

    def features_of(self, chosen: Chosen) -> np.ndarray:
        """Features (m, f) of some rows of the source."""
        return self.rows.space.apply(self.reader(Batch(chosen.data, 0, "some rows", 0)))


@dataclass(frozen=True)
class SourceFit:
    """A clustering of a sample with what all rows say about it."""

    reader: Reader
    rows: SortedRows
    found: Clustering  # clusters that some row of the source prefers, in the order of their first rows
    labels: np.ndarray  # (m,) of the sorted rows of the sample, when all its clusters were in use
    proportions: np.ndarray  # (K,) of all rows


@dataclass(frozen=True)
class Survey:
    """The task of the first pass."""

    read: Reader | None  # None: tables are checked when they are prepared
    max_key: int
    seed: int

    def __call__(self, batch: Batch) -> tuple[int, Chosen]:
        """Number of rows, and those that may be in the sample."""
        if self.read is not None:
            self.read(batch)
        keys = random_keys(np.arange(batch.start, batch.start + len(batch)), self.seed)
        places = np.flatnonzero(keys <= np.uint64(self.max_key))
        return len(batch), choose_rows(batch, places, keys[places])


@dataclass(frozen=True)
class Closer:
    """Rows to look at closely, with a number for each."""

    chosen: Chosen
    values: np.ndarray  # (m,) outlier scores, or labels

    def join(self, other: Closer, max_rows: int) -> Closer:
        """Both, or those with the lowest keys."""
        if len(other.chosen) == 0:
            return self
        rows = np.concatenate([self.chosen.rows, other.chosen.rows])
        values = np.concatenate([self.values, other.values])
        chosen = lowest([self.chosen, other.chosen], max_rows)
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
            self.outlying.join(other.outlying, MAX_OUTLYING),
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

    assign: Callable[[Batch], AssignedRows]
    threshold: float  # of outlier scores
    max_keys: np.ndarray  # (K,) keys of rows of each cluster that are looked at
    seed: int

    def __call__(self, batch: Batch) -> Reviewed:
        """Sizes of the clusters, and rows that need a closer look."""
        labels, _, scores = self.assign(batch)
        k = len(self.max_keys)
        first = first_rows(labels, batch.start, k)
        outlying = np.flatnonzero(scores > self.threshold)
        keys = random_keys(batch.start + outlying, self.seed)
        kept = np.sort(np.argsort(keys, kind="stable")[:MAX_OUTLYING])
        some = outlying[kept]
        of_few = np.flatnonzero((self.max_keys > 0)[labels])
        keys_of_few = random_keys(batch.start + of_few, self.seed)
        low = keys_of_few <= self.max_keys[labels[of_few]]
        of_few = of_few[low]
        return Reviewed(
            np.bincount(labels, minlength=k),
            first,
            len(outlying),
            Closer(choose_rows(batch, some, keys[kept]), scores[some]),
            Closer(choose_rows(batch, of_few, keys_of_few[low]), labels[of_few]),
        )


def survey(source: RowSource, read: Reader | None, max_rows: int, seed: int, progress: Progress) -> Chosen:
    """Check all rows and choose at most ``max_rows`` of them."""
    n = source.n_rows
    task = Survey(read, max_key(max_rows, n), seed)
    parts, done = [], 0
    for count, chosen in source.map(task):
        parts.append(chosen)
        done += count
        progress("reading rows", done, n)
    return lowest(parts, max_rows)


def fit_source(source: RowSource, reader: Reader, method: Method, seed: int, progress: Progress) -> SourceFit:
    """Cluster a sample of the rows, and look in all rows for what it lacks."""
    uniform = survey(source, reader if reader.is_fitted else None, method.max_rows, seed, progress)
    sample, weights = uniform, None
    added: list[Strata] = []
    for round_number in range(MAX_ROUNDS):
        fitted = _fit_sample(source, reader, sample, weights, method, seed, progress)
        reviewed = _review(source, fitted, seed + 1, progress)
        if method.sees_all_rows or len(sample) >= source.n_rows or round_number == MAX_ROUNDS - 1:
            break
        missed = _missed(fitted, reviewed, int(SHARE_OF_GROUPS * method.max_rows))
        if missed is None:
            break
        added.append(missed)
        sample, weights = _enlarged(uniform, added, source.n_rows, method.max_rows)
    in_use = np.argsort(reviewed.first, kind="stable")[: np.count_nonzero(reviewed.counts)]
    return SourceFit(
        fitted.reader,
        fitted.rows,
        fitted.found.select(in_use),
        fitted.labels,
        reviewed.counts[in_use] / reviewed.counts.sum(),
    )


def _fit_sample(
    source: RowSource,
    reader: Reader,
    sample: Chosen,
    weights: np.ndarray | None,
    method: Method,
    seed: int,
    progress: Progress,
) -> SampleFit:
    """Cluster a sample; each row stands for as many rows as ``weights`` (m,) say, None: all for as many."""
    reader = reader.fit(sample.data)
    points = reader(Batch(sample.data, 0, "the sample", 0)).astype(np.float64)
    rows = sort_rows(points, method.fit_space, Origin(source, reader, sample.rows, weights))
    (found,) = method.cluster([rows], seed, progress)
    rows, found, membership = assign_rows(rows, found)
    if rows.weights is not None:
        found = found.with_mixing_weights(rows.features, rows.weights)
    return SampleFit(reader, sample, rows, found, membership.argmax(axis=1))


def _review(source: RowSource, fitted: SampleFit, seed: int, progress: Progress) -> Reviewed:
    n, k, labels = source.n_rows, fitted.found.n_clusters, fitted.labels_in_source
    origin, assigner = fitted.rows.origin, fitted.found.assigner
    stand_for = np.bincount(labels, None if origin is None else origin.weights, minlength=k)
    sizes = n * stand_for / stand_for.sum()
    max_keys = np.array([max_key(ROWS_OF_FEW, int(size)) for size in sizes], dtype=np.uint64)
    max_keys[np.bincount(labels, minlength=k) >= FEW_ROWS] = 0
    assign = OnFeatures(fitted.reader, fitted.rows.space, AssignFeatures(assigner, n))
    total: Reviewed | None = None
    done = 0
    for one in source.map(Review(assign, assigner.outlying, max_keys, seed)):
        done += int(one.counts.sum())
        progress("assigning rows", done, n)
        total = one if total is None else total.join(one)
    assert total is not None  # the survey found rows
    return total


@dataclass(frozen=True)
class Strata:
    """Rows of groups that the sample lacks, in place of those that it has of the same kind."""

    chosen: Chosen
    stand_for: np.ndarray  # (m,) how many rows each of them stands for
    replaced: np.ndarray  # rows of the sample that belong to the same part of the data


def _missed(fitted: SampleFit, reviewed: Reviewed, max_rows: int) -> Strata | None:
    """Groups apart from all clusters, and clusters that fall apart, at most ``max_rows`` rows of them."""
    found: list[tuple[Chosen, float]] = []
    replaced = [np.empty(0, dtype=np.int64)]
    outlying = reviewed.outlying
    if len(outlying.chosen) > 0:
        features = fitted.features_of(outlying.chosen)
        share = reviewed.n_outlying / len(outlying.chosen)
        for group in find_groups(features, outlying.values > FAR, fitted.rows.features):
            found.append((outlying.chosen.take(group), share))
    of_few = reviewed.of_few
    for cluster in np.unique(of_few.values):
        members = np.flatnonzero(of_few.values == cluster)
        rows = of_few.chosen.take(members)
        features = fitted.features_of(rows)
        groups = find_groups(features, np.ones(len(members), dtype=bool), fitted.rows.features[:0])
        if len(groups) > 1:
            found += [(rows.take(group), reviewed.counts[cluster] / len(members)) for group in groups]
            replaced.append(fitted.sample.rows[fitted.labels_in_source == cluster])
    if not found:
        return None
    each = max(1, max_rows // len(found))
    parts = [(rows.take(np.arange(min(each, len(rows)))), share * len(rows)) for rows, share in found]
    stand_for = [np.full(len(rows), size / len(rows)) for rows, size in parts]
    return Strata(stack([rows for rows, _ in parts]), np.concatenate(stand_for), np.concatenate(replaced))


def _enlarged(uniform: Chosen, added: list[Strata], n_rows: int, max_rows: int) -> tuple[Chosen, np.ndarray]:
    """The sample with rows of groups in place of some others, and how many rows each stands for."""
    groups = stack([one.chosen for one in added])
    stand_for = np.concatenate([one.stand_for for one in added])
    # Of rows that were added twice the last time counts.
    last = len(groups) - 1 - np.unique(groups.rows[::-1], return_index=True)[1]
    gone = np.concatenate([groups.rows, *[one.replaced for one in added]])
    last = last[~np.isin(groups.rows[last], np.concatenate([one.replaced for one in added]))]
    groups, stand_for = groups.take(last), stand_for[last]
    others = np.flatnonzero(~np.isin(uniform.rows, gone))
    others = np.sort(others[np.argsort(uniform.keys[others], kind="stable")[: max_rows - len(groups)]])
    rest = max(n_rows - float(stand_for.sum()), float(len(others))) / max(1, len(others))
    weights = np.concatenate([np.full(len(others), rest), stand_for])
    return stack([uniform.take(others), groups]), weights


# -- groups among rows that lie far from all clusters: small ones that an even choice of rows has missed ---


def find_groups(features: np.ndarray, far: np.ndarray, known: np.ndarray) -> list[np.ndarray]:
    """Groups among outlying rows, as positions in ``features``, the largest first.

    ``features`` (m, f) are those of rows to look at, ``far`` (m,) bool tells which of them are out of place,
    and ``known`` (s, f) has some rows of all kinds, or none. A group is a connected part of the graph of
    mutual nearest neighbours of which most rows are far, with a gap around it. The tail of a cluster goes on
    to it without a gap, and single rows have no neighbours.
    """
    if np.count_nonzero(far) < MIN_GROUP or len(features) <= N_NEIGHBOURS:
        return []
    projection = fit_projection(known if len(known) > 0 else features)
    points, known = projection.apply(features), projection.apply(known)
    indices, distances = nearest(points, points, N_NEIGHBOURS + 1)
    core = distances[:, CORE_NEIGHBOUR]
    parts = _with_surroundings(points, _parts_of_mutual_graph(indices), core)
    to_known = nearest(points, known, 1)[1][:, 0] if len(known) > 0 else np.full(len(points), np.inf)
    groups = []
    for part in range(parts.max() + 1):
        inside = parts == part
        members = np.flatnonzero(inside)
        alone = inside.all() and len(known) == 0  # there is nothing that it could lie apart from
        if alone or far[members].mean() <= 0.5:
            continue
        room = to_known[members]
        if not inside.all():
            room = np.minimum(room, nearest(points[members], points[~inside], 1)[1][:, 0])
        if np.partition(room, FEW_CLOSE)[FEW_CLOSE] > APART * np.median(core[members]):
            groups.append(members)
    return sorted(groups, key=lambda group: (-len(group), group[0]))


def _with_surroundings(points: np.ndarray, parts: np.ndarray, core: np.ndarray) -> np.ndarray:
    """Number the large parts, and let rows near one of them join it, (m,); -1 for single rows.

    At the edge of a group in many dimensions most rows are no row's nearest neighbour.
    """
    large = np.flatnonzero(np.bincount(parts) >= MIN_GROUP)
    result = np.full(len(parts), -1)
    for number, part in enumerate(large):
        result[parts == part] = number
    inside, outside = np.flatnonzero(result >= 0), np.flatnonzero(result < 0)
    if len(inside) > 0 and len(outside) > 0:
        found, distances = nearest(points[outside], points[inside], 1)
        host = result[inside[found[:, 0]]]
        typical = np.array([np.median(core[result == number]) for number in range(len(large))])
        joins = distances[:, 0] <= APART * typical[host]
        result[outside[joins]] = host[joins]
    return result


def _parts_of_mutual_graph(indices: np.ndarray) -> np.ndarray:
    """Connected parts (m,) of rows of which each is among the other's neighbours (m, j)."""
    m, j = indices.shape
    graph = csr_array((np.ones(m * j), indices.ravel(), np.arange(0, m * j + 1, j)), shape=(m, m))
    mutual = graph.multiply(graph.T)
    return np.asarray(connected_components(mutual, directed=False)[1])
