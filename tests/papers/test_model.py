"""What cluster-wise loops share: draws of a point, and labels 0 .. K-1."""

from __future__ import annotations

import torch

from clusterwise.papers.model import compact_labels, drawn_points


def test_draws_follow_the_probabilities() -> None:
    logits = torch.log(torch.tensor([0.1, 0.0, 0.6, 0.3], dtype=torch.double)) + 5.0
    uniform = (torch.arange(1000) + 0.5) / 1000
    drawn = drawn_points(logits.expand(1000, -1), uniform)
    assert torch.bincount(drawn, minlength=4).tolist() == [100, 0, 600, 300]


def test_minus_one_takes_the_likeliest() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]]).expand(3, -1)
    assert drawn_points(logits, torch.tensor([-1.0, 0.0, 0.999])).tolist() == [1, 0, 2]
    assert drawn_points(logits, torch.full((3,), -1.0)).tolist() == [1, 1, 1]


def test_labels_in_use_are_numbered_from_zero() -> None:
    columns, present = torch.tensor([7, 2, 9, 2, 4]), torch.tensor([True, True, False, True, True])
    assert compact_labels(columns, present).tolist() == [2, 0, 0, 0, 1]
