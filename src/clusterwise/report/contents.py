"""What a report says, as plain values that the template prints: no HTML and no pictures here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from clusterwise.metrics import matched_accuracy
from clusterwise.plotting.palette import cluster_colour

__all__ = [
    "Agreement",
    "ClusterRow",
    "PointRow",
    "about_k",
    "agreement_with",
    "cluster_rows",
    "headline",
    "outlying_rows",
    "show_number",
    "summary",
    "uncertain_rows",
]

MAX_COLUMNS = 6  # wider tables are not read
MAX_CLASSES = 30
CERTAIN = 0.9
OUTLYING = 0.5


def show_number(value: float, spread: float | None = None) -> str:
    """Write a number with about four digits that tell something.

    ``spread`` is that of the values in the same column, which then all get the same digits after the point:
    431900.27 among values that differ by thousands needs few, 0.5 among values that differ by
    hundredths more.

    Examples
    --------
    >>> show_number(431_903.27, spread=2000.0), show_number(0.123456), show_number(3e-9)
    ('431,903', '0.1235', '3.000e-09')
    """
    if np.isnan(value):
        return "–"
    if not np.isfinite(value):
        return str(value)
    step = spread if spread else abs(value)
    if step != 0 and (step < 1e-4 or max(step, abs(value)) >= 1e9):
        return f"{value:.3e}"
    digits = 0 if step == 0 else max(0, 3 - math.floor(math.log10(step)))
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0 else text


@dataclass(frozen=True)
class ClusterRow:
    """One line of the table of clusters."""

    label: int
    colour: str
    size: int
    share: float
    means: tuple[str, ...]
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


@dataclass(frozen=True)
class Agreement:
    """How the clusters agree with classes that are known."""

    ari: float
    accuracy: float
    classes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...] | None  # (classes, clusters); None where the table would be too large


def _shown_values(points: np.ndarray, values: np.ndarray) -> tuple[str, ...]:
    """Write the shown columns of one row (d,), with digits that suit the data's spread."""
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = [_range_of(column) for column in points[:, :MAX_COLUMNS].T]
    return tuple(show_number(float(value), spread) for value, spread in zip(values, spreads, strict=False))


def _range_of(values: np.ndarray) -> float:
    """How far values (n,) reach without the few that lie farthest out; gaps do not count."""
    present = values[np.isfinite(values)]
    if len(present) == 0:
        return 0.0
    low, high = np.quantile(present, [0.01, 0.99])
    return float(high - low) or float(np.ptp(present))


def cluster_rows(estimator: Any, points: np.ndarray) -> list[ClusterRow]:
    """Describe each cluster; the means are those of its rows."""
    labels, probabilities = np.asarray(estimator.labels_), np.asarray(estimator.probabilities_)
    rows = []
    for label in range(int(estimator.n_clusters_)):
        members = labels == label
        size = int(members.sum())
        n_present = (~np.isnan(points[members])).sum(axis=0)
        sums = np.nansum(points[members] / np.maximum(n_present, 1), axis=0)
        means = np.where(n_present > 0, sums, np.nan)
        rows.append(
            ClusterRow(
                label=label,
                colour=cluster_colour(label),
                size=size,
                share=size / len(labels),
                means=_shown_values(points, means),
                confidence=float(probabilities[members].mean()),
                n_uncertain=int((probabilities[members] < CERTAIN).sum()),
            )
        )
    return rows


def _point_row(estimator: Any, points: np.ndarray, row: int) -> PointRow:
    membership = np.asarray(estimator.membership_[row])
    label = int(estimator.labels_[row])
    # With a single cluster the second best is the first again; then no row is uncertain or shown so.
    second = int(np.argsort(-membership, kind="stable")[min(1, len(membership) - 1)])
    return PointRow(
        row=row,
        values=_shown_values(points, points[row]),
        label=label,
        colour=cluster_colour(label),
        probability=float(estimator.probabilities_[row]),
        outlier_score=float(estimator.outlier_scores_[row]),
        second=second,
        second_colour=cluster_colour(second),
        second_probability=float(membership[second]),
    )


def uncertain_rows(estimator: Any, points: np.ndarray, count: int = 10) -> list[PointRow]:
    """Return the rows whose label is least sure, the least sure first; none that is as good as certain."""
    probabilities = np.asarray(estimator.probabilities_)
    order = np.argsort(probabilities, kind="stable")[:count]
    return [_point_row(estimator, points, int(row)) for row in order if probabilities[row] < CERTAIN]


def outlying_rows(estimator: Any, points: np.ndarray, count: int = 10) -> list[PointRow]:
    """Return the rows with the highest outlier scores, the highest first; none of an ordinary score."""
    scores = np.asarray(estimator.outlier_scores_)
    order = np.argsort(-scores, kind="stable")[:count]
    return [_point_row(estimator, points, int(row)) for row in order if scores[row] >= OUTLYING]


def agreement_with(y: Any, labels: np.ndarray) -> Agreement:
    """Compare clusters with known classes (n,)."""
    known = np.asarray(y)
    names, classes = np.unique(known, return_inverse=True)
    counts = None
    if max(len(names), int(labels.max()) + 1) <= MAX_CLASSES:
        table = np.zeros((len(names), int(labels.max()) + 1), dtype=int)
        np.add.at(table, (classes, labels), 1)
        counts = tuple(tuple(row) for row in table.tolist())
    return Agreement(
        ari=float(adjusted_rand_score(known, labels)),
        accuracy=matched_accuracy(known, labels),
        classes=tuple(str(name) for name in names),
        counts=counts,
    )


def about_k(estimator: Any, k_posterior: Mapping[int, float]) -> str:
    """Say whether P(K) favours the number of clusters that was taken."""
    likeliest = max(k_posterior, key=lambda k: k_posterior[k])
    taken = int(estimator.n_clusters_)
    line = "The probability of each number of clusters; the number used in this report is in colour."
    if likeliest == taken:
        return line
    why = estimator._why_other_k(likeliest) if hasattr(estimator, "_why_other_k") else ""
    return f"{line} It is not the likeliest one, which is {likeliest}: {why}".rstrip(": ")


def summary(estimator: Any, k_posterior: Mapping[int, float] | None) -> str:
    """Say in a few sentences what was found and how sure it is."""
    sizes = np.bincount(np.asarray(estimator.labels_), minlength=int(estimator.n_clusters_))
    n_clusters, n_rows = len(sizes), int(sizes.sum())
    if n_clusters == 1:
        text = f"The {n_rows:,} rows form one cluster: no division into several was better."
    else:
        text = (
            f"The {n_rows:,} rows fall into {n_clusters} clusters. The largest has {sizes.max():,} rows "
            f"({_percent(sizes.max() / n_rows)}), the smallest {sizes.min():,} "
            f"({_percent(sizes.min() / n_rows)})."
        )
    if k_posterior:
        probability = k_posterior.get(n_clusters, 0.0)
        how = "nearly certain" if probability > 0.95 else "likely" if probability > 0.5 else "uncertain"
        others = sorted((k for k in k_posterior if k != n_clusters), key=lambda k: -k_posterior[k])[:2]
        named = [f"{k} ({k_posterior[k]:.2f})" for k in others if k_posterior[k] >= 0.05]
        text += f" The number of clusters is {how}: {n_clusters} has a probability of {probability:.2f}"
        text += f"; next {'come' if len(named) > 1 else 'comes'} {' and '.join(named)}." if named else "."
    n_uncertain = int((np.asarray(estimator.probabilities_) < CERTAIN).sum())
    n_outlying = int((np.asarray(estimator.outlier_scores_) >= OUTLYING).sum())
    if n_clusters > 1:
        uncertain = "labels are" if n_uncertain > 1 else "label is"
        text += f" {_count(n_uncertain)} {uncertain} uncertain, and {_count(n_outlying).lower()} "
        text += f"{'rows lie' if n_outlying > 1 else 'row lies'} far from every cluster."
    return text


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def _count(number: int) -> str:
    return ("No", "One")[number] if number < 2 else f"{number:,}"


def headline(estimator: Any, n_columns: int, seconds: float | None) -> list[tuple[str, str]]:
    """Return the figures at the head of the page, with their captions."""
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
