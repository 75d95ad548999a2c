"""Communities of the neighbour graph at several resolutions (Traag, Waltman and van Eck, 2019)."""

from __future__ import annotations

import numpy as np

from clusterwise.trees.linkages import GRAPH_NEIGHBOURS, neighbour_graph
from clusterwise.trees.neighbourhood import Neighbourhood

__all__ = ["RESOLUTIONS", "communities"]

RESOLUTIONS = (0.1, 0.3, 0.6, 1.0, 2.0, 4.0)


def communities(near: Neighbourhood, resolution: float) -> np.ndarray:
    """Labels (m,) of Leiden's communities."""
    from sknetwork.clustering import Leiden

    graph = neighbour_graph(near, GRAPH_NEIGHBOURS)
    return np.asarray(Leiden(resolution=resolution, random_state=0).fit_predict(graph), dtype=np.int64)
