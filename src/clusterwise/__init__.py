"""clusterwise: clusters, and how many there are, in one call.

>>> import clusterwise as cw
>>> X, y = cw.datasets.load_demo()
>>> est = cw.Clusterer(random_state=0).fit(X)
>>> est.labels_.shape == (len(X),)
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterwise import datasets, metrics, plotting, pretrained, report
    from clusterwise.clusterer.estimator import Clusterer
    from clusterwise.deepdpm.estimator import DeepDPM
    from clusterwise.deepdpm.feature_learning import ImageVariants
    from clusterwise.dp.estimator import DPMixture
    from clusterwise.gaussian.estimator import GaussianSearch
    from clusterwise.papers.act_st import ACTST
    from clusterwise.papers.amcp_estimator import AMCP
    from clusterwise.papers.chigac.chigac import CHiGac
    from clusterwise.papers.dac.dac import DAC
    from clusterwise.papers.ncp import NCP
    from clusterwise.partition import Partition, PartitionPosterior
    from clusterwise.pretrained import list_weights
    from clusterwise.tables import TablePreparation
    from clusterwise.training import read_recipe, train, train_from_labels

__version__ = "0.1.0"  # the only place; pyproject.toml reads it from here

__all__ = [
    "ACTST",
    "AMCP",
    "DAC",
    "NCP",
    "CHiGac",
    "Clusterer",
    "DPMixture",
    "DeepDPM",
    "GaussianSearch",
    "ImageVariants",
    "Partition",
    "PartitionPosterior",
    "TablePreparation",
    "__version__",
    "datasets",
    "list_weights",
    "metrics",
    "plotting",
    "pretrained",
    "read_recipe",
    "report",
    "train",
    "train_from_labels",
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
# Names are loaded on first use: importing torch takes seconds, and `clusterwise --help` needs none of it.
_MODULE_OF = {
    **ESTIMATORS,
    "ImageVariants": "clusterwise.deepdpm.feature_learning",
    "Partition": "clusterwise.partition",
    "PartitionPosterior": "clusterwise.partition",
    "TablePreparation": "clusterwise.tables",
    "list_weights": "clusterwise.pretrained",
    "read_recipe": "clusterwise.training",
    "train": "clusterwise.training",
    "train_from_labels": "clusterwise.training",
}
_SUBMODULES = {"datasets", "metrics", "plotting", "pretrained", "report"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"clusterwise.{name}")
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'clusterwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
