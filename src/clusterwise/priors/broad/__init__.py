"""A broad prior over labelled tables: networks that score partitions of any table are trained on it."""

from clusterwise.priors.broad.broad_prior import BroadPrior
from clusterwise.priors.broad.labelled_table import NOISE, LabelledTable

__all__ = ["NOISE", "BroadPrior", "LabelledTable"]
