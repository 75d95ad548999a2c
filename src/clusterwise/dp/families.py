"""The one list of covariance types."""

from __future__ import annotations

from clusterwise.dp.diagonal import Diagonal
from clusterwise.dp.full import Full
from clusterwise.dp.niw import CovarianceType, NormalInverseWishart
from clusterwise.dp.spherical import Spherical

__all__ = ["PRIORS"]

PRIORS: dict[CovarianceType, type[NormalInverseWishart]] = {
    "full": Full,
    "diag": Diagonal,
    "spherical": Spherical,
}
