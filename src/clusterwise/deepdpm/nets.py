"""The clustering net, whose outputs come and go, and one subclustering net for each cluster.

All have one hidden layer. The K subclustering nets are one stack of weights, run by batched matrix products.
When clusters split or merge the output units are not drawn anew: the logits that the new units should have
are known (the old ones, with the subclustering net's log odds added or with two of them joined), and the
weights that come closest to them are a small linear regression on the hidden layer. Training starts there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

__all__ = ["Adam", "ClusteringNet", "NetWeights", "SubclusteringNets", "regress", "to_tensor"]

# Weight of the penalty in the regression of output units, relative to the size of the hidden layer.
RIDGE = 1e-3
# Step of Adam for the subclustering nets.
SUBCLUSTERING_RATE = 2e-2


def to_tensor(array: np.ndarray, device: str) -> Tensor:
    """Single precision for a net."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).to(device)


class Adam:
    """Adam (Kingma & Ba 2015) with torch's own step, for parameters that are replaced again and again.

    The class ``torch.optim.Adam`` takes the same step, but imports torch's compiler for it, 0.9 s in every
    process: longer than most fits.
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._n_steps = [torch.zeros((), device=parameter.device) for parameter in self.parameters]

    def step(self, loss: Tensor) -> None:
        """Go one step down the gradient of ``loss``."""
        gradients = list(torch.autograd.grad(loss, self.parameters))
        with torch.no_grad():
            adam(
                self.parameters,
                gradients,
                self._means,
                self._squares,
                [],
                self._n_steps,
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=self.learning_rate,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )


@dataclass(frozen=True)
class NetWeights:
    """Weights of a trained clustering net, as arrays: what is left of it in a fitted estimator."""

    hidden: np.ndarray  # (d, h)
    hidden_bias: np.ndarray  # (h,)
    output: np.ndarray  # (h, K)
    output_bias: np.ndarray  # (K,)

    @property
    def n_clusters(self) -> int:
        """Number of outputs."""
        return len(self.output_bias)

    def select(self, clusters: np.ndarray) -> NetWeights:
        """The outputs with these indices, in this order."""
        return NetWeights(self.hidden, self.hidden_bias, self.output[:, clusters], self.output_bias[clusters])

    def memberships(self, points: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) of points (n, d), each row on its own."""
        result = np.empty((len(points), self.n_clusters))
        for start in range(0, len(points), 4096):
            rows = slice(start, start + 4096)
            # einsum, no matrix product: each row must come out the same whatever the other rows are
            hidden = np.einsum("nd,dh->nh", points[rows], self.hidden) + self.hidden_bias
            np.maximum(hidden, 0.0, out=hidden)
            logits = np.einsum("nh,hk->nk", hidden, self.output) + self.output_bias
            logits -= logits.max(axis=1, keepdims=True)
            weights = np.exp(logits, out=logits)
            result[rows] = weights / weights.sum(axis=1, keepdims=True)
        return result


def regress(hidden: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Output weights (..., h, m) and biases (..., m) closest to targets (..., n, m) given hidden (..., n, h).

    ``weights`` (..., n) says how much each row counts.
    """
    ones = torch.ones_like(hidden[..., :1])
    design = torch.cat([hidden, ones], dim=-1).double()
    weighted = design * weights[..., None].double()
    gram = weighted.transpose(-1, -2) @ design
    size = torch.diagonal(gram, dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    penalty = (RIDGE * size + 1e-9) * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    solution = torch.linalg.solve(gram + penalty, weighted.transpose(-1, -2) @ targets.double())
    return solution[..., :-1, :].float(), solution[..., -1, :].float()


class _GrowingNets:
    """Weights of one hidden layer and of outputs, and the optimizer that trains them."""

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self._set(parameters)

    def _set(self, parameters: Iterable[Tensor]) -> None:
        """Train these weights from now on, with an optimizer that remembers nothing."""
        self.parameters = [parameter.detach().clone().requires_grad_() for parameter in parameters]
        self.hidden, self.hidden_bias, self.output, self.output_bias = self.parameters
        self.optimizer = Adam(self.parameters, self.learning_rate)

    @property
    def n_clusters(self) -> int:
        """Number of outputs, or of nets."""
        return self.output_bias.shape[0]


class ClusteringNet(_GrowingNets):
    """f_cl: points (n, d) to logits (n, K)."""

    @classmethod
    def draw(
        cls, rng: np.random.Generator, n_features: int, n_hidden: int, learning_rate: float, device: str
    ) -> ClusteringNet:
        """A new net with one output."""
        hidden, bias = _hidden_layer(rng, n_features, n_hidden)
        parameters = (hidden, bias, torch.zeros(n_hidden, 1), torch.zeros(1))
        return cls([parameter.to(device) for parameter in parameters], learning_rate)

    @classmethod
    def from_weights(cls, weights: NetWeights, learning_rate: float, device: str) -> ClusteringNet:
        """The net with these weights."""
        arrays = (weights.hidden, weights.hidden_bias, weights.output, weights.output_bias)
        return cls([to_tensor(array, device) for array in arrays], learning_rate)

    def to_weights(self) -> NetWeights:
        """The weights as arrays."""
        return NetWeights(*(p.detach().cpu().numpy().astype(np.float64) for p in self.parameters))

    def hidden_layer(self, points: Tensor) -> Tensor:
        """Hidden units (n, h) of points (n, d)."""
        return torch.relu(torch.addmm(self.hidden_bias, points, self.hidden))

    def logits(self, points: Tensor) -> Tensor:
        """Logits (n, K)."""
        return torch.addmm(self.output_bias, self.hidden_layer(points), self.output)

    def take(self, units: Tensor) -> None:
        """Keep the outputs ``units`` (K',)."""
        self._set([self.hidden, self.hidden_bias, self.output[:, units], self.output_bias[units]])

    def set_outputs(self, points: Tensor, targets: Tensor, weights: Tensor, units: Tensor) -> None:
        """Replace the outputs by as many as ``targets`` (n, K') has columns.

        Column j keeps the weights of unit ``units[j]`` where that is not negative, and is fitted to its
        targets otherwise, with ``weights`` (n, K') for the rows.
        """
        new = torch.nonzero(units < 0)[:, 0]
        with torch.no_grad():
            hidden = self.hidden_layer(points).expand(len(new), -1, -1)
            self.take(units.clamp(min=0))
            if len(new) > 0:
                output, bias = regress(hidden, targets[:, new].T[:, :, None], weights[:, new].T)
                self.output[:, new], self.output_bias[new] = output[:, :, 0].T, bias[:, 0]


class SubclusteringNets(_GrowingNets):
    """All f_sub: points (K, b, d), b of each cluster, to the log odds (K, b) of the second subcluster.

    Two logits and their difference say the same: the second output is the only one.
    """

    def __init__(self, parameters: Iterable[Tensor], centres: Tensor) -> None:
        super().__init__(parameters, SUBCLUSTERING_RATE)
        self.centres = centres  # mu~, (K, 2, d)
        unit = torch.eye(centres.shape[2], device=centres.device)
        self.metrics = unit.repeat(len(centres), 1, 1)  # of distances, (K, d, d)

    @classmethod
    def draw(
        cls, rng: np.random.Generator, n_clusters: int, n_features: int, n_hidden: int, device: str
    ) -> SubclusteringNets:
        """New nets whose subclusters are equally likely everywhere."""
        hidden, bias = _hidden_layer(rng, n_features, n_hidden, n_clusters)
        output, output_bias = torch.zeros(n_clusters, n_hidden, 1), torch.zeros(n_clusters, 1, 1)
        centres = torch.zeros(n_clusters, 2, n_features)
        parameters = (hidden, bias[:, None], output, output_bias)
        return cls([parameter.to(device) for parameter in parameters], centres.to(device))

    def log_odds(self, points: Tensor) -> Tensor:
        """Log odds (K, b) of the second subcluster."""
        hidden = torch.relu(torch.baddbmm(self.hidden_bias, points, self.hidden))
        return torch.baddbmm(self.output_bias, hidden, self.output)[:, :, 0]

    def log_odds_of(self, cluster: int, points: Tensor) -> Tensor:
        """Log odds (n,) of one cluster's net for points (n, d)."""
        hidden = torch.relu(torch.addmm(self.hidden_bias[cluster], points, self.hidden[cluster]))
        return torch.addmm(self.output_bias[cluster], hidden, self.output[cluster])[:, 0]

    def take(self, parents: Tensor) -> None:
        """Each of K' new nets is a copy of the net of its parent, ``parents`` (K',)."""
        self.centres, self.metrics = self.centres[parents], self.metrics[parents]
        self._set([parameter[parents] for parameter in self.parameters])

    def fit_log_odds(self, points: Tensor, log_odds: Tensor) -> None:
        """Fit all outputs and centres to log odds (K, b) at points (K, b, d)."""
        with torch.no_grad():
            hidden = torch.relu(torch.baddbmm(self.hidden_bias, points, self.hidden))
            output, bias = regress(hidden, log_odds[:, :, None], torch.ones_like(log_odds))
            share = torch.sigmoid(log_odds)
            sides = torch.stack([1 - share, share], dim=1)  # (K, 2, b)
            self.centres = sides @ points / sides.sum(dim=2, keepdim=True).clamp(min=1e-6)
        self._set([self.hidden, self.hidden_bias, output, bias[:, None]])


def _hidden_layer(
    rng: np.random.Generator, n_features: int, n_hidden: int, *stack: int
) -> tuple[Tensor, Tensor]:
    """Weights (..., d, h) such that hidden units vary as much as a feature does, and biases (..., h)."""
    weights = rng.standard_normal((*stack, n_features, n_hidden)) * (1 / np.sqrt(n_features))
    # Kinks all over the data rather than all at its centre.
    biases = rng.uniform(-1, 1, (*stack, n_hidden))
    return torch.from_numpy(weights.astype(np.float32)), torch.from_numpy(biases.astype(np.float32))
