"""The clustering net, whose outputs come and go, and one subclustering net for each cluster.

All have one hidden layer. The K subclustering nets are one stack of weights, run by batched matrix products.
When clusters split or merge the output units are not drawn anew: the logits that the new units should have
are known (the old ones, with the subclustering net's log odds added or with two of them joined), and the
weights that come closest to them are a small linear regression on the hidden layer. Training starts there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clusterwise.deepdpm.adam import Adam

__all__ = ["ClusteringNet", "NetWeights", "SubclusteringNets", "regress"]

# Weight of the penalty in the regression of output units, relative to the size of the hidden layer.
RIDGE = 1e-3


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
        """Keep the outputs with these indices, in this order."""
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


def _first_layer(rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
    """Weights (..., d, h) such that units of the hidden layer vary as much as a feature does."""
    scale = 1 / np.sqrt(shape[-2])
    return torch.from_numpy((rng.standard_normal(shape) * scale).astype(np.float32))


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


class _Nets:
    """Weights of one hidden layer and of outputs, and the optimizer that they are trained by."""

    def __init__(self, parameters: list[Tensor], learning_rate: float) -> None:
        self.hidden, self.hidden_bias, self.output, self.output_bias = parameters
        self.learning_rate = learning_rate
        self.renew()

    @property
    def parameters(self) -> list[Tensor]:
        """All weights."""
        return [self.hidden, self.hidden_bias, self.output, self.output_bias]

    @property
    def n_clusters(self) -> int:
        """Number of outputs, or of nets."""
        return len(self.output_bias)

    def renew(self) -> None:
        """Make the parameters leaves of a new graph, with an optimizer that remembers nothing."""
        for name in ("hidden", "hidden_bias", "output", "output_bias"):
            setattr(self, name, getattr(self, name).detach().clone().requires_grad_())
        self.optimizer = Adam(self.parameters, self.learning_rate)


class ClusteringNet(_Nets):
    """f_cl: points (n, d) to logits (n, K)."""

    @classmethod
    def draw(
        cls, rng: np.random.Generator, n_features: int, n_hidden: int, learning_rate: float, device: str
    ) -> ClusteringNet:
        """A new net with one output."""
        hidden = _first_layer(rng, (n_features, n_hidden))
        # Kinks all over the data rather than all at its centre.
        bias = torch.from_numpy(rng.uniform(-1, 1, n_hidden).astype(np.float32))
        parameters = [hidden, bias, torch.zeros(n_hidden, 1), torch.zeros(1)]
        return cls([parameter.to(device) for parameter in parameters], learning_rate)

    @classmethod
    def from_weights(cls, weights: NetWeights, learning_rate: float, device: str) -> ClusteringNet:
        """The net with these weights."""
        arrays = (weights.hidden, weights.hidden_bias, weights.output, weights.output_bias)
        return cls([torch.tensor(a, dtype=torch.float32, device=device) for a in arrays], learning_rate)

    def to_weights(self) -> NetWeights:
        """The weights as arrays."""
        arrays = [p.detach().cpu().numpy().astype(np.float64) for p in self.parameters]
        return NetWeights(*arrays)

    def set_learning_rate(self, factor: float) -> None:
        """Learn at ``factor`` times the usual rate."""
        self.optimizer.learning_rate = self.learning_rate * factor

    def hidden_layer(self, points: Tensor) -> Tensor:
        """Hidden units (n, h) of points (n, d)."""
        return torch.relu(torch.addmm(self.hidden_bias, points, self.hidden))

    def logits(self, points: Tensor) -> Tensor:
        """Logits (n, K)."""
        return torch.addmm(self.output_bias, self.hidden_layer(points), self.output)

    def set_outputs(self, points: Tensor, targets: Tensor, weights: Tensor, units: Tensor) -> None:
        """Replace the outputs by as many as ``targets`` (n, K') has columns.

        Column j keeps the weights of unit ``units[j]`` where that is not negative, and is fitted to its
        targets otherwise, with ``weights`` (n, K') for the rows.
        """
        with torch.no_grad():
            hidden = self.hidden_layer(points)
            output = self.output[:, units.clamp(min=0)].clone()
            bias = self.output_bias[units.clamp(min=0)].clone()
            fresh = torch.nonzero(units < 0)[:, 0]
            if len(fresh) > 0:
                fitted, fitted_bias = regress(
                    hidden.expand(len(fresh), -1, -1), targets[:, fresh].T[:, :, None], weights[:, fresh].T
                )
                output[:, fresh] = fitted[:, :, 0].T
                bias[fresh] = fitted_bias[:, 0]
        self.output, self.output_bias = output, bias
        self.renew()


class SubclusteringNets(_Nets):
    """All f_sub: points (K, b, d), b of each cluster, to the log odds (K, b) of the second subcluster.

    Two logits and their difference say the same: the second output is the only one.
    """

    def __init__(self, parameters: list[Tensor], centres: Tensor, learning_rate: float) -> None:
        super().__init__(parameters, learning_rate)
        self.centres = centres  # (K, 2, d)
        unit = torch.eye(centres.shape[2], device=centres.device)
        self.metrics = unit.repeat(len(centres), 1, 1)  # of distances, (K, d, d)

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        n_clusters: int,
        n_features: int,
        n_hidden: int,
        rate: float,
        device: str,
    ) -> SubclusteringNets:
        """New nets, with nothing to say yet."""
        parameters = [
            _first_layer(rng, (n_clusters, n_features, n_hidden)),
            torch.from_numpy(rng.uniform(-1, 1, (n_clusters, 1, n_hidden)).astype(np.float32)),
            torch.zeros(n_clusters, n_hidden, 1),
            torch.zeros(n_clusters, 1, 1),
        ]
        centres = torch.zeros(n_clusters, 2, n_features)
        return cls([parameter.to(device) for parameter in parameters], centres.to(device), rate)

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
        self.hidden, self.hidden_bias, self.output, self.output_bias = (p[parents] for p in self.parameters)
        self.centres, self.metrics = self.centres[parents], self.metrics[parents]
        self.renew()

    def aim(self, clusters: Tensor, points: Tensor, log_odds: Tensor) -> None:
        """Fit the output of the nets ``clusters`` (m,) to log odds (m, b) at points (m, b, d)."""
        with torch.no_grad():
            hidden = torch.relu(torch.baddbmm(self.hidden_bias[clusters], points, self.hidden[clusters]))
            weights = torch.ones_like(log_odds)
            output, bias = regress(hidden, log_odds[:, :, None], weights)
            self.output[clusters] = output
            self.output_bias[clusters] = bias[:, None]
            share = torch.sigmoid(log_odds)
            sides = torch.stack([1 - share, share], dim=1)  # (m, 2, b)
            self.centres[clusters] = sides @ points / sides.sum(dim=2, keepdim=True).clamp(min=1e-6)
