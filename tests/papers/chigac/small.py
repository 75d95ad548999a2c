"""Small CHiGac networks, and data sets of clear clusters."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from clusterwise.papers.chigac.chigac import CHiGacConfig, CHiGacNetwork
from clusterwise.papers.model import TrainingTask

__all__ = ["SMALL", "build", "everyone", "task_of"]

SMALL = CHiGacConfig(
    width=8,
    n_heads=2,
    n_inducing=4,
    n_encoder_blocks=1,
    n_wavelengths=2,
    n_coordinates=5,
    n_hidden=4,
    n_summaries=2,
    n_inner_steps=2,
    n_states=3,
)


def build(seed: int = 0, **options: Any) -> CHiGacNetwork:
    torch.manual_seed(seed)
    model = CHiGacNetwork(dataclasses.replace(SMALL, **options)).double()
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter *= 2.0  # so that an untrained network tells points apart
    return model


def task_of(n_sets: int = 3, sizes: tuple[int, ...] = (12, 10, 14), seed: int = 0) -> TrainingTask:
    """Clear clusters of these sizes in every data set."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).expand(n_sets, -1)
    centres = 3.0 * torch.randn(n_sets, len(sizes), 2, generator=generator, dtype=torch.float64)
    noise = 0.1 * torch.randn(*labels.shape, 2, generator=generator, dtype=torch.float64)
    points = centres.gather(1, labels.unsqueeze(-1).expand(-1, -1, 2)) + noise
    return TrainingTask(points, labels.contiguous(), torch.full((n_sets,), len(sizes)))


def everyone(points: Tensor) -> Tensor:
    return torch.ones(points.shape[:2], dtype=torch.bool)
