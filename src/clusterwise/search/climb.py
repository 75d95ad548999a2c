"""The search: from each candidate partition uphill in evidence, by mergers and splits of clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clusterwise.search.em import refined, state_of_labels
from clusterwise.search.evidence import Sample, State

__all__ = ["climb"]


def climb(sample: Sample, candidates: Sequence[np.ndarray], with_moves: bool) -> list[State]:
    """All distinct states that the search has come by from the candidates, labels (n,) each, best first."""
    states = [refined(sample, state_of_labels(sample, labels)) for labels in candidates]
    return sorted(states, key=lambda state: -state.log_evidence)
