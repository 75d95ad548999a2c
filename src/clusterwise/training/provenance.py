"""Where weights come from: the commit, the libraries, and the weights that a training began with."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from torch import nn

from clusterwise.exceptions import RecipeError
from clusterwise.pretrained.registry import weights_path
from clusterwise.pretrained.weights_file import read_tensors

__all__ = ["begin_with", "versions"]

LIBRARIES = ("clusterwise", "torch", "numpy")


def versions() -> dict[str, str]:
    """The versions of Python and the libraries, and the commit if the package is run from a checkout."""
    found = {"python": platform.python_version()}
    found |= {name: metadata.version(name) for name in LIBRARIES}
    ask = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return found  # installed, or no git
    return {"commit": said.stdout.strip()} | found


def begin_with(model: nn.Module, start: str, directory: Path | None) -> dict[str, Any]:
    """Give a network the parameters of other weights, as far as it has them; return what they were.

    ``start`` is a file in the directory of the training, a file by its path, or the name of shipped weights.
    """
    own_file = None if directory is None else directory / f"{start}.safetensors"
    path = own_file if own_file is not None and own_file.is_file() else weights_path(start)
    tensors, header = read_tensors(path)
    own = model.state_dict()
    unlike = [name for name, tensor in tensors.items() if name in own and own[name].shape != tensor.shape]
    if unlike or not set(own) & set(tensors):
        what = unlike[0] if unlike else "its parameters"
        raise RecipeError(
            f"start: {path} is of another network ({what} differ); leave start out, or fit [model]."
        )
    model.load_state_dict({name: tensor for name, tensor in tensors.items() if name in own}, strict=False)
    facts = header.get("facts", {})
    known = ("steps", "seconds", "versions", "start")
    chain = {"name": header.get("name", path.stem), "new_parameters": sorted(set(own) - set(tensors))}
    return chain | {key: facts[key] for key in known if key in facts}
