"""From a data set that a prior has drawn to a case whose oracle is known."""

from __future__ import annotations

from clusterwise.bench.registry import Case, Truth
from clusterwise.priors.base import LabelledSet

__all__ = ["TEST_SEED", "case_of"]

# First word of the seed of every test set. Training draws from ``default_rng([seed, stream, step])`` with
# small seeds, so no test set is one that a network was trained on. What follows it is the benchmark's own:
# (n_max, k_max, index) in `mog`, else a word that no other benchmark uses, and whatever it needs.
TEST_SEED = 2**31


def case_of(drawn: LabelledSet, index: int) -> Case:
    """Return data set ``index`` of a setting, with its truth."""
    truth = Truth((drawn.labels,), drawn.oracle_labels(), drawn.oracle_log_likelihood())
    return Case(drawn.points, index, truth)
