"""Some tests ask for poor fits on purpose; tests/pipeline/test_misfit.py is about what is said of them."""

from __future__ import annotations

import warnings

import pytest

from clusterwise.exceptions import MisfitWarning, OtherKWarning


@pytest.fixture(autouse=True)
def _poor_fits() -> None:
    for category in (MisfitWarning, OtherKWarning):
        warnings.simplefilter("ignore", category)
