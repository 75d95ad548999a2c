"""What every prior over labelled data sets provides: draws, the truth behind them, and checked options."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from scipy.special import logsumexp

from clusterwise.exceptions import RecipeError

__all__ = ["Components", "LabelledSet", "Prior", "TaskBatch", "check_options"]


class Components(ABC):
    """The true mixture behind one data set: what an oracle knows."""

    weights: np.ndarray  # (K,), pi

    @abstractmethod
    def log_density(self, points: np.ndarray) -> np.ndarray:
        """Log p_j(x_i), (n, K), of points (n, d)."""

    def log_joint(self, points: np.ndarray) -> np.ndarray:
        """Log of pi_j p_j(x_i), (n, K), of points (n, d)."""
        with np.errstate(divide="ignore"):  # a component of weight 0 never wins
            log_weights = np.log(self.weights)
        log_joint: np.ndarray = log_weights + self.log_density(points)
        return log_joint


@dataclass(frozen=True)
class LabelledSet:
    """One data set with its labels and the mixture that it was drawn from."""

    points: np.ndarray  # (n, d)
    labels: np.ndarray  # (n,) component indices; some components may have no point
    components: Components

    @property
    def n_clusters(self) -> int:
        """Number of components that have at least one point."""
        return len(np.unique(self.labels))

    def oracle_log_likelihood(self) -> float:
        """Mean log density per point under the true parameters."""
        return float(logsumexp(self.components.log_joint(self.points), axis=1).mean())

    def oracle_labels(self) -> np.ndarray:
        """Most likely component of each point under the true parameters, shape (n,)."""
        likeliest: np.ndarray = self.components.log_joint(self.points).argmax(axis=1)
        return likeliest


@dataclass(frozen=True)
class TaskBatch:
    """B data sets of one size, ready for a training step."""

    points: np.ndarray  # (B, N, d)
    labels: np.ndarray  # (B, N)
    components: Sequence[Components]  # B of them

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> LabelledSet:
        return LabelledSet(self.points[index], self.labels[index], self.components[index])


class Prior(ABC):
    """A distribution over labelled data sets."""

    n_features: int

    @abstractmethod
    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        """Draw ``n_sets`` data sets of ``n_points`` points each, independent of each other."""

    def draw_set(self, rng: np.random.Generator, n_points: int) -> LabelledSet:
        """Draw one data set."""
        return self.draw(rng, 1, n_points)[0]


def check_options(options: Any, where: str) -> None:
    """Raise a RecipeError that names the first field outside its domain, and ``where`` it is.

    The type of a field is its domain: words, text, true or false, positive numbers, lists of them, or None
    where the type allows it. ``least`` in its metadata is another bound, which is in the domain itself.
    """
    hints = get_type_hints(type(options))
    for field in dataclasses.fields(options):
        value, kinds = getattr(options, field.name), [hints[field.name]]
        if NoneType in get_args(kinds[0]):
            kinds = list(get_args(kinds[0]))
        domain, is_legal = _domain_of(value, kinds[0], field.metadata.get("least"))
        if not is_legal and not (value is None and NoneType in kinds):
            raise RecipeError(f"{field.name} {where} must be {domain}, got {value!r}.")


def _domain_of(value: Any, kind: Any, least: int | None) -> tuple[str, bool]:
    """What a value of this kind must be, in words, and whether it is."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}", value in get_args(kind)
    if get_origin(kind) is tuple:
        of_each = get_args(kind)[0]
        if of_each is str:
            return "a list of names", isinstance(value, tuple) and all(isinstance(v, str) for v in value)
        number = "whole number" if of_each is int else "number"
        several = isinstance(value, tuple) and len(value) > 0
        return f"a list of positive {number}s", several and all(
            _domain_of(v, of_each, least)[1] for v in value
        )
    if kind is str:
        return "text", isinstance(value, str) and value != ""
    if kind is bool:
        return "true or false", isinstance(value, bool)
    number = "whole number" if kind is int else "number"
    domain = f"a positive {number}" if least is None else f"a {number} of at least {least}"
    if isinstance(value, bool) or not isinstance(value, Integral if kind is int else Real):
        return domain, False
    size = float(value)
    return domain, math.isfinite(size) and (size > 0 if least is None else size >= least)
