"""Pictures of a fitted estimator, as Display objects in scikit-learn's manner; they need matplotlib."""

from clusterwise.plotting.n_clusters import HistoryDisplay, KPosteriorDisplay
from clusterwise.plotting.palette import cluster_colours
from clusterwise.plotting.scatter import ClusterDisplay
from clusterwise.plotting.steps import StepsDisplay
from clusterwise.plotting.tree import TreeDisplay

__all__ = [
    "ClusterDisplay",
    "HistoryDisplay",
    "KPosteriorDisplay",
    "StepsDisplay",
    "TreeDisplay",
    "cluster_colours",
]
