"""A broad prior over labelled tables, from which networks learn to judge clusterings of any table."""

from clusterwise.priors.broad.prior import BroadPrior
from clusterwise.priors.broad.table import NOISE, LabelledTable

__all__ = ["NOISE", "BroadPrior", "LabelledTable"]
