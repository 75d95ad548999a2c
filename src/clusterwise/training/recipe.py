"""A recipe says everything about a training: model, prior, sizes, optimizer, steps, seed.

A training may have several phases, one after the other, each from the weights of the one before.
``[[phase]]`` tables say what is different in them; the rest of the recipe is what the finished network is::

    seed = 1                      # the phases have seeds 1 and 2, unless they name their own
    [model]
    revision = true
    [optimizer]
    steps = 6000
    [[phase]]
    model = { revision = false }
    optimizer = { steps = 24000 }
    [[phase]]
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from clusterwise._safety import one_sentence
from clusterwise.exceptions import RecipeError
from clusterwise.priors.prior import check_options

__all__ = [
    "LABELLED",
    "OptimizerOptions",
    "RealOptions",
    "Recipe",
    "SizeOptions",
    "TableOptions",
    "ValidationOptions",
    "read_recipe",
    "recipe_from_dict",
]


# The name of the prior that is labelled rows in a file.
LABELLED = "labelled"

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
    """Adam with linear warm-up, cosine decay to zero, clipping, and an average of the weights.

    Of weights that a training started with, a share may be kept in the end: half-way between both lies what
    is new without what was forgotten (Wortsman et al., CVPR 2022).
    """

    steps: int = 1000
    learning_rate: float = 1e-3
    warm_up: int = 200
    clip: float = 10.0
    average_decay: float = 0.999
    weight_decay: float = field(default=0.0, metadata={"least": 0})
    kept: float = field(default=0.0, metadata={"least": 0})  # of the weights that it started with


@dataclass(frozen=True)
class ValidationOptions:
    """How often, and on how many data sets of which size, the running ARI is measured."""

    every: int = 500
    n_sets: int = 50
    n_points: int = 500


@dataclass(frozen=True)
class TableOptions:
    """Tables of the broad prior that judges train on; the first ones are kept for validation.

    A step sees ``per_batch`` trees, or the candidates of as many tables. ``node_judge`` scores
    the trees that the candidates of a partition judge come from.
    """

    n_tables: int = 10_000
    n_validation: int = 100
    per_batch: int = 32
    node_judge: str = "node-judge"


@dataclass(frozen=True)
class RealOptions:
    """Real data sets that a partition judge trains on beside the artificial tables.

    ``share`` is that of their tables in a step, ``per_set`` how many are drawn of each; ``without`` names
    data sets, groups and families to leave out.
    """

    share: float = field(default=0.0, metadata={"least": 0})
    per_set: int = 48
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """All that is needed to train one weights file again."""

    name: str
    method: str
    model: dict[str, Any]
    prior: dict[str, Any]
    seed: int = 0
    description: str = ""
    start: str = ""  # weights to begin with; none: freshly drawn parameters
    sizes: SizeOptions = field(default_factory=SizeOptions)
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    validation: ValidationOptions = field(default_factory=ValidationOptions)
    tables: TableOptions = field(default_factory=TableOptions)
    real: RealOptions = field(default_factory=RealOptions)
    encoder: dict[str, Any] | None = (
        None  # of single rows, before the network; None: it sees them as they are
    )
    phase: tuple[dict[str, Any], ...] = ()  # what is different in each of several trainings

    def to_dict(self) -> dict[str, Any]:
        """The recipe as nested plain values, ready for JSON; without encoder and phases where it has none."""
        values = dataclasses.asdict(self)
        return {key: value for key, value in values.items() if key not in OPTIONAL or value not in (None, ())}

    def phases(self) -> list[Recipe]:
        """The trainings that are run one after the other, each a recipe of its own; itself if it is one."""
        if not self.phase:
            return [self]
        common, found = self.to_dict(), list[Recipe]()
        del common["phase"]
        for number, changes in enumerate(self.phase):
            name = f"{self.name}-phase-{number + 1}"
            start = found[-1].name if found else self.start
            values = common | {"seed": self.seed + number, "name": name, "start": start}
            found.append(recipe_from_dict(values | {k: _changed(common, k, v) for k, v in changes.items()}))
        return found


# Entries that are left out of the plain values where there is nothing in them.
OPTIONAL = ("encoder", "phase")
# Entries that a phase may change.
OF_A_PHASE = ("seed", "model", "prior", "sizes", "optimizer", "validation", "tables")


def _changed(common: dict[str, Any], key: str, value: Any) -> Any:
    """An entry of a phase: tables add to what the recipe has, but for a prior that has a name of its own."""
    if key == "seed" or not isinstance(value, dict) or (key == "prior" and "name" in value):
        return value
    return common[key] | value


SECTIONS: dict[str, type[Any]] = {
    "sizes": SizeOptions,
    "optimizer": OptimizerOptions,
    "validation": ValidationOptions,
    "tables": TableOptions,
    "real": RealOptions,
}


def _section(kind: type[Options], values: Any, name: str) -> Options:
    """Build one section of a recipe; unknown or ill-typed entries are named."""
    if not isinstance(values, dict):
        raise RecipeError(f"[{name}] in the recipe must be a table of options.")
    known = [f.name for f in dataclasses.fields(kind)]  # type: ignore[arg-type]
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise RecipeError(f"[{name}] has no option {unknown[0]!r}; it takes {', '.join(known)}.")
    options = kind(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    )
    check_options(options, f"in [{name}]")
    return options


def _check_entries(values: dict[str, Any]) -> None:
    """Raise an error that names the first entry outside the sections which cannot be used."""
    for key in ("name", "method", "description", "start"):
        if not isinstance(values.get(key, ""), str):
            raise RecipeError(f"{key} in the recipe must be text, got {values[key]!r}.")
    if not values["name"].isprintable() or Path(values["name"]).name != (values["name"] or None):
        raise RecipeError(f"name in the recipe must be usable as a file name, got {values['name']!r}.")
    seed = values.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise RecipeError(f"seed in the recipe must be a whole number of at least 0, got {seed!r}.")
    for key in ("model", "prior", "encoder"):
        if not isinstance(values.get(key) or {}, dict) or (key != "encoder" and values[key] is None):
            raise RecipeError(f"[{key}] in the recipe must be a table of options.")
    _check_phases(values.get("phase", ()))
    if "name" not in values["prior"]:
        raise RecipeError("[prior] in the recipe lacks name, which says what the data are drawn from.")


def _check_phases(phases: Any) -> None:
    """Raise an error that names the first entry of the phases which cannot be there."""
    if not isinstance(phases, (list, tuple)) or not all(isinstance(one, dict) for one in phases):
        raise RecipeError("phases in the recipe must be tables that begin with [[phase]].")
    for number, one in enumerate(phases, 1):
        unknown = sorted(set(one) - set(OF_A_PHASE))
        if unknown:
            raise RecipeError(
                f"[[phase]] {number} cannot change {unknown[0]!r}; it takes {', '.join(OF_A_PHASE)}."
            )
    if phases and "model" in phases[-1]:
        raise RecipeError(
            "the last [[phase]] cannot change 'model': the finished network is that of [model]; say in the "
            "phases before what was different."
        )


def recipe_from_dict(values: dict[str, Any]) -> Recipe:
    """Check nested plain values and build the recipe."""
    known = {f.name for f in dataclasses.fields(Recipe)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise RecipeError(f"A recipe has no entry {unknown[0]!r}; it takes {', '.join(sorted(known))}.")
    missing = [key for key in ("name", "method", "model", "prior") if key not in values]
    if missing:
        raise RecipeError(f"The recipe lacks {', '.join(missing)}; see the files in recipes/ for examples.")
    _check_entries(values)
    built = {key: _section(kind, values[key], key) for key, kind in SECTIONS.items() if key in values}
    recipe = Recipe(**(values | built | {"phase": tuple(values.get("phase", ()))}))
    decay = recipe.optimizer.average_decay
    if decay > 1:
        raise RecipeError(f"average_decay in [optimizer] must be at most 1, got {decay!r}.")
    if recipe.optimizer.kept > 1 or (recipe.optimizer.kept and not recipe.start and not recipe.phase):
        raise RecipeError(
            "kept in [optimizer] is a share of the weights that a training starts with: it is at most 1, and "
            "start must be given, or an earlier phase."
        )
    recipe.phases()  # what is wrong with a later one should not be found when the first has been trained
    return recipe


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe from a TOML file."""
    with one_sentence(path, "recipe in TOML", "see the files in recipes/ for examples", RecipeError):
        return recipe_from_dict(tomllib.loads(Path(path).read_text(encoding="utf-8")))
