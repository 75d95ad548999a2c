"""Old place of ``check_options``."""

from clusterwise.priors.prior import check_options

__all__ = ["check_options"]
