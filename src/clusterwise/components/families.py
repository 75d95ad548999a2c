"""The one list of covariance types."""

from __future__ import annotations

from clusterwise.components.diagonal import Diagonal
from clusterwise.components.full import Full
from clusterwise.components.niw import CovarianceType, NormalInverseWishart
from clusterwise.components.spherical import Spherical

__all__ = ["PRIORS"]

PRIORS: dict[CovarianceType, type[NormalInverseWishart]] = {
    "full": Full,
    "diag": Diagonal,
    "spherical": Spherical,
}
