"""Adam for a handful of small tensors, with little to do besides the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Adam"]


class Adam:
    """Kingma & Ba (2015) with their settings.

    torch's own takes several times as long for nets of this size, and seconds when it is first used.
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self._first = [torch.zeros_like(parameter) for parameter in parameters]
        self._second = [torch.zeros_like(parameter) for parameter in parameters]
        self._n_steps = 0

    def step(self, loss: Tensor, decay: tuple[float, float] = (0.9, 0.999)) -> None:
        """Go one step down the gradient of ``loss``."""
        gradients = list(torch.autograd.grad(loss, self.parameters))
        self._n_steps += 1
        first, second = decay
        with torch.no_grad():
            torch._foreach_lerp_(self._first, gradients, 1 - first)
            torch._foreach_mul_(self._second, second)
            torch._foreach_addcmul_(self._second, gradients, gradients, 1 - second)
            size = torch._foreach_sqrt(self._second)
            torch._foreach_div_(size, (1 - second**self._n_steps) ** 0.5)
            torch._foreach_add_(size, 1e-8)
            rate = self.learning_rate / (1 - first**self._n_steps)
            torch._foreach_addcdiv_(self.parameters, self._first, size, -rate)
