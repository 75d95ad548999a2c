"""DeepDPM's prior of a cluster, from the user's numbers to the units of the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from clusterwise.deepdpm.feature_space import Space
from clusterwise.fitting.validation import by_feature, require_degrees_of_freedom
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType, NormalInverseWishart

__all__ = ["prior_of_clusters"]

# The authors' prior variance of a cluster, in units of the data's. For many rows the prior's scatter matrix
# nu Psi can be a share of that of the data instead: it keeps the number of clusters from growing with the
# number of rows, as clusters are never exactly Gaussian.
LEAST_VARIANCE = 0.005


def prior_of_clusters(
    space: Space,
    n_rows: int,
    covariance_type: CovarianceType,
    kappa: float,
    degrees_of_freedom: float | None,
    scatter_share: float,
    variances: Any = None,
) -> NormalInverseWishart:
    """The prior for this many rows; ``variances`` is a number or (d,), in the units of the data.

    Without them nu is d + 2, and nu Psi is a share of the data's scatter, but not less than the authors'.
    """
    d = space.n_features
    if degrees_of_freedom is not None:
        require_degrees_of_freedom(degrees_of_freedom, d, covariance_type)
    nu = float(d + 2 if degrees_of_freedom is None else degrees_of_freedom)
    if variances is None:
        in_features = np.full(d, max(LEAST_VARIANCE, scatter_share * n_rows / nu))
    else:
        in_features = space.variances(by_feature(variances, space.n_given, "covariance_prior", "positive"))
    return PRIORS[covariance_type](float(kappa), nu, nu * in_features)
