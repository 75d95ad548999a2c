"""Networks of these tests are in double precision; what is compiled for weights is in single precision."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from clusterwise.exceptions import MisfitWarning, OtherKWarning
from clusterwise.papers import amcp


@pytest.fixture(autouse=True)
def _loops_in_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let AMCP's compiled loops run as they do for all weights.

    To compile them for double precision, too, takes a quarter of a minute, and nobody else needs it.
    """
    compiled = amcp.compiled_inference

    def in_single_precision(intra: Any, x: np.ndarray, log_seed_loss: np.ndarray, *others: Any) -> Any:
        return compiled(intra, x.astype(np.float32), log_seed_loss.astype(np.float32), *others)

    monkeypatch.setattr(amcp, "compiled_inference", in_single_precision)


@pytest.fixture(autouse=True)
def _poor_fits() -> None:
    """Some tests ask for poor fits on purpose."""
    for category in (MisfitWarning, OtherKWarning):
        warnings.simplefilter("ignore", category)
