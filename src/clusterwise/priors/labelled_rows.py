"""Data sets drawn from labelled rows: which classes, how many, and how large is new each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from clusterwise.exceptions import InvalidDataError, RecipeError
from clusterwise.priors.prior import Prior, TaskBatch, check_options

__all__ = ["DrawnRows", "LabelledOptions", "LabelledRows", "class_numbers", "split_rows"]

# Ways to turn and mirror an image.
N_TURNS = 8
# Classes of a set with spliced ones, and where their seams are, of the height or width.
MAX_SPLICED = 20
SEAMS = (0.4, 0.62)
# Classes to hold some out for validation; with fewer, rows are held out.
MIN_CLASSES_TO_SPLIT = 6


@dataclass(frozen=True)
class LabelledOptions:
    """How data sets are drawn from labelled rows: the options of ``[prior] name = "labelled"``."""

    k_max: int = 20  # classes in a data set
    min_concentration: float = 0.5  # of the Dirichlet distribution of the sizes: from uneven ...
    max_concentration: float = 20.0  # ... to nearly equal; drawn on a logarithmic scale
    within_groups: float = field(default=0.5, metadata={"least": 0})  # share of sets from one group alone
    turned_classes: bool = False  # images: a class that is turned or mirrored counts as another class
    distortion: float = field(default=0.0, metadata={"least": 0})  # images: 1 is some ten degrees or per cent
    # Images: share of sets with new classes, of images that begin as one class and go on as another.
    spliced_sets: float = field(default=0.0, metadata={"least": 0})
    hold_out: Literal["auto", "classes", "rows", "groups"] = "auto"  # what is kept for validation
    validation_share: float = 0.2

    def __post_init__(self) -> None:
        check_options(self, "in [prior]")
        if self.validation_share >= 1 or self.within_groups > 1 or self.spliced_sets > 1:
            raise RecipeError(
                "validation_share must be below 1, within_groups and spliced_sets at most 1, in [prior]."
            )


@dataclass(frozen=True)
class DrawnRows:
    """B data sets of N rows each."""

    index: np.ndarray  # (B, N) numbers of rows, none twice in a data set
    labels: np.ndarray  # (B, N) 0 .. K_b - 1
    turns: np.ndarray  # (B, N) how the image of a row is turned, the same for all of a class; else 0
    partners: np.ndarray  # (B, N) row whose image goes on beyond the seam; the row itself where there is none
    # (B, N) where an image of (height, width) = (1, 1) ends: from the top, from the left if negative; else 0
    seams: np.ndarray


def class_numbers(y: np.ndarray, name: str = "label") -> np.ndarray:
    """Number the classes of labels (n,) of any kind 0 .. C-1; labels that are missing are an error."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise InvalidDataError(f"there must be one {name} for each row, a list of n; got shape {y.shape}.")
    missing = _missing(y)
    if missing.any():
        first = int(np.flatnonzero(missing)[0])
        raise InvalidDataError(
            f"{missing.sum()} of the {len(y)} rows have no {name} (row {first} is the first); leave them out."
        )
    names = y.astype(str) if y.dtype == object else y
    return np.unique(names, return_inverse=True)[1].reshape(-1)


def _missing(values: np.ndarray) -> np.ndarray:
    """Where values (n,) are missing: None, NaN, NaT, pandas' NA, and words without a letter."""

    def is_missing(value: Any) -> bool:
        if isinstance(value, (str, bytes)):
            return not value.strip()
        try:
            return value is None or bool(value != value)
        except (TypeError, ValueError):  # pandas' NA is neither equal to itself nor not
            return True

    if values.dtype.kind in "biu":
        return np.zeros(len(values), dtype=bool)
    return np.array([is_missing(value) for value in values.tolist()], dtype=bool)


def split_rows(
    y: np.ndarray, groups: np.ndarray | None, options: LabelledOptions, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, str]:
    """Rows to train on, rows to validate on (both sorted), and what was held out: classes, rows or groups."""
    n_classes = int(y.max()) + 1
    how = options.hold_out
    if how == "auto":
        if groups is not None and len(np.unique(groups)) >= 4:
            how = "groups"
        else:
            how = "classes" if n_classes >= MIN_CLASSES_TO_SPLIT else "rows"
    if how == "groups" and groups is None:
        raise RecipeError("hold_out = 'groups' needs the groups of the rows; name their column.")
    share = options.validation_share
    if how == "rows":
        shuffled = rng.permutation(len(y))
        in_validation = np.zeros(len(y), dtype=bool)
        for label in range(n_classes):
            own = shuffled[y[shuffled] == label]
            in_validation[own[: int(share * len(own))]] = True
    else:
        by = y if groups is None or how == "classes" else groups
        unit = np.unique(by, return_inverse=True)[1].reshape(-1)
        n_units = int(unit.max()) + 1
        kept_out = rng.permutation(n_units)[: min(n_units - 2, max(2, round(share * n_units)))]
        in_validation = np.isin(unit, kept_out)
    return np.flatnonzero(~in_validation), np.flatnonzero(in_validation), how


@dataclass(frozen=True, eq=False)
class LabelledRows(Prior):
    """A prior over data sets that are rows of labelled data.

    Each set has its own number of classes, uniform as far as the rows suffice, and its own imbalance. With
    ``groups`` (an alphabet, a donor) some of the sets have classes of one group only, which are harder to
    tell apart.
    """

    rows: np.ndarray  # (n, d)
    y: np.ndarray  # (n,) 0 .. C-1
    groups: np.ndarray | None = None  # (n,)
    options: LabelledOptions = field(default_factory=LabelledOptions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_features", self.rows.shape[1])
        if len(self.members) < 2:
            raise InvalidDataError(
                "there is only one class to draw data sets from; training needs at least two classes."
            )

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Numbers of the rows of each class."""
        order = np.argsort(self.y, kind="stable")
        starts = np.unique(self.y[order], return_index=True)[1]
        return np.split(order, starts[1:])

    @cached_property
    def pools(self) -> list[np.ndarray]:
        """Places in ``members`` of all classes, then of the classes of each group that has several."""
        everything = np.arange(len(self.members))
        if self.groups is None:
            return [everything]
        of_class = [set(self.groups[rows].tolist()) for rows in self.members]
        pools = [everything] + [
            np.array([c for c, of_one in enumerate(of_class) if group in of_one])
            for group in sorted(set().union(*of_class))
        ]
        return [pool for pool in pools if len(pool) >= 2]

    def draw_rows(self, rng: np.random.Generator, n_sets: int, n_points: int) -> DrawnRows:
        """Draw ``n_sets`` data sets of ``n_points`` rows; fewer rows where there are not as many."""
        n_points = min(n_points, len(self.y))
        drawn = [self._draw_one(rng, n_points) for _ in range(n_sets)]
        return DrawnRows(*(np.stack(part) for part in zip(*drawn, strict=True)))

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        """See ``Prior``; the true components of real data are unknown."""
        drawn = self.draw_rows(rng, n_sets, n_points)
        return TaskBatch(self.rows[drawn.index], drawn.labels, ())

    def _draw_one(self, rng: np.random.Generator, n_points: int) -> tuple[np.ndarray, ...]:
        options = self.options
        if rng.random() < options.spliced_sets:
            return self._draw_spliced(rng, n_points)
        members, pools = self.members, self.pools
        pool = pools[0]
        if len(pools) > 1 and rng.random() < options.within_groups:
            pool = pools[rng.integers(1, len(pools))]
        chosen = rng.permutation(pool)
        rooms = self._rooms(chosen)
        if rooms.sum() < n_points:  # a group with too few rows
            chosen = np.concatenate([chosen, rng.permutation(np.setdiff1d(pools[0], chosen))])
            rooms = self._rooms(chosen)
        min_k = int(np.searchsorted(rooms.cumsum(), n_points)) + 1  # of these classes hold enough rows
        max_k = max(min_k, min(options.k_max, len(chosen), n_points))
        k = int(rng.integers(min_k, max_k + 1))
        sizes = self._sizes(rng, rooms[:k], n_points)
        index = np.concatenate(
            [rng.choice(members[c], size, replace=False) for c, size in zip(chosen[:k], sizes, strict=True)]
        )
        in_use = np.flatnonzero(sizes)
        labels = np.repeat(np.arange(len(in_use)), sizes[in_use])
        turns = np.zeros(k, dtype=np.int64)
        if options.turned_classes:
            turns = rng.integers(N_TURNS, size=k)
        shuffled = rng.permutation(n_points)
        index = index[shuffled]
        return index, labels[shuffled], np.repeat(turns, sizes)[shuffled], index, np.zeros(n_points)

    def _draw_spliced(self, rng: np.random.Generator, n_points: int) -> tuple[np.ndarray, ...]:
        """Classes that there are and, more often, new ones: one class up to a seam, another beyond it."""
        members = self.members
        k = int(rng.integers(2, max(3, min(self.options.k_max, MAX_SPLICED) + 1)))
        kinds: dict[tuple[int, ...], float] = {}
        while len(kinds) < k:
            first, second = (int(c) for c in rng.integers(len(members), size=2))
            turn = int(rng.integers(N_TURNS)) if self.options.turned_classes else 0
            across = bool(rng.integers(2))
            seam = float(rng.uniform(*SEAMS))
            if first != second:
                kinds.setdefault((first, second, turn, int(across)), seam if across else -seam)
            elif not any(a == b == first for a, b, _, _ in kinds):
                kinds[first, first, turn, 0] = 0.0
        rooms = np.array([max(len(members[first]), n_points // k + 1) for first, *_ in kinds])
        sizes = self._sizes(rng, rooms, n_points)
        parts = []
        for label, ((first, second, turn, _), seam, size) in enumerate(
            zip(kinds, kinds.values(), sizes, strict=True)
        ):
            index = rng.choice(members[first], size, replace=size > len(members[first]))
            partners = index if first == second else rng.choice(members[second], size)
            same = np.ones(size, dtype=np.int64)
            parts.append((index, label * same, turn * same, partners, np.full(size, seam)))
        shuffled = rng.permutation(n_points)
        return tuple(np.concatenate(part)[shuffled] for part in zip(*parts, strict=True))

    def _sizes(self, rng: np.random.Generator, rooms: np.ndarray, n_points: int) -> np.ndarray:
        low, high = np.log(self.options.min_concentration), np.log(self.options.max_concentration)
        return sizes_within(rng, rooms, n_points, float(np.exp(rng.uniform(low, high))))

    def _rooms(self, classes: np.ndarray) -> np.ndarray:
        return np.array([len(self.members[c]) for c in classes])


def sizes_within(
    rng: np.random.Generator, rooms: np.ndarray, n_points: int, concentration: float
) -> np.ndarray:
    """Sizes (k,) that sum to ``n_points``, by Dirichlet weights, from one to the room (k,) of each."""
    k = len(rooms)
    sizes = np.ones(k, dtype=np.int64)
    weights = rng.dirichlet(np.full(k, concentration)) + 1e-9
    while (missing := n_points - int(sizes.sum())) > 0:
        open_classes = sizes < rooms
        shares = weights * open_classes
        more = rng.multinomial(missing, shares / shares.sum())
        sizes = np.minimum(sizes + more, rooms)
    return sizes
