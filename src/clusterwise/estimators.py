"""The scikit-learn face: validate, delegate, store. Each estimator is loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterwise.clusterer.estimator import Clusterer
    from clusterwise.deepdpm.estimator import DeepDPM
    from clusterwise.dp.estimator import DPMixture
    from clusterwise.gaussian.estimator import GaussianSearch
    from clusterwise.papers.act_st import ACTST
    from clusterwise.papers.amcp_estimator import AMCP
    from clusterwise.papers.chigac.chigac import CHiGac
    from clusterwise.papers.dac.dac import DAC
    from clusterwise.papers.ncp import NCP

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
    "Clusterer": "clusterwise.clusterer.estimator",
    "AMCP": "clusterwise.papers.amcp_estimator",
    "DAC": "clusterwise.papers.dac.dac",
    "ACTST": "clusterwise.papers.act_st",
    "NCP": "clusterwise.papers.ncp",
    "CHiGac": "clusterwise.papers.chigac.chigac",
    "DPMixture": "clusterwise.dp.estimator",
    "DeepDPM": "clusterwise.deepdpm.estimator",
    "GaussianSearch": "clusterwise.gaussian.estimator",
}


def __getattr__(name: str) -> Any:
    if name in ESTIMATORS:
        return getattr(import_module(ESTIMATORS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
