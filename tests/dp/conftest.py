"""The enumeration is shared by the tests of every move; some tests ask for poor fits on purpose."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from clusterwise.exceptions import MisfitWarning, OtherKWarning

sys.path.insert(0, str(Path(__file__).parent))  # exact


@pytest.fixture(autouse=True)
def _poor_fits() -> None:
    for category in (MisfitWarning, OtherKWarning):
        warnings.simplefilter("ignore", category)
