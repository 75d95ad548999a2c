"""What a weights file says about its network, read without torch and without a tensor; and both together."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from clusterwise.exceptions import RecipeError, WeightsFileError

if TYPE_CHECKING:
    from clusterwise.papers.model import TrainedModel

__all__ = ["FORMAT", "Header", "Weights", "fits_this_version", "parse_metadata", "read_header", "readable"]

FORMAT = "clusterwise-weights-1"


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
        if path.suffix != ".safetensors":
            raise WeightsFileError(
                f"weights are saved as .safetensors; call the file {path.stem}.safetensors."
            )
        save_weights(path, self)
        return path


@dataclass(frozen=True)
class Header:
    """What a weights file says about its network."""

    name: str
    recipe: dict[str, Any]
    facts: dict[str, Any]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str | Path) -> Header:
        """Take the entries of a file's header; raise an error if it is none of ours."""
        if values.get("format") != FORMAT:
            raise WeightsFileError(
                f"{path} is not a clusterwise weights file; `clusterwise train` makes one from a recipe."
            )
        with fits_this_version(path):
            return cls(values["name"], values["recipe"], values["facts"])


@contextlib.contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn what safetensors says about a file that is missing or damaged into one clear error."""
    try:
        yield
    except OSError as error:
        raise WeightsFileError(f"Cannot read {path}: {error.strerror or error}.") from error
    except SafetensorError as error:
        raise WeightsFileError(
            f"{path} is truncated or not a safetensors file ({error}); copy or train it again."
        ) from error


@contextlib.contextmanager
def fits_this_version(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong with the contents of an intact file into one clear error."""
    try:
        yield
    except (RecipeError, RuntimeError, KeyError, TypeError) as error:
        raise WeightsFileError(
            f"{path} does not fit this version of clusterwise ({str(error).splitlines()[0]}); train it again."
        ) from error


def parse_metadata(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """Read the values of safetensors' metadata, which are JSON in our files."""
    try:
        return {key: json.loads(value) for key, value in (metadata or {}).items()}
    except json.JSONDecodeError:
        return {}  # the header of another program


def read_header(path: str | Path) -> tuple[Header, int]:
    """Read what a file says about its network, and count the network's parameters."""
    with readable(path), safe_open(str(path), framework="np") as file:
        metadata = file.metadata()
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 (not a dict)
    return Header.from_dict(parse_metadata(metadata), path), sum(map(math.prod, shapes))
