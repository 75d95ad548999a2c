"""A recipe says everything about a training: model, prior, sizes, optimizer, steps, seed."""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from clusterwise.exceptions import RecipeError

__all__ = ["OptimizerOptions", "Recipe", "SizeOptions", "ValidationOptions", "read_recipe", "recipe_from_dict"]


Options = TypeVar("Options")


@dataclass(frozen=True)
class SizeOptions:
    """Sizes of the training data sets.

    Each step draws one n from ``n_points``; the batch holds ``points_per_batch // n`` sets. A few
    fixed sizes are much faster than a fresh n per step: the CPU kernels are built once per shape.
    """

    n_points: tuple[int, ...] = (128, 256, 512)
    points_per_batch: int = 8192


@dataclass(frozen=True)
class OptimizerOptions:
    """Adam with linear warm-up, cosine decay to zero, clipping, and an average of the weights."""

    steps: int = 1000
    learning_rate: float = 1e-3
    warm_up: int = 200
    clip: float = 10.0
    average_decay: float = 0.999


@dataclass(frozen=True)
class ValidationOptions:
    """How often, and on how many data sets of which size, the running ARI is measured."""

    every: int = 500
    n_sets: int = 50
    n_points: int = 500


@dataclass(frozen=True)
class Recipe:
    """All that is needed to train one weights file again."""

    name: str
    method: str
    model: dict[str, Any]
    prior: dict[str, Any]
    seed: int = 0
    description: str = ""
    sizes: SizeOptions = field(default_factory=SizeOptions)
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    validation: ValidationOptions = field(default_factory=ValidationOptions)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as nested plain values, ready for JSON."""
        return dataclasses.asdict(self)


def _section(kind: type[Options], values: Any, name: str) -> Options:
    """Build one section of a recipe; unknown or ill-typed entries are named."""
    if not isinstance(values, dict):
        raise RecipeError(f"[{name}] in the recipe must be a table of options.")
    known = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise RecipeError(f"[{name}] has no option {unknown[0]!r}; it takes {', '.join(known)}.")
    converted = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    for key, value in converted.items():
        parts = value if isinstance(value, tuple) else (value,)
        if not parts or any(isinstance(p, bool) or not isinstance(p, int | float) or p <= 0 for p in parts):
            raise RecipeError(f"{key} in [{name}] must be positive, got {value!r}.")
    return kind(**converted)


def recipe_from_dict(values: dict[str, Any]) -> Recipe:
    """Check nested plain values and build the recipe."""
    sections = {"sizes": SizeOptions, "optimizer": OptimizerOptions, "validation": ValidationOptions}
    known = {f.name for f in dataclasses.fields(Recipe)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise RecipeError(f"A recipe has no entry {unknown[0]!r}; it takes {', '.join(sorted(known))}.")
    missing = [key for key in ("name", "method", "model", "prior") if key not in values]
    if missing:
        raise RecipeError(f"The recipe misses {', '.join(missing)}; see the files in recipes/ for examples.")
    built = {key: _section(kind, values[key], key) for key, kind in sections.items() if key in values}
    rest = {key: value for key, value in values.items() if key not in sections}
    return Recipe(**rest, **built)  # type: ignore[arg-type]


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe from a TOML file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except OSError as error:
        raise RecipeError(f"Cannot read the recipe {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path} is not valid TOML: {error}.") from error
    return recipe_from_dict(values)
