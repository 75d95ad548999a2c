"""What cluster-wise loops share: draws of a point, and labels 0 .. K-1."""

from __future__ import annotations

import numpy as np
import torch

from clusterwise.papers.paths import compact_labels, drawn_points


def test_draws_follow_the_probabilities() -> None:
    probabilities = np.array([0.1, 0.0, 0.6, 0.3])
    with np.errstate(divide="ignore"):
        logits = np.log(probabilities) + 5.0
    uniform = (np.arange(1000) + 0.5) / 1000
    drawn = drawn_points(np.tile(logits, (1000, 1)), uniform)
    np.testing.assert_array_equal(np.bincount(drawn, minlength=4), [100, 0, 600, 300])


def test_minus_one_takes_the_likeliest() -> None:
    logits = np.array([[0.0, 2.0, 1.0]] * 3)
    np.testing.assert_array_equal(drawn_points(logits, np.array([-1.0, 0.0, 0.999])), [1, 0, 2])
    np.testing.assert_array_equal(drawn_points(logits, np.full(3, -1.0)), [1, 1, 1])


def test_labels_in_use_are_numbered_from_zero() -> None:
    columns, present = torch.tensor([7, 2, 9, 2, 4]), torch.tensor([True, True, False, True, True])
    np.testing.assert_array_equal(compact_labels(columns, present), [2, 0, 0, 0, 1])
