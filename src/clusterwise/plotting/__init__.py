"""Pictures of a fitted estimator, as Display objects in scikit-learn's manner; they need matplotlib."""

from clusterwise.plotting.alternatives import KPosteriorDisplay, TreeDisplay
from clusterwise.plotting.course import HistoryDisplay, StepsDisplay
from clusterwise.plotting.plane import cluster_colours
from clusterwise.plotting.scatter import ClusterDisplay

__all__ = [
    "ClusterDisplay",
    "HistoryDisplay",
    "KPosteriorDisplay",
    "StepsDisplay",
    "TreeDisplay",
    "cluster_colours",
]
