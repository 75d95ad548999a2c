"""The border between arrays and tensors."""

from __future__ import annotations

import numpy as np
import torch

from clusterwise._tensors import to_numpy
from clusterwise.papers.network_method import pad_sets

POINTS = np.random.default_rng(0).normal(size=(50, 3))


def test_padding() -> None:
    sets = [POINTS[:4], POINTS[4:5], POINTS[5:12]]
    points, mask = pad_sets(sets)
    assert points.shape == (3, 7, 3)
    assert points.dtype == torch.float32
    assert mask.dtype == torch.bool
    assert mask.sum(1).tolist() == [4, 1, 7]
    for b, original in enumerate(sets):
        np.testing.assert_array_equal(points[b, mask[b]].numpy(), original.astype(np.float32))
        assert not points[b, ~mask[b]].any()
        assert mask[b, : len(original)].all()


def test_to_numpy() -> None:
    tensor = torch.tensor([1.5, 2.5], requires_grad=True)
    assert to_numpy(tensor).tolist() == [1.5, 2.5]
    assert to_numpy(tensor).dtype == np.float32
    assert to_numpy(tensor, np.float64).dtype == np.float64
