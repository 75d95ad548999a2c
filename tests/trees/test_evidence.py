from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from clusterwise.components.full_loops import lift
from clusterwise.components.niw import sum_by_label
from clusterwise.search.em import state_of_labels
from clusterwise.trees.evidence import GaussianEvidence

COVARIANCES: list[Literal["full", "diag"]] = ["full", "diag"]


def gain(points: np.ndarray, labels: np.ndarray, covariance_type: Literal["full", "diag"]) -> float:
    evidence = GaussianEvidence(points, covariance_type)
    return evidence.gain(sum_by_label(lift(points), labels, int(labels.max()) + 1))


def heaps(sizes: tuple[int, ...], apart: float) -> tuple[np.ndarray, np.ndarray]:
    """Round heaps along a line, sorted by their first coordinate, of unit spread in the widest direction."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    points = np.random.default_rng(0).standard_normal((len(labels), 2))
    points[:, 0] += apart * labels
    order = np.argsort(points[:, 0])
    points = points[order] - points.mean(axis=0)
    return points / points.std(axis=0).max(), labels[order]


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_the_search_finds_the_same_evidence(covariance_type: Literal["full", "diag"]) -> None:
    points, labels = heaps((80, 60, 9), 6.0)
    sample = GaussianEvidence(points, covariance_type).sample
    several, one = (state_of_labels(sample, of).log_evidence for of in (labels, np.zeros_like(labels)))
    assert gain(points, labels, covariance_type) == pytest.approx(several - one)


@pytest.mark.parametrize("covariance_type", COVARIANCES)
def test_a_handful_of_rows_apart_gains_and_half_of_a_gaussian_loses(
    covariance_type: Literal["full", "diag"],
) -> None:
    points, labels = heaps((400, 5), 12.0)
    assert gain(points, labels, covariance_type) > 0
    points, _ = heaps((400,), 0.0)
    assert gain(points, (points[:, 0] > 0).astype(int), covariance_type) < 0
    assert gain(points, np.zeros(400, dtype=int), covariance_type) == pytest.approx(0, abs=1e-8)


def test_rows_that_repeat_are_no_clusters_without_width() -> None:
    points = np.round(heaps((300,), 0.0)[0], 1)
    points = points[np.lexsort(points.T[::-1])]
    labels = np.unique(points[:, 0], return_inverse=True)[1]
    assert gain(points, labels, "full") < 0
