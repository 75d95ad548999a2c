"""The contract of an amortized method: a network, its loss, how it infers partitions; what loops share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clusterwise.exceptions import RecipeError
from clusterwise.fitting.protocol import ClusterDensity

__all__ = [
    "AmortizedModel",
    "BoundedNumbers",
    "Inference",
    "Step",
    "TrainedModel",
    "TrainingTask",
    "compact_labels",
    "drawn_points",
]


@dataclass(frozen=True)
class TrainingTask:
    """B labelled data sets of one size, scaled as ``infer`` will see them."""

    points: Tensor  # (B, N, d) float32
    labels: Tensor  # (B, N) int64, 0 .. K_b - 1
    n_clusters: Tensor  # (B,) int64, the number of labels in use


@dataclass(frozen=True)
class Step:
    """One step of a cluster-wise method: who joined, and how sure the network was."""

    members: Tensor  # (N,) bool
    probabilities: Tensor  # (N,) float; zero for points that were already taken
    anchor: int | None = None


@dataclass(frozen=True)
class Inference:
    """The partition of N points that a network infers, and what else it knows of it."""

    labels: Tensor  # (N,) int64, 0 .. K-1, every point labelled
    steps: tuple[Step, ...] = ()
    cap_reached: bool = False
    draws: tuple[Tensor, ...] = ()  # labels (N,) of further partitions, where a method draws several
    draw_probabilities: tuple[float, ...] = ()  # of ``labels`` and each of the draws; empty: all alike
    log_probability: float | None = None  # of the partition in ``labels``, where a method gives one
    densities: tuple[ClusterDensity, ...] = ()  # of the clusters in ``labels`` and in each of the draws


class TrainedModel(nn.Module, ABC):
    """A network with a name, a config and a loss: what the trainer and the weights format need."""

    method: ClassVar[str]
    config_class: ClassVar[type[Any]]
    config: Any

    @property
    def n_features(self) -> int:
        """Number of features that the network takes."""
        return int(self.config.n_features)

    @abstractmethod
    def loss(self, task: Any, generator: torch.Generator) -> Tensor:
        """Return the training loss, a scalar."""


class AmortizedModel(TrainedModel):
    """A network trained once on many labelled data sets, which maps a set to its partition."""

    @abstractmethod
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
    ) -> list[Inference]:
        """Partition B data sets at once: points (B, N, d), mask (B, N) True where a point is present.

        Each data set has its own seed, so that its result does not depend on its neighbours in the batch.
        With ``n_draws`` > 0 there are further partitions in ``draws``, if the method can draw any. Labels of
        absent points mean nothing.
        """


# -- networks of bounded size --------------------------------------------------------------------------


class BoundedNumbers(TorchFunctionMode):
    """Lets tensors be made that hold so many numbers together, and no more."""

    def __init__(self, n_numbers: int) -> None:
        super().__init__()
        self.left = n_numbers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn):
            self.left -= math.prod(args[0] if args and not isinstance(args[0], int) else args)
            if self.left < 0:
                raise RecipeError("the network is too large")
        return func(*args, **(kwargs or {}))


# -- what cluster-wise loops share --------------------------------------------------------------------


def drawn_points(logits: Tensor, uniform: Tensor) -> Tensor:
    """One point per row (R,): where the cumulative probability passes ``uniform``; -1 takes the likeliest."""
    likeliest = logits.argmax(1)
    if bool((uniform < 0).all()):
        return likeliest
    cumulative = torch.softmax(logits.double(), dim=1).cumsum(1)
    thresholds = uniform.clamp(min=0).to(cumulative).unsqueeze(1) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, thresholds, right=True).squeeze(1)
    return torch.where(uniform < 0, likeliest, drawn)


def compact_labels(columns: Tensor, present: Tensor) -> Tensor:
    """Number the clusters in use 0 .. K-1; absent points get 0."""
    labels = torch.zeros_like(columns)
    labels[present] = torch.unique(columns[present], return_inverse=True)[1]
    return labels
