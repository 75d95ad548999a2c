"""The encoder: points in any order, absent points unread."""

from __future__ import annotations

import torch

from clusterwise.nn.encoder import SetEncoder


def test_permutation_and_masking() -> None:
    torch.manual_seed(0)
    encoder = SetEncoder(3, 8, 2, 4, 2, 2).double()
    points = torch.randn(2, 20, 3, dtype=torch.float64)
    order = torch.randperm(20)
    torch.testing.assert_close(encoder(points)[:, order], encoder(points[:, order]))
    mask = torch.arange(20) < 13
    masked = encoder(points, mask.expand(2, -1))[:, mask]
    torch.testing.assert_close(masked, encoder(points[:, mask]))
    assert not torch.allclose(masked, encoder(points)[:, mask])  # absent points would have mattered
