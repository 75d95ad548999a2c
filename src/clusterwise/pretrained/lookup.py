"""Weights by name or path, and what their headers say, read without torch; one cache of networks."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open

from clusterwise._safety import one_sentence
from clusterwise.exceptions import RecipeError, UnknownWeightsError, WeightsFileError
from clusterwise.papers.methods import JUDGES, MODELS, model_class

if TYPE_CHECKING:
    from clusterwise.papers.model import TrainedModel

__all__ = ["Weights", "describe", "get_parameters", "get_weights", "list_weights", "read_header", "untrained"]

FORMAT = "clusterwise-weights-1"
DIGEST = "digest"  # the entry of the header that a file's numbers are checked by


@dataclass(frozen=True)
class Weights:
    """A trained network and what its file says about it; estimators show it by its name."""

    name: str
    model: TrainedModel = field(repr=False)
    recipe: dict[str, Any] = field(repr=False)
    # Steps done, seconds, validation figures, the range of the training data.
    facts: dict[str, Any] = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write a ``.safetensors`` file that estimators take by its path; return the path."""
        from clusterwise.pretrained.weights_file import save_weights  # torch: only when it is needed

        path = Path(path)
        if path.suffix != ".safetensors" or "\0" in str(path):
            name = path.stem.replace("\0", "")
            raise WeightsFileError(f"weights are saved as .safetensors; call the file {name}.safetensors.")
        save_weights(path, self)
        return path


def readable(path: str | Path) -> contextlib.AbstractContextManager[None]:
    """Turn what safetensors says about a file that is missing or damaged into one clear error."""
    return one_sentence(path, "safetensors file", "copy or train it again", WeightsFileError)


@contextlib.contextmanager
def fits_this_version(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong with the contents of an intact file into one clear error."""
    try:
        yield
    except (UnknownWeightsError, WeightsFileError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise WeightsFileError(
            f"{path} does not fit this version of clusterwise ({reason}); train it again."
        ) from error


def parse_header(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """The entries of a file's header, which are JSON in our files; none if it is of another program."""
    try:
        return {key: json.loads(value) for key, value in (metadata or {}).items()}
    except json.JSONDecodeError:
        return {}


def require_entries(header: Mapping[str, Any], path: str | Path) -> None:
    """Raise an error if a header is none of ours, or does not say what its network is."""
    if header.get("format") != FORMAT:
        raise WeightsFileError(
            f"{path} is not a clusterwise weights file; `clusterwise train` makes one from a recipe."
        )
    with fits_this_version(path):
        recipe = header["recipe"]
        entries = {"name": header["name"], "method": recipe["method"]}
        tables = {"facts": header["facts"], "model": recipe["model"], "encoder": recipe.get("encoder", {})}
        for key, value in (entries | tables).items():
            if not isinstance(value, str if key in entries else dict):
                raise RecipeError(f"{key} is {value!r}")
        if recipe["method"] not in MODELS:
            raise RecipeError(f"there is no method {recipe['method']!r}")
        _require_facts(recipe["method"], header["facts"])


# What is read of the facts, if it is there, and what must be.
NUMBERS = ("largest_coordinate", "max_out_of_range")
NEEDED = {"node-judge": None, "partition-judge": "max_out_of_range"}


def _require_facts(method: str, facts: Mapping[str, Any]) -> None:
    """Raise an error if facts that estimators use are missing or of another kind."""
    needed = NEEDED.get(method, "largest_coordinate")
    numbers = {name: facts[name] for name in NUMBERS if name in facts or name == needed}
    for name, value in (numbers | facts.get("cut", {})).items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise RecipeError(f"{name} is {value!r}")
    columns = facts.get("columns", [])
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise RecipeError("columns are no list of names")
    if "cut" in facts and set(facts["cut"]) != {"threshold", "spread"}:
        raise RecipeError(f"cut is {facts['cut']!r}")


def read_header(path: str | Path) -> tuple[dict[str, Any], int]:
    """The header of a weights file with ``name``, ``recipe`` and ``facts``; the number of its parameters."""
    with readable(path), safe_open(str(path), framework="np") as file:
        header = parse_header(file.metadata())
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 (not a dict)
    require_entries(header, path)
    return header, sum(map(math.prod, shapes))


def digest_of(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} torch.{array.dtype.name} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def read_arrays(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file that this package has written; anything else is one clear error."""
    with readable(path), safe_open(str(path), framework="np") as file:
        header = parse_header(file.metadata())
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    digest = header.pop(DIGEST, None)  # files of earlier versions have none
    if digest is not None and digest != digest_of(arrays):
        raise WeightsFileError(
            f"{path} is damaged: its numbers are not those that were written; copy it again."
        )
    # Half precision is how numbers are stored, never how a network computes.
    return header, {k: a.astype(np.float32) if a.dtype == np.float16 else a for k, a in arrays.items()}


def read_parameters(path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header of a weights file and the parameters of its network, all finite; without torch."""
    header, arrays = read_arrays(path)
    require_entries(header, path)
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise WeightsFileError(
            f"{path} holds NaN or infinity where weights should be; train or copy it again."
        )
    return header, arrays


@lru_cache(maxsize=1)
def _shipped() -> Path:
    return Path(str(resources.files("clusterwise.pretrained")))


def list_weights() -> list[str]:
    """Names of the weights that come with the package."""
    return sorted(path.stem for path in _shipped().glob("*.safetensors"))


@lru_cache(maxsize=64)
def _file_in(folder: Path, name: str) -> Path | None:
    path = folder / f"{name}.safetensors"
    return path if path.is_file() else None


def weights_path(weights: str | Path) -> Path:
    """The file of shipped weights by their name, or of others by their path."""
    shipped = _file_in(_shipped(), str(weights))
    if shipped is not None:
        return shipped
    path = Path(weights)
    if "\0" not in str(weights) and path.is_file():
        return path
    known = ", ".join(list_weights()) or "none"
    raise UnknownWeightsError(
        f"There are no weights {str(weights)!r}: pass the path of a file, "
        f"or one of the shipped names ({known})."
    )


@lru_cache(maxsize=16)
def _load(path: str, modified: int) -> Weights:
    from clusterwise.pretrained.weights_file import load_weights  # torch: only when a network is needed

    return load_weights(Path(path))


def get_weights(weights: str | Path | Weights, method: str | None = None) -> Weights:
    """Weights, loaded once per process; ``method`` is what they must have been trained for.

    Weights that are loaded already, see ``untrained``, are returned as they are.
    """
    if isinstance(weights, Weights):
        loaded = weights
    else:
        path = weights_path(weights)
        loaded = _load(os.path.abspath(path), path.stat().st_mtime_ns)
    if method is not None and loaded.model.method != method:
        raise _other_method(loaded.name, loaded.model.method, method)
    return loaded


@lru_cache(maxsize=4)
def _parameters(path: str, modified: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    return read_parameters(path)


def get_parameters(
    weights: str | Path | Weights, method: str
) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Name, facts and parameters, as arrays, of weights that were trained for a method; without torch.

    Files are read once per process.
    """
    if isinstance(weights, Weights):
        loaded = get_weights(weights, method)
        tensors = loaded.model.state_dict()
        return loaded.name, loaded.facts, {name: tensor.numpy() for name, tensor in tensors.items()}
    path = weights_path(weights)
    header, arrays = _parameters(os.path.abspath(path), path.stat().st_mtime_ns)
    if header["recipe"]["method"] != method:
        raise _other_method(header["name"], header["recipe"]["method"], method)
    return header["name"], header["facts"], arrays


def _other_method(name: str, found: str, method: str) -> WeightsFileError:
    return WeightsFileError(f"The weights {name!r} are for {found}, not for {method}; choose other weights.")


def untrained(weights: str | Path, seed: int = 0) -> Weights:
    """The network of these weights with freshly drawn parameters: the control of what training adds.

    Recipe and facts are those of the trained file.
    """
    from clusterwise.pretrained.weights_file import load_weights  # torch: only when a network is needed

    return load_weights(weights_path(weights), untrained_seed=seed)


def describe(weights: str | Path) -> dict[str, Any]:
    """Facts about weights: name, method, features (None: any number), parameters, steps, a one-line summary.

    Only the header of the file is read.
    """
    path = weights_path(weights)
    header, n_parameters = read_header(path)
    recipe = header["recipe"]
    with fits_this_version(path):
        found = {
            "name": header["name"],
            "method": recipe["method"],
            "n_features": None,
            "n_parameters": n_parameters,
            "steps": header["facts"]["steps"],
            "summary": recipe["description"],
        }
        if recipe["method"] not in JUDGES:  # a recipe may leave it to the network's default
            options = recipe.get("encoder", recipe["model"])
            if "n_features" not in options:  # only then, as the network needs torch
                options = {"n_features": model_class(recipe["method"]).config_class().n_features}
            found["n_features"] = options["n_features"]
    return found
