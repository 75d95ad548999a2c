"""Which weights are shipped, where they are, and one cache of loaded networks per process."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from clusterwise.exceptions import UnknownWeightsError, WeightsFileError
from clusterwise.papers.registry import JUDGES, model_class
from clusterwise.pretrained.header import Weights, fits_this_version, read_header

__all__ = ["describe", "get_weights", "list_weights", "untrained", "weights_path"]


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
    """Find shipped weights by name, or a file by its path."""
    shipped = _file_in(_shipped(), str(weights))
    if shipped is not None:
        return shipped
    path = Path(weights)
    if path.is_file():
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
    """Load weights once per process; ``method`` is what they must have been trained for.

    Weights that are loaded already, see ``untrained``, are returned as they are.
    """
    if isinstance(weights, Weights):
        loaded = weights
    else:
        path = weights_path(weights)
        loaded = _load(os.path.abspath(path), path.stat().st_mtime_ns)
    if method is not None and loaded.model.method != method:
        raise WeightsFileError(
            f"The weights {loaded.name!r} are for {loaded.model.method}, not for {method}; "
            "choose other weights."
        )
    return loaded


def untrained(weights: str | Path, seed: int = 0) -> Weights:
    """Return the network of these weights with freshly drawn parameters: the control of what training adds.

    Recipe and facts are those of the trained file.
    """
    from clusterwise.pretrained.weights_file import load_untrained  # torch: only when a network is needed

    return load_untrained(weights_path(weights), seed)


def describe(weights: str | Path) -> dict[str, Any]:
    """Facts about weights: name, method, features (None: any number), parameters, steps, a one-line summary.

    Only the header of the file is read.
    """
    path = weights_path(weights)
    header, n_parameters = read_header(path)
    with fits_this_version(path):
        method, options = header.recipe["method"], header.recipe["model"]
        if "encoder" in header.recipe:
            options = options | {"n_features": header.recipe["encoder"]["n_features"]}
        elif method in JUDGES:
            options = options | {"n_features": None}
        elif "n_features" not in options:  # a recipe may leave it to the network's default
            options = options | {"n_features": model_class(method).config_class().n_features}
        return {
            "name": header.name,
            "method": method,
            "n_features": options["n_features"],
            "n_parameters": n_parameters,
            "steps": header.facts["steps"],
            "summary": header.recipe["description"],
        }
