"""Which weights are shipped, where they are, and one cache of loaded networks per process."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from clusterwise.exceptions import UnknownWeightsError, WeightsFileError
from clusterwise.pretrained.weights_file import Weights, load_weights

__all__ = ["describe", "get_weights", "list_weights", "weights_path"]


@lru_cache(maxsize=1)
def _shipped() -> Path:
    return Path(str(resources.files("clusterwise.pretrained")))


def list_weights() -> list[str]:
    """Names of the weights that come with the package."""
    return sorted(path.stem for path in _shipped().glob("*.safetensors"))


def weights_path(weights: str | Path) -> Path:
    """Find shipped weights by name, or a file by its path."""
    shipped = _shipped() / f"{weights}.safetensors"
    if shipped.is_file():
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
    return load_weights(Path(path))


def get_weights(weights: str | Path, method: str | None = None) -> Weights:
    """Load weights once per process; ``method`` is what they must have been trained for."""
    path = weights_path(weights)
    loaded = _load(os.path.abspath(path), path.stat().st_mtime_ns)
    if method is not None and loaded.model.method != method:
        raise WeightsFileError(
            f"The weights {loaded.name!r} are for {loaded.model.method}, not for {method}; "
            "choose others with `weights=`."
        )
    return loaded


def describe(weights: str | Path) -> dict[str, Any]:
    """Facts about weights: name, method, features, parameters, and a one-line summary."""
    loaded = get_weights(weights)
    return {
        "name": loaded.name,
        "method": loaded.model.method,
        "n_features": loaded.model.n_features,
        "n_parameters": loaded.facts["n_parameters"],
        "steps": loaded.facts["steps"],
        "summary": loaded.recipe["description"],
    }
