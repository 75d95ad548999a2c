"""What distinguishes each cluster: the columns in which it differs most from all other rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clusterwise.plotting.palette import cluster_colour
from clusterwise.report.contents import show_number
from clusterwise.tables.columns import Column
from clusterwise.tables.encoding import spread_of

__all__ = ["ClusterDifferences", "Difference", "compared", "differences", "telling"]

MOST_SHOWN = 4
# Differences below this are not worth a word: in spreads of the column, or between shares.
LEAST = 0.25
N_BINS = 24
HEIGHT = 30
# Medians are not told with more digits than matter: a hundredth of the spread or so.
SPREADS_PER_DIGIT = 10.0
# A difference between shares counts like one of this many spreads.
SPREADS_PER_SHARE = 3.0


@dataclass(frozen=True)
class Difference:
    """One column: what is typical of the cluster, and of all other rows."""

    column: str
    here: str
    elsewhere: str
    size: float  # in spreads of the column
    bars: tuple[tuple[float, float], ...]  # heights of both histograms, cluster and others, in pixels


@dataclass(frozen=True)
class ClusterDifferences:
    """The columns that tell a cluster from the others, the clearest first."""

    label: int
    colour: str
    shown: tuple[Difference, ...]


def compared(columns: Sequence[Column], labels: np.ndarray) -> list[list[Difference | None]]:
    """Each cluster and all other rows, column by column; nothing for a single cluster."""
    n_clusters = int(labels.max()) + 1
    if n_clusters < 2:
        return []
    return [[_difference(column, labels == label) for column in columns] for label in range(n_clusters)]


def differences(found: Sequence[Sequence[Difference | None]]) -> list[ClusterDifferences]:
    """For each cluster the columns that tell it from the others, of those in ``compared``."""
    result = []
    for label, of_cluster in enumerate(found):
        clear = sorted((d for d in of_cluster if d is not None and d.size >= LEAST), key=lambda d: -d.size)
        result.append(ClusterDifferences(label, cluster_colour(label), tuple(clear[:MOST_SHOWN])))
    return result


def telling(found: Sequence[Sequence[Difference | None]], n_columns: int, most: int) -> list[int]:
    """Places of the ``most`` columns that tell clusters apart, in the order of the table.

    The best column of each cluster comes first, then the second best of each, and so on.
    """
    sizes = np.zeros((max(len(found), 1), n_columns))
    for label, of_cluster in enumerate(found):
        sizes[label] = [0.0 if difference is None else difference.size for difference in of_cluster]
    ranks = np.argsort(np.argsort(-sizes, axis=1, kind="stable"), axis=1).min(axis=0)
    order = np.lexsort((-sizes.max(axis=0), ranks))  # by rank, then by size
    return sorted(order[:most].tolist())


def _difference(column: Column, members: np.ndarray) -> Difference | None:
    present = ~column.missing
    inside, outside = members & present, ~members & present
    if not inside.any() or not outside.any() or column.kind not in ("number", "words"):
        return None
    if column.kind == "words":
        return _of_words(column, column.values[inside], column.values[outside])
    values = column.values[present]
    spread = spread_of(values)
    here, elsewhere = (float(np.median(column.values[rows])) for rows in (inside, outside))
    if set(np.unique(values[:50])) <= {0.0, 1.0} and set(np.unique(values)) == {0.0, 1.0}:
        shares = float(column.values[inside].mean()), float(column.values[outside].mean())
        size = SPREADS_PER_SHARE * abs(shares[0] - shares[1])
        return Difference(column.name, f"{100 * shares[0]:.0f} %", f"{100 * shares[1]:.0f} %", size, ())
    low, high = np.quantile(values, [0.01, 0.99])
    bars = _bars(column.values[inside], column.values[outside], float(low), float(high))
    return Difference(
        column.name,
        show_number(here, SPREADS_PER_DIGIT * spread),
        show_number(elsewhere, SPREADS_PER_DIGIT * spread),
        abs(here - elsewhere) / spread,
        bars,
    )


def _of_words(column: Column, inside: np.ndarray, outside: np.ndarray) -> Difference:
    levels, counts = np.unique(inside, return_counts=True)
    shares = counts / len(inside)
    others = np.array([float((outside == level).mean()) for level in levels])
    best = int(np.argmax(shares - others))
    return Difference(
        f"{column.name} = {levels[best]}",
        f"{100 * shares[best]:.0f} %",
        f"{100 * others[best]:.0f} %",
        SPREADS_PER_SHARE * float(shares[best] - others[best]),
        (),
    )


def _bars(
    inside: np.ndarray, outside: np.ndarray, low: float, high: float
) -> tuple[tuple[float, float], ...]:
    if not high > low:
        return ()
    edges = np.linspace(low, high, N_BINS + 1)
    heights = [np.histogram(np.clip(v, low, high), edges)[0] / len(v) for v in (inside, outside)]
    top = max(float(h.max()) for h in heights)
    return tuple((HEIGHT * float(a) / top, HEIGHT * float(b) / top) for a, b in zip(*heights, strict=True))
