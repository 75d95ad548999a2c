"""A trained network and what its file says about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterwise.models.base import AmortizedModel

__all__ = ["Weights"]


@dataclass(frozen=True)
class Weights:
    """A trained network and what its file says about it; estimators show it by its name."""

    name: str
    model: AmortizedModel = field(repr=False)
    recipe: dict[str, Any] = field(repr=False)
    # Steps done, seconds, validation figures, the range of the training data.
    facts: dict[str, Any] = field(repr=False)
