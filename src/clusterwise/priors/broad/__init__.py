"""A broad prior over labelled tables, from which networks learn to judge clusterings of any table."""

from clusterwise.priors.broad.broad_prior import BroadPrior
from clusterwise.priors.broad.labelled_table import NOISE, LabelledTable

__all__ = ["NOISE", "BroadPrior", "LabelledTable"]
