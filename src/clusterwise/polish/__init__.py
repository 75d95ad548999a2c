"""Polish partitions of a data set: EM, splits and mergers of clusters, judged by the evidence."""

from __future__ import annotations

from clusterwise.polish.posterior import k_posterior, probabilities
from clusterwise.polish.search import Polished, Scored, polish
from clusterwise.polish.shatter import VERY_ODD
from clusterwise.polish.splits import oddness

__all__ = ["VERY_ODD", "Polished", "Scored", "k_posterior", "oddness", "polish", "probabilities"]
