"""DeepDPM's prior of a cluster, from the user's numbers to the units of the features."""

from __future__ import annotations

import numpy as np

from clusterwise.fitting.validation import require_degrees_of_freedom
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart

__all__ = ["prior_of_clusters"]

# The authors' prior variance of a cluster, in units of the data's. For many rows the prior's scatter matrix
# nu Psi can be a share of that of the data instead: it keeps the number of clusters from growing with the
# number of rows, as clusters are never exactly Gaussian.
MIN_VARIANCE = 0.005


def prior_of_clusters(
    n_features: int,
    n_rows: int,
    covariance_type: CovarianceType,
    kappa: float,
    degrees_of_freedom: float | None,
    scatter_share: float,
    variances: np.ndarray | None = None,
) -> NormalInverseWishart:
    """The prior for this many rows; ``variances`` (f,) are those of a cluster's features.

    Without them nu is f + 2, and nu Psi is a share of the data's scatter, but not less than the authors'.
    """
    if degrees_of_freedom is not None:
        require_degrees_of_freedom(degrees_of_freedom, n_features, covariance_type)
    nu = float(n_features + 2 if degrees_of_freedom is None else degrees_of_freedom)
    if variances is None:
        variances = np.full(n_features, max(MIN_VARIANCE, scatter_share * n_rows / nu))
    return PRIORS[covariance_type](float(kappa), nu, nu * variances)
