"""Small networks of AMCP, judges that say what they are told, and data with clear clusters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clusterwise.papers.amcp.network import AMCPConfig, AMCPNetwork
from clusterwise.papers.amcp.revision import N_EVIDENCE, ClusterJudge

SMALL = AMCPConfig(
    width=8, n_heads=2, n_inducing=4, n_encoder_blocks=1, n_wavelengths=2, n_coordinates=5, n_hidden=7
)


def build(seed: int = 0, **options: Any) -> AMCPNetwork:
    """An untrained network in double precision that tells points apart."""
    torch.manual_seed(seed)
    model = AMCPNetwork(dataclasses.replace(SMALL, **options)).double()
    if model.config.encoder == "set":
        with torch.no_grad():
            for parameter in model.encoder.parameters():
                parameter *= 2.0
            model.to_encoding.weight *= 3.0
    return model


def heaps(n_sets: int = 2, per_heap: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three clear clusters per data set: points (B, N, 2) and labels (B, N)."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    labels = torch.arange(3).repeat_interleave(per_heap).expand(n_sets, -1)
    noise = torch.randn(n_sets, 3 * per_heap, 2, generator=generator, dtype=torch.float64)
    return centres[labels] + 0.1 * noise, labels


def on_a_line(sizes: tuple[int, ...], apart: float = 8.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Round clusters of these sizes, ``apart`` standard deviations from each other; (n, 2) and (n,)."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.standard_normal((len(labels), 2))
    x[:, 0] += apart * labels
    return (x - x.mean(0)) / x.std(), labels


@torch.no_grad()
def says(layers: nn.Sequential, *outputs: float) -> None:
    """Let a perceptron say the same of everything."""
    for parameter in layers.parameters():
        parameter.zero_()
    layers[-1].bias.copy_(torch.tensor(outputs))


def judge_of(logit: float = 0.0, price: float | None = None, gate: float = 40.0) -> ClusterJudge:
    """A judge with widths and correlations as the plan has them, if the ``gate`` is open.

    It always has the same ``logit``, or finds two clusters if the log-likelihood gains more than a ``price``.
    """
    judge = ClusterJudge().requires_grad_(False)
    says(judge.widths, gate, 0.0)
    says(judge.tilts, gate)
    says(judge.judge, logit)
    if price is not None:
        first, _, second, _, last = judge.judge
        with torch.no_grad():  # the first number of the evidence, and minus it, through the rectifiers
            first.weight[:2, 0] = torch.tensor([1.0, -1.0])
            second.weight[:2, :2] = torch.eye(2)
            last.weight[0, :2] = torch.tensor([1.0, -1.0])
            last.bias[0] = 2.5 - np.log1p(price)
    assert judge.judge[0].in_features == N_EVIDENCE
    return judge
