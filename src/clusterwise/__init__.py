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

from clusterwise.exceptions import MissingDependencyError

if TYPE_CHECKING:  # what editors and mypy know of the names that are loaded on first use
    from clusterwise import datasets as datasets
    from clusterwise import metrics as metrics
    from clusterwise import plotting as plotting
    from clusterwise import pretrained as pretrained
    from clusterwise import report as report
    from clusterwise.clusterer.estimator import Clusterer as Clusterer
    from clusterwise.deepdpm.estimator import DeepDPM as DeepDPM
    from clusterwise.deepdpm.feature_learning import ImageVariants as ImageVariants
    from clusterwise.dp.estimator import DPMixture as DPMixture
    from clusterwise.gaussian.estimator import GaussianSearch as GaussianSearch
    from clusterwise.papers.act_st import ACTST as ACTST
    from clusterwise.papers.amcp.network import AMCP as AMCP
    from clusterwise.papers.chigac.chigac import CHiGac as CHiGac
    from clusterwise.papers.dac.dac import DAC as DAC
    from clusterwise.papers.ncp import NCP as NCP
    from clusterwise.partition import Partition as Partition
    from clusterwise.partition import PartitionPosterior as PartitionPosterior
    from clusterwise.pretrained import list_weights as list_weights
    from clusterwise.tables import TablePreparation as TablePreparation
    from clusterwise.training import read_recipe as read_recipe
    from clusterwise.training import train as train
    from clusterwise.training import train_from_labels as train_from_labels

__version__ = "0.2.0"  # the only place; pyproject.toml reads it from here

# The one list of estimators: the class and the module that holds it. The package and the command line
# read it; those that need no network must do without torch, which takes seconds to import.
ESTIMATORS: dict[str, str] = {
    "Clusterer": "clusterwise.clusterer.estimator",
    "AMCP": "clusterwise.papers.amcp.network",
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

__all__ = ["__version__", *_MODULE_OF, *_SUBMODULES]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"clusterwise.{name}")
    if name in _MODULE_OF:
        try:
            return getattr(import_module(_MODULE_OF[name]), name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise MissingDependencyError(
                f"clusterwise.{name} needs torch, which is not installed; run: "
                "pip install 'clusterwise[networks]'"
            ) from error
    raise AttributeError(f"module 'clusterwise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
