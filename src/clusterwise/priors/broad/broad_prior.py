"""The broad prior over labelled tables: all kinds of clusters in all kinds of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from clusterwise.exceptions import RecipeError
from clusterwise.priors.broad import disturbances as disturb
from clusterwise.priors.broad.arrangements import ARRANGEMENTS, draw_arrangement, draw_composite
from clusterwise.priors.broad.centred import (
    draw_densities,
    draw_gaussians,
    draw_grid,
    draw_mixture,
    draw_plain,
    draw_single,
)
from clusterwise.priors.broad.fields import draw_field, draw_records
from clusterwise.priors.broad.labelled_table import (
    EASIER,
    FEW,
    MAX_TRIES,
    NOISE,
    LabelledTable,
    by_cluster,
    draw_n_clusters,
    draw_n_features,
    draw_n_rows,
    draw_sizes,
    draw_uneven_sizes,
    log_uniform,
    told_apart,
)
from clusterwise.priors.broad.manifolds import draw_embedding, draw_hierarchy
from clusterwise.priors.broad.shapes import embed, rotate
from clusterwise.priors.prior import check_options

__all__ = ["BroadPrior"]

_MIN_ROWS = 20
_MIN_PURITY = 0.45  # of neighbours in tables that are no arrangement
_OWN_FORM = ("embedding", "records")  # kinds with disturbances of their own
_MIN_FEATURES_OF_HIERARCHY = 10
_ROWS_OF_HIERARCHY = 5  # times the fewest rows of other tables: wide tables show little in few rows
_Split = Callable[[np.random.Generator, int, int], np.ndarray]  # rows and clusters -> sizes
_KINDS: dict[str, Callable[[np.random.Generator, np.ndarray, int, float], np.ndarray]] = {
    "mixture": draw_mixture,
    "gaussians": draw_gaussians,
    "grid": draw_grid,
    "densities": draw_densities,
    "records": draw_records,
    "embedding": draw_embedding,
}


@dataclass(frozen=True)
class BroadPrior:
    """Tables of 1 to ``max_clusters`` clusters of many shapes, sizes and separations.

    Embeddings, which are wide by nature, have up to ``max_embedding_features`` features, all other tables
    up to ``max_features``. In a share ``uneven`` of the tables that are no arrangement, clusters may be
    a handful of rows next to a thousand. A share ``plain`` are Gaussian mixtures of few features and nothing
    else, a share ``hierarchies`` are wide tables whose classes are one level of a hierarchy, a share
    ``fields`` are tables with categories, counts, series and others; see ``fields``.

    >>> table = BroadPrior().draw_table(np.random.default_rng(0), n_rows=200)
    >>> len(table.points) == len(table.labels) == 200
    True
    """

    min_rows: int = field(default=60, metadata={"least": _MIN_ROWS})
    max_rows: int = field(default=2000, metadata={"least": _MIN_ROWS})
    max_features: int = 64
    max_embedding_features: int = 128
    max_clusters: int = 100
    uneven: float = field(default=0.0, metadata={"least": 0})
    plain: float = field(default=0.0, metadata={"least": 0})
    hierarchies: float = field(default=0.0, metadata={"least": 0})
    fields: float = field(default=0.0, metadata={"least": 0})

    def __post_init__(self) -> None:
        check_options(self, "of the broad prior")
        if self.min_rows > self.max_rows:
            raise RecipeError(
                f"max_rows of the broad prior must be at least min_rows, got {self.max_rows} "
                f"and {self.min_rows}."
            )

    def draw_table(self, rng: np.random.Generator, n_rows: int | None = None) -> LabelledTable:
        """Draw one table, of ``n_rows`` rows where that is given."""
        if n_rows is not None and n_rows < _MIN_ROWS:
            raise RecipeError(f"A table of the broad prior has at least {_MIN_ROWS} rows, got {n_rows}.")
        if self.fields and rng.random() < self.fields:
            return self._draw_field(rng, n_rows)
        if self.plain or self.hierarchies:
            u = rng.random()
            if u < self.plain:
                n = draw_n_rows(rng, self.min_rows, self.max_rows) if n_rows is None else n_rows
                return _shuffled(rng, *draw_plain(rng, n), "plain")
            if u < self.plain + self.hierarchies:
                return self._draw_hierarchy(rng, n_rows)
        n = draw_n_rows(rng, self.min_rows, self.max_rows) if n_rows is None else n_rows
        k = draw_n_clusters(rng, n, self.max_clusters)
        d = draw_n_features(rng, max(self.max_features, self.max_embedding_features))
        if rng.random() < _embedding_share(d):
            kind = "embedding"
            d = min(d, self.max_embedding_features)
        else:
            d = min(d, self.max_features)
            kind = _draw_kind(rng, n, k, d)
        has_noise = kind not in _OWN_FORM and rng.random() < 0.3
        n_noise = round(n * rng.uniform(0.01, 0.12)) if has_noise else 0
        n_extra = _draw_n_extra(rng, kind, k, d)
        is_uneven = self.uneven > 0 and rng.random() < self.uneven
        split = draw_uneven_sizes if is_uneven else draw_sizes
        kind, points, labels = _draw_clusters(rng, kind, n - n_noise, k, d - n_extra, split)
        points, labels = _disturb(rng, kind, points, labels, n_noise, n_extra)
        return _shuffled(rng, points, labels, kind)

    def _draw_field(self, rng: np.random.Generator, n_rows: int | None) -> LabelledTable:
        n = draw_n_rows(rng, self.min_rows, self.max_rows) if n_rows is None else n_rows
        drawn = draw_field(rng, n)
        order = rng.permutation(len(drawn.points))
        return replace(drawn, points=drawn.points[order], labels=drawn.labels[order])

    def _draw_hierarchy(self, rng: np.random.Generator, n_rows: int | None) -> LabelledTable:
        if n_rows is None:
            min_rows = min(_ROWS_OF_HIERARCHY * self.min_rows, self.max_rows)
            n_rows = draw_n_rows(rng, min_rows, self.max_rows)
        max_features = max(self.max_embedding_features, _MIN_FEATURES_OF_HIERARCHY)
        d = int(log_uniform(rng, _MIN_FEATURES_OF_HIERARCHY, max_features + 1))
        return _shuffled(rng, *draw_hierarchy(rng, n_rows, d), "hierarchy")


def _shuffled(rng: np.random.Generator, points: np.ndarray, labels: np.ndarray, kind: str) -> LabelledTable:
    order = rng.permutation(len(points))
    columns = rng.permutation(points.shape[1])
    return LabelledTable(points[order][:, columns], labels[order], kind)


def _embedding_share(d: int) -> float:
    """Share of the embeddings among tables of d features."""
    return 0.75 if d > 16 else 0.12 if d >= 4 else 0.0


def _draw_kind(rng: np.random.Generator, n: int, k: int, d: int) -> str:
    """Draw the arrangement of n rows in k clusters in d features, if it is no embedding."""
    if k == 1:
        return "single"
    u = rng.random()
    if d >= 4 and k <= FEW and u < 0.25:
        return "records"
    u = rng.random()
    if 2 <= d <= 16 and u < (0.5 if k <= 5 else 0.2):
        if 3 <= k <= n // 25 and u < 0.07:
            return "composite"
        special = draw_arrangement(rng, k, d)
        if special is not None:
            return special
    u = rng.random()
    if u < 0.55:
        return "mixture"
    if u < 0.74:
        return "gaussians"
    if u < 0.86:
        return "grid"
    return "densities"


def _draw_n_extra(rng: np.random.Generator, kind: str, k: int, d: int) -> int:
    """Draw how many of d columns do not carry the clusters; few where many clusters would drown in them."""
    if kind == "records":
        return 0
    if kind == "embedding":
        return int(rng.integers(1, max(2, d // 8))) if rng.random() < 0.1 else 0
    if d < 3:
        flat = ("composite", *ARRANGEMENTS)  # already of two features
        return int(d == 2 and k <= FEW and kind not in flat and rng.random() < 0.03)
    if rng.random() < 0.3:
        needed = 3 if kind in ("shells", "links") else 2
        max_extra = max(1, d // 2) if k <= FEW else d // 4
        return int(rng.integers(0, min(d - needed, max_extra) + 1))
    return 0


def _draw_clusters(
    rng: np.random.Generator, kind: str, n: int, k: int, d: int, split: _Split
) -> tuple[str, np.ndarray, np.ndarray]:
    """Draw clean clusters that can be told apart: their kind, points (n, d) and labels (n,), sorted.

    Each new try is easier, and the last ones give up an arrangement that so few rows cannot show. Clusters
    that cannot be told apart even then are one.
    """
    if k == 1:
        return kind, *_draw_once(rng, kind, n, k, d, split, 1.0)
    for attempt in range(MAX_TRIES):
        if attempt >= MAX_TRIES - 2 and kind in ARRANGEMENTS:
            kind = "mixture"
        points, labels = _draw_once(rng, kind, n, k, d, split, EASIER**attempt)
        min_purity = ARRANGEMENTS[kind].min_purity if kind in ARRANGEMENTS else _MIN_PURITY
        clear, merged = told_apart(rng, points, labels, min_purity)
        if clear:
            break
    return kind, *by_cluster(points, merged)


def _draw_once(
    rng: np.random.Generator, kind: str, n: int, k: int, d: int, split: _Split, ease: float
) -> tuple[np.ndarray, np.ndarray]:
    """Draw clusters of one kind as they come."""
    if kind in ARRANGEMENTS:
        points, labels = ARRANGEMENTS[kind].draw(rng, n, k)
        return _to_dimensions(rng, points, d), labels
    if kind == "composite":
        points, labels = draw_composite(rng, n, k, ease)
        return _to_dimensions(rng, points, d), labels
    if kind == "single":
        return draw_single(rng, n, d), np.zeros(n, dtype=np.intp)
    sizes = split(rng, n, k)
    points = _KINDS[kind](rng, sizes, d, ease)
    if kind == "mixture" and d > 1 and rng.random() < 0.2:
        points = disturb.bend(rng, points)
    return points, np.repeat(np.arange(k), sizes)


def _to_dimensions(rng: np.random.Generator, points: np.ndarray, d: int) -> np.ndarray:
    """Turn an arrangement, and place it into d dimensions with some noise in all of them."""
    if points.shape[1] == d:
        return rotate(rng, points)
    spread = points.std()
    noise = rng.standard_normal((len(points), d)) * (rng.uniform(0, 0.1) * spread / np.sqrt(d))
    return embed(rng, points, d) + noise


def _disturb(
    rng: np.random.Generator,
    kind: str,
    points: np.ndarray,
    labels: np.ndarray,
    n_noise: int,
    n_extra: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Add noise rows and columns, and change the form of the numbers."""
    if n_noise:
        noise = disturb.draw_noise_rows(rng, points, n_noise)
        labels = np.concatenate([labels, disturb.label_noise(points, labels, noise)])
        points = np.concatenate([points, noise])
    own_form = kind in _OWN_FORM
    if not own_form and points.shape[1] > 1 and rng.random() < 0.2:
        points = disturb.correlate_columns(rng, points)
    if n_extra:
        points = disturb.add_columns(rng, points, labels, n_extra)
    if not own_form and rng.random() < 0.12:
        points = disturb.warp_columns(rng, points)
    if not own_form and rng.random() < 0.12:
        rounded = disturb.round_columns(rng, points, labels)
        points = rounded if _are_clear(rng, rounded, labels) else points
    if rng.random() < 0.06:
        points = disturb.repeat_rows(rng, points, labels)
    if rng.random() < 0.5:
        points = disturb.change_units(rng, points)
    return points, labels


def _are_clear(rng: np.random.Generator, points: np.ndarray, labels: np.ndarray) -> bool:
    """Whether the clusters can still be told apart, all of them."""
    own = labels != NOISE
    if labels.max() == 0:
        return True
    scaled = points[own] / (points[own].std(axis=0) + 1e-12)
    return told_apart(rng, scaled, labels[own], _MIN_PURITY, min_share=1.0)[0]
