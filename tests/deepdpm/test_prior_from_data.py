"""The user's numbers, and what stands for those that are left out."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise import DeepDPM
from clusterwise.deepdpm.prior_from_data import prior_of_clusters
from clusterwise.gaussian.families import PRIORS
from clusterwise.gaussian.niw import CovarianceType


def test_the_default_is_the_prior_of_the_paper() -> None:
    for n in (100, 70_000):
        prior = prior_of_clusters(2, n, "full", 1e-4, None, DeepDPM().scatter_share)
        np.testing.assert_allclose(prior.psi, 0.005 * prior.nu)


def test_a_share_grows_with_the_rows_but_not_for_few() -> None:
    def scatter(n: int) -> float:
        return float(prior_of_clusters(2, n, "full", 1e-4, None, 2.5e-5).psi[0])

    assert scatter(100) == scatter(500) == pytest.approx(0.02)
    assert scatter(40_000) == pytest.approx(2 * scatter(20_000)) == pytest.approx(1.0)


@pytest.mark.parametrize("covariance_type", list(PRIORS))
def test_given_numbers(covariance_type: CovarianceType) -> None:
    prior = prior_of_clusters(2, 100, covariance_type, 0.5, 7.0, 1.0, np.array([3.0, 4.0]))
    assert type(prior) is PRIORS[covariance_type]
    assert (prior.kappa, prior.nu) == (0.5, 7.0)
    np.testing.assert_allclose(prior.psi, [21.0, 28.0])
