"""The scikit-learn face: validate, delegate, store. Each estimator is loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterwise.estimators.act_st import ACTST
    from clusterwise.estimators.amcp import AMCP
    from clusterwise.estimators.chigac import CHiGac
    from clusterwise.estimators.clusterer import Clusterer
    from clusterwise.estimators.dac import DAC
    from clusterwise.estimators.deep_dpm import DeepDPM
    from clusterwise.estimators.dp_mixture import DPMixture
    from clusterwise.estimators.gaussian_search import GaussianSearch
    from clusterwise.estimators.ncp import NCP

__all__ = [
    "ACTST",
    "AMCP",
    "DAC",
    "ESTIMATORS",
    "NCP",
    "CHiGac",
    "Clusterer",
    "DPMixture",
    "DeepDPM",
    "GaussianSearch",
]

# The one list of estimators: the class and the module that holds it. The package and the command line
# read it; those that need no network must do without torch, which takes seconds to import.
ESTIMATORS: dict[str, str] = {
    "Clusterer": "clusterwise.estimators.clusterer",
    "AMCP": "clusterwise.estimators.amcp",
    "DAC": "clusterwise.estimators.dac",
    "ACTST": "clusterwise.estimators.act_st",
    "NCP": "clusterwise.estimators.ncp",
    "CHiGac": "clusterwise.estimators.chigac",
    "DPMixture": "clusterwise.estimators.dp_mixture",
    "DeepDPM": "clusterwise.estimators.deep_dpm",
    "GaussianSearch": "clusterwise.estimators.gaussian_search",
}


def __getattr__(name: str) -> Any:
    if name in ESTIMATORS:
        return getattr(import_module(ESTIMATORS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
