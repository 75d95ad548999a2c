"""All constants of the search in one place, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT", "SearchSettings"]


@dataclass(frozen=True)
class SearchSettings:
    """What is believed of clusters before any is seen, and how far the search goes."""

    # -- beliefs ---------------------------------------------------------------------------------
    # How alike the clusters' covariances are is not known: the prior of a covariance may be worth this many
    # points around the pooled one, from hardly any to many, and the evidence averages over these.
    strengths: tuple[float, ...] = (2.0, 12.0, 72.0, 432.0)
    # Clusters are things apart: the variance of their centres is taken to be this many times a cluster's own.
    # That counts as much as one cluster, so that the data decide where there are several.
    means_apart: float = 100.0

    # -- effort: more of each finds a little more and takes longer -------------------------------
    # EM ends when no cluster gains or loses more than this many points in a step, or after this many steps.
    standstill: float = 0.05
    most_em_steps: int = 60
    # A cluster with fewer points is none; memberships below the second number are no members.
    least_points: float = 0.5
    least_membership: float = 1e-3
    # A cluster is tried for a split if tests find it less probable than this for one Gaussian, along at most
    # this many directions, by this many EM steps of two parts.
    suspicious: float = 0.1
    most_directions: int = 6
    split_steps: int = 12
    # A split that seems to lose no more evidence is tried all the same: what surrounds it will adapt.
    worth_a_trial: float = 4.0
    # Mergers go on until the evidence lies this much below the best so far: all fragments of a cluster may
    # have to merge before it gains.
    depth: float = 20.0
    # Mixtures of as many clusters whose log evidences differ by no more are the same: EM stops a little
    # before its goal, and not at the same place from every side.
    same: float = 0.1
    # A cluster is not tried again as long as its moments and the logarithms of its size and of the clusters'
    # pooled variance have changed by no more.
    same_cluster: float = 0.02
    # Without a network the search starts from cells of about this many points, at most this many cells, put
    # together until there are this many clusters more than their evidence asks for: where clusters overlap it
    # asks for too few, and mergers are easier to find than splits.
    points_per_cell: int = 12
    most_cells: int = 256
    spare_clusters: int = 8


DEFAULT = SearchSettings()
