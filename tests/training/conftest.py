"""A recipe that trains in a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from clusterwise.training.recipe import Recipe, recipe_from_dict


@pytest.fixture
def tiny() -> dict[str, Any]:
    """The recipe as the plain values of a TOML file; change what you like."""
    return {
        "name": "tiny",
        "method": "dac",
        "seed": 3,
        "description": "a network for tests",
        "model": {
            "n_features": 2,
            "filtering": "anchored",
            "n_anchors": 2,
            "width": 8,
            "n_heads": 2,
            "n_inducing": 3,
            "n_encoder_blocks": 1,
            "n_decoder_blocks": 1,
            "n_wavelengths": 2,
        },
        "prior": {"name": "mixture-of-gaussians", "n_features": 2, "k_max": 3},
        "sizes": {"n_points": [8, 12], "points_per_batch": 24},
        "optimizer": {"steps": 10, "learning_rate": 0.01, "warm_up": 3, "clip": 1.0, "average_decay": 0.9},
        "validation": {"every": 4, "n_sets": 2, "n_points": 10},
    }


@pytest.fixture
def tiny_recipe(tiny: dict[str, Any]) -> Callable[..., Recipe]:
    """Build the tiny recipe with some sections changed: ``tiny_recipe(optimizer={"steps": 3})``."""

    def build(**changes: Any) -> Recipe:
        values = dict(tiny)
        for key, value in changes.items():
            values[key] = {**values[key], **value} if isinstance(value, dict) else value
        return recipe_from_dict(values)

    return build
