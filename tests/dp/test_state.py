from __future__ import annotations

import numpy as np
import pytest
from exact import partitions
from scipy import integrate, stats

from clusterwise.dp.state import GammaPrior, draw_alpha, log_partition_probability


@pytest.mark.parametrize("alpha", [0.1, 1.0, 7.0])
def test_probabilities_of_all_partitions_sum_to_one(alpha):
    logs = [log_partition_probability(np.bincount(z).astype(float), alpha) for z in partitions(7)]
    assert np.exp(logs).sum() == pytest.approx(1.0)


def test_alpha_is_drawn_from_its_posterior():
    """Mean and standard deviation against the integral of prior times probability of K."""
    n, k, prior = 60, 9, GammaPrior(2.0, 0.5)

    def weight(alpha: float, power: int) -> float:
        counts = np.array([n - k + 1.0] + [1.0] * (k - 1))
        log_weight = stats.gamma.logpdf(alpha, prior.shape, scale=1 / prior.rate)
        return alpha**power * np.exp(log_weight + log_partition_probability(counts, alpha) + 150)

    moments = [integrate.quad(weight, 1e-9, 60, args=(p,), limit=200)[0] for p in range(3)]
    mean = moments[1] / moments[0]
    sd = np.sqrt(moments[2] / moments[0] - mean**2)
    rng, alpha, draws = np.random.default_rng(0), 1.0, []
    for _ in range(20_000):
        alpha = draw_alpha(rng, alpha, k, n, prior)
        draws.append(alpha)
    drawn = np.array(draws[100:])
    error = 5 * sd / np.sqrt(len(drawn) / 5)  # successive draws are correlated, but little
    assert abs(drawn.mean() - mean) < error
    assert abs(drawn.std() - sd) < error
