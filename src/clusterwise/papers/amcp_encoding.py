"""Encodings of a few data sets in numpy: ``AMCP.encode`` without gradients, for a few hundred points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from clusterwise.nn.encoder_in_numpy import NumpyEncoder

if TYPE_CHECKING:
    from clusterwise.papers.amcp import AMCP

__all__ = ["NumpyEncoding"]

# Data sets that are encoded together: calls are shared, and what belongs to them stays in the cache.
SETS_AT_ONCE = 8


class NumpyEncoding:
    """Encoder and heads of a network with the parameters at the time of making."""

    @torch.no_grad()
    def __init__(self, model: AMCP) -> None:
        self.encoder = NumpyEncoder(model.encoder)
        first, _, second = model.log_seed_loss
        self._parameters = [p for layer in (model.to_encoding, first, second) for p in layer.parameters()]
        # Copies: a parameter that is written to later must not change half of the network.
        arrays = [p.detach().numpy().copy() for p in self._parameters]
        self.to_encoding, self.first, self.second = (
            (weight, bias[:, None]) for weight, bias in zip(arrays[::2], arrays[1::2], strict=True)
        )
        self._state = self._state_of_heads()

    def _state_of_heads(self) -> list[int]:
        return [number for p in self._parameters for number in (p._version, p.data_ptr())]

    def holds(self) -> bool:
        """Whether the parameters are still what they were."""
        return self._state == self._state_of_heads() and self.encoder.holds()

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encodings x (B, N, D) of points (B, N, n_features), and the log loss of each as a seed, (B, N)."""
        h = self.encoder(points)
        x = _linear(self.to_encoding, h)
        np.negative(x, out=x)
        with np.errstate(over="ignore"):  # one over infinity is zero
            np.exp(x, out=x)
        x += 1
        hidden = np.maximum(_linear(self.first, h), 0)
        encodings = np.ascontiguousarray(np.reciprocal(x, out=x).swapaxes(1, 2))
        return encodings, _linear(self.second, hidden)[:, 0]

    def of_sets(self, points: np.ndarray, present: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """The same for the points (B, N, n_features) that are ``present`` (B, N) in each of B data sets."""
        counts = present.sum(axis=1)
        found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for count in np.unique(counts):
            sets = np.flatnonzero(counts == count)
            for start in range(0, len(sets), SETS_AT_ONCE):
                some = sets[start : start + SETS_AT_ONCE]
                together = points[some][present[some]].reshape(len(some), count, -1)
                found.update(zip(some, zip(*self(together), strict=True), strict=True))
        return [found[place] for place in range(len(points))]


def _linear(layer: tuple[np.ndarray, np.ndarray], h: np.ndarray) -> np.ndarray:
    weight, bias = layer
    result: np.ndarray = weight @ h
    result += bias
    return result
