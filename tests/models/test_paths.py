"""What cluster-wise loops share: draws of a point, and the moments of each cluster."""

from __future__ import annotations

import numpy as np
import torch

from clusterwise.models.paths import drawn_index, drawn_points, summarized_paths


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


def test_tensors_are_drawn_alike() -> None:
    logits = torch.randn(50, 9, generator=torch.Generator().manual_seed(0))
    uniform = torch.rand(50, generator=torch.Generator().manual_seed(1))
    expected = drawn_points(logits.numpy(), uniform.numpy())
    np.testing.assert_array_equal(drawn_index(logits, uniform), expected)


def test_moments_of_the_present_points() -> None:
    rng = np.random.default_rng(0)
    points, present = rng.normal(size=(20, 2)), np.arange(20) % 4 > 0
    labels = np.arange(20) % 3
    found = summarized_paths(
        torch.from_numpy(points), torch.from_numpy(present), [torch.from_numpy(labels)] * 2, [], True
    )
    assert found.summaries is not None
    inside, own = points[present], labels[present]
    means = np.stack([inside[own == k].mean(axis=0) for k in range(3)])
    pooled = np.square(inside - means[own]).mean(axis=0)
    for k in range(3):
        scatter = np.square(inside[own == k] - means[k]).sum(axis=0)
        variances = (scatter + pooled) / ((own == k).sum() + 1)
        np.testing.assert_allclose(found.summaries.means[k], means[k])
        np.testing.assert_allclose(found.summaries.log_sds[k], 0.5 * np.log(variances))
        np.testing.assert_allclose(found.log_proportions[k].exp(), (own == k).mean())
    assert len(found.draws) == 1
    assert found.cap_reached


def test_equal_points_have_some_variance() -> None:
    points, present = torch.zeros(4, 2), torch.ones(4, dtype=torch.bool)
    found = summarized_paths(points, present, [torch.zeros(4, dtype=torch.int64)], [], False)
    assert found.summaries is not None
    np.testing.assert_allclose(found.summaries.log_sds, -7.0)
