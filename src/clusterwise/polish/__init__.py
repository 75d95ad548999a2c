"""Polish partitions of a data set: EM, splits and mergers of clusters, judged by the evidence."""

from __future__ import annotations

from clusterwise.polish.search import Polished, Scored, polish
from clusterwise.polish.splits import SUSPICIOUS, oddness

__all__ = ["SUSPICIOUS", "Polished", "Scored", "oddness", "polish"]
