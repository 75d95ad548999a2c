"""Images turned, spliced and distorted: they keep what they hold."""

from __future__ import annotations

import torch

from clusterwise.nn.images import distorted, spliced, turned


def test_turns_are_the_eight_of_a_square() -> None:
    image = torch.arange(9.0)[None]
    found = {tuple(turned(image, torch.tensor([turn]), (3, 3))[0].tolist()) for turn in range(8)}
    assert len(found) == 8
    assert all(sorted(one) == image[0].tolist() for one in found)
    assert torch.equal(turned(image, torch.tensor([0]), (3, 3)), image)
    oblong = turned(torch.arange(6.0).repeat(8, 1), torch.arange(8), (2, 3))
    assert len({tuple(row) for row in oblong.tolist()}) == 4


def test_no_distortion_leaves_images_alone_and_some_moves_little() -> None:
    images = torch.zeros(5, 8, 8)
    images[:, 3:5, 3:5] = 1.0
    rows = images.flatten(1)
    generator = torch.Generator().manual_seed(0)
    torch.testing.assert_close(distorted(rows, 0.0, (8, 8), generator), rows, rtol=0, atol=1e-5)
    moved = distorted(rows, 0.5, (8, 8), generator)
    assert not torch.allclose(moved, rows)
    assert torch.allclose(moved.sum(1), rows.sum(1), atol=2.0)


def test_spliced_images_go_on_as_others_beyond_the_seam() -> None:
    ones, twos = torch.ones(3, 6), torch.full((3, 6), 2.0)
    found = spliced(ones, twos, torch.tensor([0, 1, -2]), (2, 3)).view(3, 2, 3)
    assert torch.equal(found[0], torch.ones(2, 3))
    assert torch.equal(found[1], torch.tensor([[1.0] * 3, [2.0] * 3]))
    assert torch.equal(found[2], torch.tensor([[1.0, 1.0, 2.0]] * 2))
