"""Chinese restaurant process mixture of round Gaussians, section 4.1 of AMCP."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clusterwise.priors.base import Prior, TaskBatch
from clusterwise.priors.gaussians import GaussianComponents
from clusterwise.priors.options import check_options
from clusterwise.priors.partitions import crp_labels, crp_labels_exact_k

__all__ = ["ChineseRestaurantMixture"]


@dataclass(frozen=True)
class ChineseRestaurantMixture(Prior):
    """AMCP section 4.1, in any number of dimensions.

    alpha ~ Exp(1), or ``alpha`` if it is given; c ~ CRP(alpha), given K = ``k_exact`` if that is
    given (K then says all that alpha could say about the partition);
    mu_k ~ Normal(0, mean_sd^2 I); x_i ~ Normal(mu_{c_i}, sd^2 I).

    The default scales are those of NCP. The AMCP text prints ``mean_sd = sd = 10``, under which not
    even the oracle can tell the clusters apart; DAC's scales are ``mean_sd = 3``, ``sd = 0.25``.

    A CRP partition comes without mixture weights, so the weights that the oracle knows are the
    empirical proportions n_j / N of the data set.
    """

    n_features: int = 2
    mean_sd: float = 10.0
    sd: float = 1.0
    alpha: float | None = None
    k_exact: int | None = None

    def __post_init__(self) -> None:
        check_options(self, f"of {type(self).__name__}")

    def draw(self, rng: np.random.Generator, n_sets: int, n_points: int) -> TaskBatch:
        labels = self._draw_labels(rng, n_sets, n_points)
        k = labels.max(axis=1) + 1  # labels are numbered by first appearance, without gaps
        means = rng.normal(0.0, self.mean_sd, (n_sets, int(k.max()), self.n_features))
        noise = rng.standard_normal((n_sets, n_points, self.n_features))
        points = means[np.arange(n_sets)[:, None], labels] + self.sd * noise
        components = [
            GaussianComponents(
                weights=np.bincount(labels[b]) / n_points,
                means=means[b, : k[b]],
                sds=np.full((k[b], self.n_features), float(self.sd)),
            )
            for b in range(n_sets)
        ]
        return TaskBatch(points, labels, components)

    def _draw_labels(self, rng: np.random.Generator, n_sets: int, n_points: int) -> np.ndarray:
        if self.k_exact is not None:
            return crp_labels_exact_k(rng, n_sets, self.k_exact, n_points)
        if self.alpha is not None:
            return crp_labels(rng, np.full(n_sets, float(self.alpha)), n_points)
        return crp_labels(rng, rng.exponential(1.0, n_sets), n_points)
