"""The rows that are judged, so that small groups are among them, and those that communities are found in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from clusterwise.neighbours import CORE_NEIGHBOUR, MANY_COLUMNS, Projection, fit_projection, nearest
from clusterwise.rows.sorted_rows import SortedRows, sample_rows, spread_rows

__all__ = ["MAX_CONTEXT", "Context", "context_of", "max_judged_rows"]

# Rows that are judged; tables with many columns need more of them to show their structure.
MAX_JUDGED, MAX_JUDGED_OF_MANY_COLUMNS = 2_000, 4_000
# Rows that they are chosen from at random, and that communities of tables with many columns are found in.
MAX_CONTEXT = 10_000
# Rows that are searched for groups far from the context, and those of them that are looked at closely.
MAX_SEARCHED, MAX_FAR = 100_000, 2_000
# Farther from the context than this many times the typical distance there, and so many times nearer to each
# other.
FAR, TIGHT = 3.0, 3.0
# Share of the judged rows that may be such rows.
SHARE_OF_GROUPS = 0.1


@dataclass(frozen=True)
class Context:
    """Which of n sorted rows are judged, and the points that distances are taken between."""

    judged: np.ndarray  # (m,) ascending positions
    features: np.ndarray  # (m, f) of these rows
    projection: Projection  # from features to points
    points: np.ndarray  # (m, q)
    sampled: np.ndarray  # (s,) positions of a uniform choice of rows, or of all of them
    more_points: np.ndarray | None = None  # (t, q) of more rows, for communities
    places: np.ndarray | None = None  # (m,) where the judged rows are among these
    of_groups: np.ndarray | None = (
        None  # (m,) bool, rows of small groups far from the others; None: no search
    )

    def keep_groups_apart(self, labels: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
        """Labels (m,) in which small groups far from all other rows share no cluster with these.

        A group hardly counts in the agreement of two partitions, and is what is looked for. ``neighbours``
        (m, j) are the nearest rows of each, which connect the rows of a group.
        """
        if self.of_groups is None or not self.of_groups.any() or len(labels) != len(self.of_groups):
            return labels
        rows = np.flatnonzero(self.of_groups)
        place = np.full(len(labels), -1)
        place[rows] = np.arange(len(rows))
        near = neighbours[rows, :CORE_NEIGHBOUR]
        one, other = np.repeat(np.arange(len(rows)), near.shape[1]), place[near].ravel()
        edges = coo_matrix(
            (np.ones((other >= 0).sum()), (one[other >= 0], other[other >= 0])), (len(rows),) * 2
        )
        n_groups, group = connected_components(edges, directed=False)
        labels = np.unique(labels, return_inverse=True)[1]
        first = int(labels.max()) + 1
        for g in range(n_groups):
            members = rows[group == g]
            outside = np.ones(len(labels), dtype=bool)
            outside[members] = False
            mixed = np.isin(labels[members], labels[outside])
            if len(members) > CORE_NEIGHBOUR:
                labels[members[mixed]] = first + g
        return labels


def max_judged_rows(n_columns: int) -> int:
    """How many rows of a table are judged where nothing else is asked for."""
    return MAX_JUDGED_OF_MANY_COLUMNS if n_columns > MANY_COLUMNS else MAX_JUDGED


def context_of(rows: SortedRows, max_judged: int | None, seed: int) -> Context:
    """The rows of a table to judge, at most ``max_judged``; None: as many as ``max_judged_rows`` says."""
    features, n_columns = rows.features, rows.rows.n_features
    many = max_judged is None and n_columns > MANY_COLUMNS
    limit = max_judged_rows(n_columns) if max_judged is None else max_judged
    sampled = sample_rows(len(rows), max(MAX_CONTEXT, limit), seed)
    judged, of_groups = _with_small_groups(features, sampled[spread_rows(len(sampled), limit)], seed)
    projection = fit_projection(features[judged])
    points = projection.apply(features[judged])
    if not many or len(sampled) <= len(judged):
        return Context(judged, features[judged], projection, points, sampled, of_groups=of_groups)
    both = np.union1d(sampled, judged)
    more_points, places = projection.apply(features[both]), np.searchsorted(both, judged)
    return Context(judged, features[judged], projection, points, sampled, more_points, places, of_groups)


def _with_small_groups(features: np.ndarray, judged: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions (m,) of which some are exchanged for rows of groups that a uniform choice has missed.

    Which of them are rows of such groups is the second array, (m,) bool.

    A few hundred rows among a million have hardly one in a context of two thousand. Rows that lie far from
    all of it, but close to each other, are such a group; single rows far out are not.
    """
    n, m = len(features), len(judged)
    if n <= m or m <= 2 * CORE_NEIGHBOUR:
        return judged, np.zeros(m, dtype=bool)
    rng = np.random.default_rng(seed)
    searched = np.arange(n) if n <= MAX_SEARCHED else np.sort(rng.choice(n, MAX_SEARCHED, replace=False))
    projection = fit_projection(features[judged])
    points, known = projection.apply(features[searched]), projection.apply(features[judged])
    typical = nearest(known, known, CORE_NEIGHBOUR + 1)[1][:, -1]
    # To a neighbour that is not one of the few that the context may have of a group itself.
    indices, distances = nearest(points, known, CORE_NEIGHBOUR + 1)
    far = np.flatnonzero(distances[:, -1] > FAR * typical[indices[:, -1]])
    if len(far) > MAX_FAR:
        far = np.sort(rng.choice(far, MAX_FAR, replace=False))
    if len(far) <= CORE_NEIGHBOUR:
        return judged, np.zeros(m, dtype=bool)
    among = nearest(points[far], points[far], CORE_NEIGHBOUR + 1)[1][:, -1]
    gaps = nearest(points[far], np.delete(points, far, axis=0), 1)[1][:, 0]  # to all rows that are not far
    grouped = searched[far[among < gaps / TIGHT]]
    max_grouped = int(SHARE_OF_GROUPS * m)
    if len(grouped) > max_grouped:
        grouped = rng.choice(grouped, max_grouped, replace=False)
    if len(grouped) == 0:
        return judged, np.zeros(m, dtype=bool)
    kept = np.sort(rng.choice(m, m - len(grouped), replace=False))
    found = np.union1d(judged[kept], grouped)
    return found, np.isin(found, grouped)
