"""The one list of covariance types."""

from __future__ import annotations

from clusterwise.gaussian.diagonal import Diagonal
from clusterwise.gaussian.full import Full
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart
from clusterwise.gaussian.spherical import Spherical

__all__ = ["PRIORS"]

PRIORS: dict[CovarianceType, type[NormalInverseWishart]] = {
    "full": Full,
    "diag": Diagonal,
    "spherical": Spherical,
}
