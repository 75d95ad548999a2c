"""All estimators with tiny networks, and data with clusters that they find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterwise import ACTST, AMCP, DAC, NCP, CHiGac
from clusterwise.estimators.amortized import AmortizedClusterer

Make = Callable[..., AmortizedClusterer]

VARIANTS: dict[str, tuple[type[AmortizedClusterer], str, dict[str, Any]]] = {
    "minimum-loss": (DAC, "tiny-minimum-loss", {"filtering": "minimum-loss"}),
    "anchored": (DAC, "tiny-anchored", {"filtering": "anchored"}),
    "without-density": (DAC, "tiny-without-density", {}),
    "act-st": (ACTST, "tiny-act-st", {}),
    "amcp": (AMCP, "tiny-amcp", {}),
    "chigac": (CHiGac, "tiny-chigac", {}),
    "chigac-drawn": (CHiGac, "tiny-chigac", {"n_draws": 3, "stop": "empty"}),
    "ncp": (NCP, "tiny-ncp", {"n_orders": 10}),
    "ncp-greedy": (NCP, "tiny-ncp", {"n_orders": 10, "greedy": True, "zoom_levels": 1}),
    "amcp-network-alone": (AMCP, "tiny-amcp", {"merge": False, "update": False}),
}
WITH_DENSITY = [name for name in VARIANTS if name != "without-density"]
WITH_POSTERIOR = ["anchored", "act-st", "amcp", "amcp-network-alone", "ncp", "ncp-greedy"]
WITH_POSTERIOR += ["chigac", "chigac-drawn"]


@pytest.fixture
def make_variant(tiny_networks: Path) -> Callable[..., AmortizedClusterer]:
    """Return a maker of estimators by the name of their variant; options change the defaults."""

    def make(variant: str, **options: Any) -> AmortizedClusterer:
        estimator, network, defaults = VARIANTS[variant]
        weights = tiny_networks / f"{network}.safetensors"
        return estimator(**{"weights": weights, "random_state": 0, **defaults, **options})

    return make


def _maker_of_each(names: list[str]) -> Any:
    @pytest.fixture(params=names)
    def make(request: pytest.FixtureRequest, make_variant: Make) -> Make:
        return lambda **options: make_variant(request.param, **options)

    return make


make = _maker_of_each(list(VARIANTS))
make_with_density = _maker_of_each(WITH_DENSITY)
make_with_posterior = _maker_of_each(WITH_POSTERIOR)


@pytest.fixture(scope="session")
def heaps() -> np.ndarray:
    """Four clear clusters of 50, 40, 30 and 20 rows in mixed order, far from the origin; (140, 2)."""
    rng = np.random.default_rng(1)
    centres = np.array([[0.0, 0.0], [700.0, 0.0], [0.0, 800.0], [900.0, 900.0]])
    points = np.repeat(centres, [50, 40, 30, 20], axis=0) + rng.normal(0, 50, (140, 2))
    return rng.permutation(points) + [4000.0, -2500.0]
