"""clusterwise: clusters, and how many there are, in one call.

>>> import clusterwise as cw
>>> X, y = cw.datasets.load_demo()
>>> est = cw.DAC(random_state=0).fit(X)
>>> est.labels_.shape == (len(X),)
True
"""

from clusterwise import datasets, metrics, pretrained
from clusterwise.estimators import ACTST, DAC
from clusterwise.partition import Partition
from clusterwise.posterior import PartitionPosterior
from clusterwise.pretrained import list_weights
from clusterwise.training import read_recipe, train

__version__ = "0.1.0"

__all__ = [
    "ACTST",
    "DAC",
    "Partition",
    "PartitionPosterior",
    "__version__",
    "datasets",
    "list_weights",
    "metrics",
    "pretrained",
    "read_recipe",
    "train",
]
