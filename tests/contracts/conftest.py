"""Every public estimator with cheap settings, and a tiny network where it needs one; data with clusters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from clusterwise import ESTIMATORS
from clusterwise.exceptions import (
    MisfitWarning,
    NotConvergedWarning,
    OneClusterWarning,
    OtherKWarning,
)
from clusterwise.fitting.base import BaseClusterer


@dataclass(frozen=True)
class Make:
    """Makes estimators of one variant; options change its own."""

    name: str
    make_variant: Callable[..., BaseClusterer]
    heaps: np.ndarray
    shared: dict[str, BaseClusterer]

    def __call__(self, **options: Any) -> BaseClusterer:
        return self.make_variant(self.name, **options)

    def fitted(self) -> BaseClusterer:
        """The one that is fitted to the heaps, for all tests that read it and leave it as it is."""
        if self.name not in self.shared:
            self.shared[self.name] = self().fit(self.heaps)
        return self.shared[self.name]


@dataclass(frozen=True)
class Variant:
    """An estimator by its name, its tiny network, and options."""

    estimator: str
    network: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def has_posterior(self) -> bool:
        """Whether partitions can be sampled: all but DeepDPM, and DAC's one answer."""
        return self.estimator != "DeepDPM" and self.network != "tiny-minimum-loss"


VARIANTS = {
    "AMCP": Variant("AMCP", "tiny-amcp"),
    "CHiGac": Variant("CHiGac", "tiny-chigac"),
    "DAC": Variant("DAC", "tiny-minimum-loss"),
    "DAC, anchored": Variant("DAC", "tiny-anchored", {"filtering": "anchored"}),
    "DAC, flows": Variant("DAC", "tiny-flow"),
    "ACTST": Variant("ACTST", "tiny-act-st"),
    "NCP": Variant("NCP", "tiny-ncp", {"n_orders": 10}),
    "GaussianSearch": Variant("GaussianSearch"),
    "Clusterer": Variant("Clusterer", None, {"preparation": None}),
    "DPMixture": Variant("DPMixture", None, {"n_warm_up": 15, "n_draws": 8, "n_chains": 1}),
    "DeepDPM": Variant("DeepDPM", None, {"k_init": 4, "n_hidden": 8, "max_epochs": 8}),
}


def rows_seen(estimator: Any) -> np.ndarray:
    """Which rows of ``fit`` (n,) the network has seen."""
    seen = np.zeros(len(estimator._rows), dtype=bool)
    seen[estimator._rows.order[estimator._answer.rows]] = True
    return seen


@pytest.fixture(autouse=True)
def _hasty() -> None:
    """The settings are cheap, and say so."""
    for category in (NotConvergedWarning, OneClusterWarning, MisfitWarning, OtherKWarning):
        warnings.simplefilter("ignore", category)


@pytest.fixture(scope="session")
def shared() -> dict[str, BaseClusterer]:
    """Estimators that are fitted to the heaps, by the names of their variants."""
    return {}


@pytest.fixture
def make_variant(request: pytest.FixtureRequest) -> Callable[..., BaseClusterer]:
    """Return a maker of estimators by the name of their variant; options change the defaults."""

    def make(name: str, **options: Any) -> BaseClusterer:
        variant = VARIANTS[name]
        defaults = {"random_state": 0, **variant.options}
        if variant.network is not None:
            networks: Path = request.getfixturevalue("tiny_networks")  # only for those that have one
            defaults["weights"] = networks / f"{variant.network}.safetensors"
        return getattr(cw, variant.estimator)(**{**defaults, **options})

    return make


def _maker_of_each(are_asked: Callable[[str, Variant], bool]) -> Any:
    names = [name for name, variant in VARIANTS.items() if are_asked(name, variant)]

    @pytest.fixture(params=names)
    def make(
        request: pytest.FixtureRequest,
        make_variant: Callable[..., BaseClusterer],
        heaps: np.ndarray,
        shared: dict[str, BaseClusterer],
    ) -> Make:
        return Make(request.param, make_variant, heaps, shared)

    return make


make = _maker_of_each(lambda name, variant: True)
make_each = _maker_of_each(lambda name, variant: name == variant.estimator)  # one of each class
make_amortized = _maker_of_each(lambda name, variant: variant.network is not None)
make_network = _maker_of_each(lambda name, variant: variant.network is not None and name in ESTIMATORS)
# Networks for tests find clusters that are none, and tear some apart.
make_faithful = _maker_of_each(lambda name, variant: variant.network is None)
# Chains take other paths where numbers differ in their last digit.
make_without_chains = _maker_of_each(lambda name, variant: name != "DPMixture")
make_with_posterior = _maker_of_each(lambda name, variant: variant.has_posterior)


@pytest.fixture(scope="session")
def heaps() -> np.ndarray:
    """Four clear clusters of 50, 40, 30 and 20 rows in mixed order, far from the origin; (140, 2)."""
    rng = np.random.default_rng(1)
    centres = np.array([[0.0, 0.0], [700.0, 0.0], [0.0, 800.0], [900.0, 900.0]])
    points = np.repeat(centres, [50, 40, 30, 20], axis=0) + rng.normal(0, 50, (140, 2))
    return rng.permutation(points) + [4000.0, -2500.0]
