"""All constants of the search in one place, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT", "SearchSettings"]


@dataclass(frozen=True)
class SearchSettings:
    """How clusters are believed to look a priori, and how far the search goes."""

    # How alike the clusters' covariances are is not known: the prior of a covariance may be worth so many
    # points around the pooled one, from hardly any to many, and the evidence averages over these.
    strengths: tuple[float, ...] = (2.0, 12.0, 72.0, 432.0)
    # Clusters are things apart: before any is seen, the variance of their centres is taken to be this many
    # times a cluster's own. It counts as one cluster, so that the data decide where there are several.
    means_apart: float = 100.0
    # EM ends when no cluster gains or loses more than this many points in a step, or after so many steps.
    standstill: float = 0.05
    most_em_steps: int = 60
    # A cluster is tried for a split if moments or shares along a projection are this unlikely for one
    # Gaussian, as a chi-squared with two degrees of freedom: about one in a hundred.
    suspicious: float = 9.0
    # EM steps of two parts of a cluster before the evidence of the split is looked at.
    split_steps: int = 12
    # A move that seems to lose no more evidence than this is tried all the same: what surrounds it adapts.
    worth_a_trial: float = 6.0


DEFAULT = SearchSettings()
