"""Settings of the tests of the papers' methods."""

from __future__ import annotations

import warnings

import pytest

from clusterwise.exceptions import MisfitWarning, OtherKWarning


@pytest.fixture(autouse=True)
def _poor_fits() -> None:
    """Some tests ask for poor fits on purpose."""
    for category in (MisfitWarning, OtherKWarning):
        warnings.simplefilter("ignore", category)
