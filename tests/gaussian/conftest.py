"""A data set that several tests look at."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from clusterwise.exceptions import MisfitWarning, OtherKWarning
from clusterwise.gaussian.mixture import Sample

sys.path.insert(0, str(Path(__file__).parent))  # search_data

from search_data import heaps, sample_of


@pytest.fixture
def three() -> tuple[Sample, np.ndarray]:
    """Three clusters, one of them small, and their labels."""
    points, labels = heaps([80, 120, 15], 8.0)
    return sample_of(points), labels


@pytest.fixture(autouse=True)
def _poor_fits() -> None:
    """Some tests ask for poor fits on purpose."""
    for category in (MisfitWarning, OtherKWarning):
        warnings.simplefilter("ignore", category)
