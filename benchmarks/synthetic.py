"""Seeds of all test data, and the way from a drawn data set to a case whose oracle is known."""

from __future__ import annotations

from enum import IntEnum, unique

import numpy as np

from benchmarks.suite import Case
from clusterwise.priors.base import LabelledSet

__all__ = ["TEST_SEED", "Word", "case_of", "generator_of"]

# First word of the seed of every test set. Training draws from ``default_rng([seed, stream, step])`` with
# small seeds, so no test set is one that a network was trained on.
TEST_SEED = 2**31


@unique
class Word(IntEnum):
    """Second word of the seed: each kind of data has its own, so that no two share a data set.

    `mog` came first and has none: its n_max, which is larger than any of these, stands in its place.
    """

    CRP = 41
    ABLATIONS = 43
    GROWTH = 44
    CHIGAC = 46
    DP_SPEED = 48
    POSTERIORS = 49
    CALIBRATION = 50
    SCALES = 51
    MANY_CLUSTERS = 52
    CORRELATED = 53
    ONE_GAUSSIAN = 54
    ONE_CLUSTER = 55
    TABLE_SPEED = 56
    TRUST = 57
    WARPED = 58


def generator_of(*key: int) -> np.random.Generator:
    """Return the random numbers of one test set; ``key`` begins with a ``Word``."""
    return np.random.default_rng([TEST_SEED, *key])


def case_of(drawn: LabelledSet, index: int) -> Case:
    """Return data set ``index`` of a kind, with its truth."""
    return Case(drawn.points, index, (drawn.labels,), drawn.oracle_labels(), drawn.oracle_log_likelihood())
