"""What the default method compiles, in the order in which its first fit asks for it.

Functions that these call are compiled with them. A test holds the list against a fit.
"""

from __future__ import annotations

__all__ = ["VERSIONS"]

# module, function, types of the arguments as numba writes them
VERSIONS = (
    ("trees.neighbourhood", "_measure", "(f8[:,::1], f8[::1], f4[:,::1])"),
    ("trees.neighbourhood", "_find_nearest", "(f4[:,::1], i8[:,::1], f8[:,::1])"),
    ("trees.neighbourhood", "_prim", "(f4[:,::1], f8[::1], f8[::1], f8[::1], i8[::1], i8[:,::1], f8[::1])"),
    ("components.full_loops", "_lift", "(f8[:,::1], f8[:,::1])"),
    (
        "trees.agglomerative",
        "_chain_of_centres",
        "(f8[:,::1], i8[::1], f8[::1], i8[::1], f8[::1], i8[:,::1], f8[::1])",
    ),
    ("trees.agglomerative", "_name_by_merges", "(i8[:,::1], i8[::1], i8[::1], i8[:,::1])"),
    ("trees.tree", "_lay_out", "(i8[:,::1], i8[:,::1], i8[::1], i8[::1], i8[::1], i8[::1])"),
    (
        "trees.linkages",
        "_gini",
        "(i8[:,::1], f8[::1], f8, i8[::1], i8[::1], i8[::1], i8[::1], b1[::1], i8[:,::1], f8[::1])",
    ),
    (
        "trees.paris",
        "_merge",
        "(i8[::1], i8[::1], i8[::1], f8[::1], f8[::1], b1[::1], i8[::1], i8[::1], f8[::1], "
        "i8[:,::1], f8[::1])",
    ),
    ("trees.loops", "cumulated_moments", "(f8[:,::1], i8[::1], f8[:,::1])"),
    (
        "trees.loops",
        "edges_of_segments",
        "(i4[:,::1], f8[::1], i8[:,::1], i8[::1], i4[:,::1], i8[::1], f8[:,::1], f8[:,::1])",
    ),
    ("trees.loops", "neighbours_of_ranges", "(i4[:,::1], f8[:,::1], f8[::1], i8[::1], i8[:,::1], f8[:,::1])"),
    (
        "trees.loops",
        "gaussians_of_ranges",
        "(f8[:,::1], i8[::1], i8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1])",
    ),
    ("trees.loops", "neighbours_of_splits", "(i4[:,::1], f8[:,::1], f8[::1], i8[::1], i8[:,::1], f8[:,::1])"),
    (
        "trees.loops",
        "gaussians_of_splits",
        "(f8[:,::1], i8[::1], i8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[:,::1])",
    ),
    ("trees.cut", "_below", "(i8[::1], i8[:,::1], f8[::1], f8[::1], f8[::1], b1[::1])"),
    ("partition", "_rename", "(i8[::1], i8[::1], i8[::1])"),
    ("trees.cut", "_take", "(i8[:,::1], b1[::1], b1[::1], b1[::1])"),
    ("trees.neighbourhood", "_find_nearest", "(f8[:,::1], i8[:,::1], f8[:,::1])"),
    ("search.evidence", "_mark_new", "(f8[:,::1], b1[::1])"),
    ("search.evidence", "_pool", "(f8[:,::1], f8[::1], i8, b1, f8, f8[::1])"),
    (
        "components.full_loops",
        "_log_marginals_of_each",
        "(f8[:,::1], f8, f8[::1], f8[:,::1], f8, f8[:,:,::1], f8[:,::1])",
    ),
    ("search.evidence", "_log_mean", "(f8[:,::1], f8[::1])"),
    (
        "components.full_loops",
        "_natural_parameters",
        "(f8[:,::1], f8, f8[::1], f8[:,::1], f8, f8[:,:,::1], f8[:,::1])",
    ),
    ("search.em", "_expect", "(f8[:,::1], f8[::1], f8[::1])"),
    ("components.full_loops", "_are_positive", "(f8[:,:,::1], f8[:,::1])"),
    ("components.full_loops", "_posterior_moments", "(f8[:,::1], f8, f8[:,::1], f8, f8[:,::1], f8[:,:,::1])"),
    (
        "search.shapes",
        "_project",
        "(f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[:,:,::1], f8[:,::1], f8[:,::1])",
    ),
    ("search.shapes", "_oddness", "(f8[:,::1], f8[::1], f8[::1], f8[::1])"),
    ("search.shapes", "_cut", "(f8[:,::1], i8[:,::1], f8[::1], f8[::1], b1[:,::1])"),
    (
        "trees.communities",
        "_move",
        "(i8[::1], i8[::1], f8[::1], f8[::1], i8[::1], f8, f8, i8[:,::1], f8[:,::1])",
    ),
    ("trees.communities", "_number", "(i8[::1], i8[:,::1])"),
    (
        "trees.communities",
        "_refine",
        "(i8[::1], i8[::1], f8[::1], f8[::1], i8[::1], f8, i8[::1], i8[:,::1], f8[:,::1])",
    ),
    (
        "trees.communities",
        "_aggregate",
        "(i8[::1], i8[::1], f8[::1], i8[::1], i8[::1], i8[::1], f8[::1], i8[:,::1], f8[::1], "
        "i8[::1], i8[::1], f8[::1])",
    ),
    ("components.niw", "_add_by_label", "(f8[:,::1], i8[::1], f8[:,::1])"),
    (
        "trees.partitions",
        "_find_similar",
        "(i8[::1], i8[::1], i8[::1], i8[::1], i4[:,::1], f8[::1], i8[::1])",
    ),
    ("trees.partitions", "_count_between", "(i8[:,::1], i8[::1], f8[:,::1])"),
    ("components.full_loops", "_whiteners", "(f8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[::1])"),
    ("components.full_loops", "_squared_lengths", "(f8[:,::1], f8[:,::1], f8[:,:,::1], f8[::1], f8[:,::1])"),
    ("components.clusters", "_normalize", "(f8[:,::1],)"),
    (
        "pipeline.gaps",
        "_group",
        "(f8[:,::1], i8[::1], f8, f8[:,::1], f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], i8[::1])",
    ),
)
