"""Text and figures of a report, as plain values that the template prints: no HTML and no pictures here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clusterwise.metrics import matched_accuracy
from clusterwise.plotting.plane import cluster_colour
from clusterwise.tables.columns import Column
from clusterwise.tables.encoding import spread_of

__all__ = [
    "about_k",
    "agreement_with",
    "cluster_rows",
    "compare_clusters",
    "distinctive_columns",
    "headline",
    "largest_differences",
    "other_k",
    "outlying_rows",
    "show_number",
    "summary",
    "uncertain_rows",
]

MAX_COLUMNS = 6  # wider tables are not read
MAX_CLASSES = 30
MAX_WORD = 28  # letters
NOTHING = "–"
# Fewer rows than this say little about how many clusters there are.
FEW_ROWS = 20
# Other numbers of clusters that are less probable are not named.
MIN_NAMED = 0.05
CERTAIN = 0.9
OUTLYING = 0.5
# How many differences from the other rows are shown of a cluster, and which are too small, in spreads of the
# column; one between shares counts like so many spreads.
MAX_DIFFERENCES = 4
MIN_DIFFERENCE = 0.25
SPREADS_PER_SHARE = 3.0
# Medians have no more digits than matter: a hundredth of the spread or so.
SPREADS_PER_DIGIT = 10.0
N_BINS = 24
HEIGHT = 30  # of histograms, in pixels

# -- values -----------------------------------------------------------------------------------------


def show_number(value: float, spread: float | None = None) -> str:
    """A number with about four digits that tell something.

    ``spread`` is that of the values in the same column, which then all get the same digits after the point:
    431900.27 among values that differ by thousands needs few, 0.5 among values that differ by
    hundredths more.

    Examples
    --------
    >>> show_number(431_903.27, spread=2000.0), show_number(0.123456), show_number(3e-9)
    ('431,903', '0.1235', '3.000e-09')
    """
    if np.isnan(value):
        return NOTHING
    if not np.isfinite(value):
        return str(value)
    step = spread if spread else abs(value)
    if step != 0 and (step < 1e-4 or max(step, abs(value)) >= 1e9):
        return f"{value:.3e}"
    digits = 0 if step == 0 else max(0, 3 - math.floor(math.log10(step)))
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


@dataclass(frozen=True)
class _Shown:
    """A column with the spread that says how many digits its numbers get."""

    column: Column
    spread: float

    @classmethod
    def of(cls, column: Column) -> _Shown:
        """The spread of the numbers (n,); zero for words."""
        if column.kind == "words":
            return cls(column, 0.0)
        present = column.values[np.isfinite(column.values)]
        if len(present) == 0:
            return cls(column, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = np.quantile(present, [0.01, 0.99])
            return cls(column, float(high - low) or float(np.ptp(present)))

    def value(self, value: Any) -> str:
        """One value of the column."""
        if self.column.kind != "words":
            with np.errstate(over="ignore", invalid="ignore"):
                return show_number(float(value), self.spread)
        text = NOTHING if value is None else str(value)
        return text if len(text) <= MAX_WORD else f"{text[: MAX_WORD - 1]}…"

    def typical(self, labels: np.ndarray, n_clusters: int) -> list[str]:
        """The mean of each cluster's rows, or their most frequent category with its share."""
        present = ~self.column.missing
        values, members = self.column.values[present], labels[present]
        sizes = np.bincount(members, minlength=n_clusters)
        if self.column.kind == "words":
            levels, counts = _levels(values, members, n_clusters)
            best = counts.argmax(axis=0) if len(levels) else np.zeros(n_clusters, dtype=int)
            found = [
                f"{self.value(levels[best[k]])} ({_percent(counts[best[k], k] / sizes[k])})"
                if sizes[k]
                else ""
                for k in range(n_clusters)
            ]
        else:
            means = np.bincount(members, values / sizes[members], n_clusters)  # their sum may overflow
            found = [self.value(mean) for mean in means]
        return [text if size else NOTHING for text, size in zip(found, sizes, strict=True)]


def _levels(words: np.ndarray, labels: np.ndarray, n_clusters: int) -> tuple[list[str], np.ndarray]:
    """The different words (L,), sorted, and how many rows of each cluster have them, (L, K)."""
    levels = sorted(set(words))
    code_of = {level: code for code, level in enumerate(levels)}
    codes = np.array([code_of[word] for word in words], dtype=np.int64)
    counts = np.bincount(codes * n_clusters + labels, minlength=len(levels) * n_clusters)
    return levels, counts.reshape(len(levels), n_clusters)


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def _sizes(estimator: Any) -> np.ndarray:
    """Number of rows of each cluster, (K,)."""
    return np.bincount(np.asarray(estimator.labels_), minlength=int(estimator.n_clusters_))


# -- rows of tables ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterRow:
    """One line of the table of clusters."""

    label: int
    colour: str
    size: int
    share: float
    typical: tuple[str, ...]  # of each shown column: the mean, or the most frequent category
    confidence: float
    n_uncertain: int


@dataclass(frozen=True)
class PointRow:
    """One line of a table of rows: where it is, what it was called, and what else it might be."""

    row: int
    values: tuple[str, ...]
    label: int
    colour: str
    probability: float
    outlier_score: float
    second: int
    second_colour: str
    second_probability: float


def cluster_rows(estimator: Any, columns: Sequence[Column]) -> list[ClusterRow]:
    """For each cluster its size, its certainty and what is typical of it in some columns."""
    labels, probabilities = np.asarray(estimator.labels_), np.asarray(estimator.probabilities_)
    sizes = _sizes(estimator)
    k = len(sizes)
    typical = [_Shown.of(column).typical(labels, k) for column in columns]
    confidence = np.bincount(labels, probabilities, k) / np.maximum(sizes, 1)
    n_uncertain = np.bincount(labels[probabilities < CERTAIN], minlength=k)
    return [
        ClusterRow(
            label=label,
            colour=cluster_colour(label),
            size=size,
            share=size / len(labels),
            typical=tuple(of_column[label] for of_column in typical),
            confidence=float(confidence[label]),
            n_uncertain=int(n_uncertain[label]),
        )
        for label, size in enumerate(sizes.tolist())
    ]


def _point_row(estimator: Any, columns: Sequence[_Shown], row: int) -> PointRow:
    membership = np.asarray(estimator.membership_[row])
    label = int(estimator.labels_[row])
    # With a single cluster the second best is the first again; then no row is uncertain or shown so.
    second = int(np.argsort(-membership, kind="stable")[min(1, len(membership) - 1)])
    return PointRow(
        row=row,
        values=tuple(shown.value(shown.column.values[row]) for shown in columns),
        label=label,
        colour=cluster_colour(label),
        probability=float(estimator.probabilities_[row]),
        outlier_score=float(estimator.outlier_scores_[row]),
        second=second,
        second_colour=cluster_colour(second),
        second_probability=float(membership[second]),
    )


def uncertain_rows(estimator: Any, columns: Sequence[Column], count: int = 10) -> list[PointRow]:
    """The rows whose label is least sure, the least sure first; none that is as good as certain."""
    probabilities = np.asarray(estimator.probabilities_)
    order = np.argsort(probabilities, kind="stable")[:count]
    shown = [_Shown.of(column) for column in columns]
    return [_point_row(estimator, shown, int(row)) for row in order if probabilities[row] < CERTAIN]


def outlying_rows(estimator: Any, columns: Sequence[Column], count: int = 10) -> list[PointRow]:
    """The rows with the highest outlier scores, the highest first; none of an ordinary score."""
    scores = np.asarray(estimator.outlier_scores_)
    order = np.argsort(-scores, kind="stable")[:count]
    shown = [_Shown.of(column) for column in columns]
    return [_point_row(estimator, shown, int(row)) for row in order if scores[row] >= OUTLYING]


@dataclass(frozen=True)
class ClassAgreement:
    """Agreement of clusters with known classes."""

    ari: float
    accuracy: float
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...] | None  # (classes, clusters); None where the table would be too large


def agreement_with(y: Any, labels: np.ndarray) -> ClassAgreement:
    """The agreement of clusters with known classes (n,)."""
    known = np.asarray(y)
    names, classes = np.unique(known, return_inverse=True)
    counts, n_clusters = None, int(labels.max()) + 1
    if max(len(names), n_clusters) <= MAX_CLASSES:
        table = np.zeros((len(names), n_clusters), dtype=int)
        np.add.at(table, (classes, labels), 1)
        counts = tuple(tuple(row) for row in table.tolist())
    return ClassAgreement(
        ari=float(adjusted_rand_score(known, labels)),
        accuracy=matched_accuracy(known, labels),
        classes=tuple(str(name) for name in names),
        counts=counts,
    )


# -- sentences --------------------------------------------------------------------------------------


def about_k(estimator: Any, k_posterior: Mapping[int, float]) -> str:
    """A sentence on whether P(K) favours the number of clusters that was taken."""
    likeliest = max(k_posterior, key=lambda k: k_posterior[k])
    taken = int(estimator.n_clusters_)
    line = "The probability of each number of clusters; the number used in this report is in colour."
    if likeliest == taken:
        return line
    line = f"{line} It is not the likeliest one, which is {likeliest}"
    return f"{line}: {estimator._why_other_k(likeliest)[0]}." if hasattr(estimator, "_why_other_k") else line


def summary(estimator: Any, k_posterior: Mapping[int, float] | None) -> str:
    """A few sentences about what was found and how sure it is."""
    sizes = _sizes(estimator)
    n_clusters, n_rows = len(sizes), int(sizes.sum())
    if n_clusters == 1:
        text = f"The {n_rows:,} rows form one cluster: no division into several was better."
    else:
        text = f"The {n_rows:,} rows fall into {n_clusters} clusters. {_about_sizes(sizes)}"
    if n_rows < FEW_ROWS:
        text += f" With only {n_rows} row{'s' * (n_rows != 1)}, take this with caution."
    elif k_posterior:
        text += f" {_about_certainty(estimator, n_clusters, k_posterior)}"
    n_uncertain = int((np.asarray(estimator.probabilities_) < CERTAIN).sum())
    n_outlying = int((np.asarray(estimator.outlier_scores_) >= OUTLYING).sum())
    if n_clusters > 1:
        uncertain = "labels are" if n_uncertain > 1 else "label is"
        text += f" {_count(n_uncertain)} {uncertain} uncertain (probability below {CERTAIN}), and "
        text += f"{_count(n_outlying).lower()} {'rows lie' if n_outlying > 1 else 'row lies'} far from every "
        text += "cluster."
    return text


def _about_sizes(sizes: np.ndarray) -> str:
    """A sentence or two about the numbers of rows of the clusters (K,)."""
    n_rows, n_single = int(sizes.sum()), int((sizes == 1).sum())
    if sizes.min() == sizes.max():
        return f"Each has {sizes[0]:,} row{'s' * bool(sizes[0] != 1)}."
    largest = f"The largest has {sizes.max():,} rows ({_percent(sizes.max() / n_rows)}), "
    if n_single:
        single = "one is a single row" if n_single == 1 else f"{n_single} are single rows"
        return f"{largest}and {single}, perhaps an error in the data."
    return f"{largest}the smallest {sizes.min():,} ({_percent(sizes.min() / n_rows)})."


def _about_certainty(estimator: Any, n_clusters: int, k_posterior: Mapping[int, float]) -> str:
    """A sentence about how probable the number of clusters is, and which others are."""
    probability = k_posterior.get(n_clusters, 0.0)
    if hasattr(estimator, "sample_partitions"):
        how = "nearly certain" if probability > 0.95 else "likely" if probability > 0.5 else "uncertain"
        # Several Gaussians for one bent cluster may be certain, and yet not what anybody is looking for.
        given = ", given the assumptions that a warning questions" * bool(getattr(estimator, "misfits_", ()))
    else:  # one partition, and what another round of its training would make of it
        how, given = ("stable", "") if probability > 0.95 else ("uncertain", "")
    text = f"The number of clusters is {how}{given}: {n_clusters} has a probability of {probability:.2f}"
    others = sorted((k for k in k_posterior if k != n_clusters), key=lambda k: -k_posterior[k])
    above = [k for k in others if k_posterior[k] > probability]
    named = [f"{k} ({k_posterior[k]:.2f})" for k in (above or others)[:2] if k_posterior[k] >= MIN_NAMED]
    if not named:
        return f"{text}."
    one, several = ("more probable is", "more probable are") if above else ("next comes", "next come")
    return f"{text}; {several if len(named) > 1 else one} {' and '.join(named)}."


def other_k(estimator: Any, k_posterior: Mapping[int, float] | None) -> int:
    """Another number of clusters that is worth a look: the most probable one, or one more."""
    taken = int(estimator.n_clusters_)
    others = {k: p for k, p in (k_posterior or {}).items() if k != taken and p >= MIN_NAMED}
    return max(others, key=lambda k: others[k]) if others else taken + 1


def _count(number: int) -> str:
    return ("No", "One")[number] if number < 2 else f"{number:,}"


def headline(estimator: Any, n_columns: int, seconds: float | None) -> list[tuple[str, str]]:
    """The figures at the head of the page, with their captions."""
    n_clusters, n_rows = int(estimator.n_clusters_), len(estimator.labels_)
    figures = [
        (f"{n_clusters:,}", "cluster" if n_clusters == 1 else "clusters"),
        (f"{n_rows:,}", "row" if n_rows == 1 else "rows"),
        (f"{n_columns:,}", "column" if n_columns == 1 else "columns"),
        (f"{100 * float(np.mean(estimator.probabilities_)):.1f} %", "mean confidence"),
        (type(estimator).__name__, "method"),
    ]
    expected = getattr(estimator, "expected_ari_", None)
    if expected is not None:
        figures.insert(4, (f"{expected:.2f}", "expected adjusted Rand index"))
    if seconds is not None:
        figures.append((f"{seconds:.2f} s", "run time"))
    return figures


# -- what distinguishes each cluster ----------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """One column: what is typical of the cluster, and of all other rows."""

    column: str
    here: str
    elsewhere: str
    size: float  # in spreads of the column
    bars: tuple[tuple[float, float], ...]  # heights of both histograms, cluster and others, in pixels


def compare_clusters(columns: Sequence[Column], labels: np.ndarray) -> list[list[Difference]]:
    """Each cluster and all other rows, column by column; nothing for a single cluster."""
    n_clusters = int(labels.max()) + 1
    if n_clusters < 2:
        return []
    by_column = [_differences(column, labels, n_clusters) for column in columns]
    return [[of_column[label] for of_column in by_column] for label in range(n_clusters)]


def largest_differences(found: Sequence[Sequence[Difference]]) -> list[list[Difference]]:
    """For each cluster the columns that tell it from the others, the clearest first."""
    result = []
    for of_cluster in found:
        clear = [difference for difference in of_cluster if difference.size >= MIN_DIFFERENCE]
        result.append(sorted(clear, key=lambda difference: -difference.size)[:MAX_DIFFERENCES])
    return result


def distinctive_columns(found: Sequence[Sequence[Difference]], n_columns: int, n: int) -> list[int]:
    """Places of the ``n`` columns that tell clusters apart, in the order of the table.

    The best column of each cluster comes first, then the second best of each, and so on.
    """
    sizes = np.zeros((max(len(found), 1), n_columns))
    for label, of_cluster in enumerate(found):
        sizes[label] = [difference.size for difference in of_cluster]
    ranks = np.argsort(np.argsort(-sizes, axis=1, kind="stable"), axis=1).min(axis=0)
    order = np.lexsort((-sizes.max(axis=0), ranks))  # by rank, then by size
    return sorted(order[:n].tolist())


def _differences(column: Column, labels: np.ndarray, n_clusters: int) -> list[Difference]:
    """One column in each of K clusters and in all other rows; what all of them need is found once."""
    present = ~column.missing
    values, members = column.values[present], labels[present]
    sizes = np.bincount(members, minlength=n_clusters)
    compared = np.flatnonzero((sizes > 0) & (sizes < len(values))).tolist()
    found = [Difference(column.name, NOTHING, NOTHING, 0.0, ())] * n_clusters
    if not compared:
        return found
    if column.kind == "words":
        of_cluster = _of_words(column.name, values, members, sizes)
    elif set(np.unique(values[:50])) <= {0.0, 1.0} and set(np.unique(values)) == {0.0, 1.0}:
        ones = np.bincount(members, values, n_clusters)
        of_cluster = _of_shares([column.name] * n_clusters, *_shares(ones, sizes))
    else:
        of_cluster = _of_numbers(column.name, values, members, sizes)
    for label in compared:
        found[label] = of_cluster(label)
    return found


def _shares(counts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of clusters with these sizes (K,), and of all other rows, by counts (..., K)."""
    rest = counts.sum(axis=-1, keepdims=True) - counts
    return counts / np.maximum(sizes, 1), rest / np.maximum(sizes.sum() - sizes, 1)


def _of_words(
    name: str, words: np.ndarray, labels: np.ndarray, sizes: np.ndarray
) -> Callable[[int], Difference]:
    """The category that is more frequent in a cluster than elsewhere by the largest share."""
    levels, counts = _levels(words, labels, len(sizes))
    here, elsewhere = _shares(counts, sizes)
    best = np.where(counts > 0, here - elsewhere, -np.inf).argmax(axis=0)
    places = best, np.arange(len(sizes))
    return _of_shares([f"{name} = {levels[code]}" for code in best], here[places], elsewhere[places])


def _of_shares(names: Sequence[str], here: np.ndarray, elsewhere: np.ndarray) -> Callable[[int], Difference]:
    def of_cluster(label: int) -> Difference:
        own, others = float(here[label]), float(elsewhere[label])
        size = SPREADS_PER_SHARE * abs(own - others)
        return Difference(names[label], f"{100 * own:.0f} %", f"{100 * others:.0f} %", size, ())

    return of_cluster


def _of_numbers(
    name: str, values: np.ndarray, labels: np.ndarray, sizes: np.ndarray
) -> Callable[[int], Difference]:
    """Medians and histograms of clusters and of all other rows, from one order of the values (n,)."""
    spread = spread_of(values)
    low, high = (float(edge) for edge in np.quantile(values, [0.01, 0.99]))
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    ranks = np.argsort(labels[order], kind="stable")  # cluster after cluster, each ascending
    ends = sizes.cumsum()
    bars = _bars(values, labels, sizes, low, high)

    def of_cluster(label: int) -> Difference:
        own = ranks[ends[label] - sizes[label] : ends[label]]
        others_before = own - np.arange(len(own))
        n_others = len(ranked) - len(own)
        middle = np.array([(n_others - 1) // 2, n_others // 2])  # which of the others
        here = float(np.mean(ranked[own[[(len(own) - 1) // 2, len(own) // 2]]]))
        elsewhere = float(np.mean(ranked[middle + np.searchsorted(others_before, middle, side="right")]))
        return Difference(
            name,
            show_number(here, SPREADS_PER_DIGIT * spread),
            show_number(elsewhere, SPREADS_PER_DIGIT * spread),
            abs(here - elsewhere) / spread,
            bars[label],
        )

    return of_cluster


def _bars(
    values: np.ndarray, labels: np.ndarray, sizes: np.ndarray, low: float, high: float
) -> list[tuple[tuple[float, float], ...]]:
    """Heights of the histograms of each cluster and of all other rows."""
    k = len(sizes)
    if not high > low:
        return [()] * k
    edges = np.linspace(low, high, N_BINS + 1)
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, N_BINS - 1)
    counts = np.bincount(bins * k + labels, minlength=N_BINS * k).reshape(N_BINS, k)
    here, elsewhere = _shares(counts, sizes)
    heights = HEIGHT * np.stack([here, elsewhere]) / np.maximum(here.max(axis=0), elsewhere.max(axis=0))
    return [tuple(zip(*heights[:, :, label].tolist(), strict=True)) for label in range(k)]
