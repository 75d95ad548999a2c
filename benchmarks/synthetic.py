"""Seeds of all test data, and the way from a drawn data set to a case whose oracle is known."""

from collections.abc import Callable
from enum import IntEnum, unique

import numpy as np

from benchmarks.suite import Case
from clusterwise.priors.prior import LabelledSet

# First word of the seed of every test set. Training draws from ``default_rng([seed, stream, step])`` with
# small seeds, so no test set is one that a network was trained on.
TEST_SEED = 2**31


@unique
class Word(IntEnum):
    """Second word of the seed: each kind of data has its own, so that no two share a data set.

    `mog` came first and has none: its n_max, which is larger than any of these, stands in its place. Numbers
    of suites that are gone (42, 44, 47, 48, 54) are not given again.
    """

    CRP = 41
    ABLATIONS = 43
    CHIGAC = 46
    POSTERIORS = 49
    CALIBRATION = 50
    SCALES = 51
    MANY_CLUSTERS = 52
    CORRELATED = 53
    ONE_CLUSTER = 55
    TABLE_SPEED = 56
    TRUST = 57
    WARPED = 58
    GROWTH = 59


def generator_of(*key: int) -> np.random.Generator:
    """Return the random numbers of one test set; ``key`` begins with a ``Word``."""
    return np.random.default_rng([TEST_SEED, *key])


def drawn(draw: Callable[[np.random.Generator], LabelledSet], *key: int) -> Case:
    """Return a data set with its truth; the last word of its key is its index among those of its kind."""
    found = draw(generator_of(*key))
    return Case(found.points, key[-1], (found.labels,), found.oracle_labels(), found.oracle_log_likelihood())
