"""The nets of DeepDPM and what they learn: L_cl with the M-steps, L_sub.

The clustering net's outputs come and go; the K subclustering nets are one stack of weights, run by batched
matrix products. All have one hidden layer. When clusters split or merge the output units are not drawn anew:
the logits that the new units should have are known, and the weights that come closest to them are a small
linear regression on the hidden layer. Training starts there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor
from torch.optim.adam import adam

from clusterwise.gaussian.niw import NormalInverseWishart, statistics_of
from clusterwise.rows.sorted_rows import Rows

if TYPE_CHECKING:
    from clusterwise.deepdpm.method import Fit

__all__ = [
    "MAX_LOG_ODDS",
    "ROWS_PER_UNIT",
    "Adam",
    "ClusteringNet",
    "Members",
    "NetWeights",
    "SubclusteringNets",
    "divergence",
    "first_cuts",
    "log_responsibilities",
    "m_step",
    "regress",
    "second_halves",
    "to_tensor",
    "train_clustering_net",
    "train_epoch",
    "train_subclustering_nets",
    "weighted_statistics",
]

# Epochs with M-steps in one round; after a move, epochs before them in which the net follows it.
EPOCHS, FROZEN_EPOCHS = 3, 3
# An epoch sees at most this many batches: what the net learns from a random part of very many rows holds for
# the others too, and so an epoch of a million rows takes no longer.
MAX_BATCHES = 64
# Log responsibilities below this count as this: the loss stays finite far from a cluster.
MIN_LOG = -30.0
# Subclustering nets: rows of each cluster in a batch, batches between two M-steps, M-steps, and Adam's step.
SUB_BATCH, SUB_BATCHES, SUB_STEPS, SUB_RATE = 256, 4, 25, 2e-2
# With so few clusters a fit may be stuck.
STUCK = 2
# Rows of each cluster that output units are fitted to, and the largest log odds that they start with:
# training must be able to change them.
ROWS_PER_UNIT, MAX_LOG_ODDS = 512, 4.0
# Weight of the penalty in the regression of output units, relative to the size of the hidden layer.
RIDGE = 1e-3


# -- the clustering net --------------------------------------------------------------------------


def train_clustering_net(fit: Fit, n_epochs: int = EPOCHS) -> None:
    """Train net and mixture in turn; after a move the mixture stands still until the net has followed."""
    n_frozen = FROZEN_EPOCHS if fit.just_moved else 0
    fit.just_moved = False
    for epoch in range(n_frozen + n_epochs):
        if fit.over:
            return
        loss = 0.0
        if fit.net.n_clusters > 1:
            eta = m_step(fit.statistics, fit.settings.prior)
            loss, statistics = train_epoch(fit, eta)
            if epoch >= n_frozen:
                fit.statistics = statistics
        fit.end_epoch(loss)
        if fit.net.n_clusters == 1:  # nothing to learn: all memberships are one
            return


def train_epoch(fit: Fit, eta: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean L_cl of one pass, and the statistics (K, p) weighted by the net's memberships r.

    Each batch becomes its statistics T(x): they give the targets r^E, one matrix product with ``eta``, and
    the sums for the next M-step. Nothing of size n x K is ever kept.
    """
    n, settings, prior = len(fit.rows), fit.settings, fit.settings.prior
    order = fit.rng.permutation(n)[: MAX_BATCHES * settings.batch_size]
    statistics, total = np.zeros((fit.net.n_clusters, prior.n_statistics)), 0.0
    for batch in np.array_split(order, -(-len(order) // settings.batch_size)):
        points = fit.rows.take(np.sort(batch))
        terms = prior.terms(points)
        log_r = torch.log_softmax(fit.net.logits(to_tensor(points, settings.device)), dim=1)
        loss = divergence(log_r, to_tensor(log_responsibilities(terms, eta), settings.device))
        fit.net.optimizer.step(loss)
        statistics += log_r.detach().exp().cpu().numpy().astype(np.float64).T @ terms
        total += float(loss.detach()) * len(batch)
    return total / len(order), statistics * (n / len(order))


def divergence(log_r: Tensor, log_targets: Tensor) -> Tensor:
    """Mean KL(r || r^E) of memberships r from responsibilities r^E, both as logarithms (n, K)."""
    return (log_r.exp() * (log_r - log_targets)).sum(dim=1).mean()


def log_responsibilities(terms: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """log r^E (n, K) of points with sufficient statistics ``terms`` (n, p)."""
    result: np.ndarray = log_softmax(terms @ eta.T, axis=1)
    return np.maximum(result, MIN_LOG, out=result)


def m_step(statistics: np.ndarray, prior: NormalInverseWishart) -> np.ndarray:
    """Natural parameters eta (K, p) of the MAP mixture: log pi_k N(x; mu_k, Sigma_k) is T(x) . eta_k."""
    counts = np.maximum(statistics[:, 0], 1e-6)
    eta = prior.most_probable(np.concatenate([counts[:, None], statistics[:, 1:]], axis=1))
    eta[:, 0] += np.log(counts / counts.sum())
    return eta


def weighted_statistics(rows: Rows, membership: np.ndarray, prior: NormalInverseWishart) -> np.ndarray:
    """Statistics (K, p) of the rows, weighted by memberships (n, K)."""
    total = np.zeros((membership.shape[1], prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics):
        total += membership[part].T @ prior.terms(points)
    return total


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


# -- the subclustering nets ----------------------------------------------------------------------


def train_subclustering_nets(fit: Fit, members: Members) -> None:
    """Train all subclustering nets on L_sub, each on its own cluster."""
    first_cuts(fit, members)
    nets, device = fit.subnets, fit.settings.device
    for _ in range(SUB_STEPS):
        weights = torch.zeros(nets.n_clusters, 2, 1, device=device)
        sums = torch.zeros_like(nets.centres)
        for _ in range(SUB_BATCHES):
            points = to_tensor(members.draw_points(fit.rng, fit.rows, SUB_BATCH), device)
            share = torch.sigmoid(nets.log_odds(points))
            sides = torch.stack([1 - share, share], dim=1)  # r~, (K, 2, b)
            offsets = torch.stack([points - nets.centres[:, side, None] for side in (0, 1)], dim=1)
            distances = (offsets.flatten(1, 2) @ nets.metrics).square().sum(dim=2).view_as(sides)
            nets.optimizer.step((sides * distances).sum(dim=1).mean())
            sides = sides.detach()
            weights += sides.sum(dim=2, keepdim=True)
            sums += sides @ points
        nets.centres = torch.where(weights > 1e-3, sums / weights.clamp(min=1e-3), nets.centres)


def first_cuts(fit: Fit, members: Members) -> None:
    """Let every subclustering net start from a cut through the centre of its cluster.

    It is cut across its longest axis. Where that led to no split and there are so few clusters that the fit
    may be stuck, the distances in the isotropic loss are measured in the cluster's own standard deviations,
    and the cuts are random: two long bars side by side are told apart in this way only.
    """
    prior, device = fit.settings.prior, fit.settings.device
    posterior = prior.posterior(statistics_of(fit.rows, members.labels, fit.net.n_clusters, prior))
    variances, axes = np.linalg.eigh(prior.covariances(posterior))
    plain = (fit.ages == 0) | (fit.net.n_clusters > STUCK)
    directions = fit.rng.standard_normal(variances.shape) / np.sqrt(variances)
    directions[plain] = np.eye(variances.shape[1])[-1]
    normals = np.einsum("kab,kb->ka", axes, directions)
    metrics = axes / np.sqrt(variances)[:, None, :]
    metrics[plain] = np.eye(variances.shape[1])
    fit.subnets.metrics = to_tensor(metrics, device)
    points = members.draw_points(fit.rng, fit.rows, ROWS_PER_UNIT)
    heights = np.einsum("kbd,kd->kb", points - posterior.mean[:, None], normals)
    heights /= np.maximum(np.sqrt(np.square(heights).mean(axis=1, keepdims=True)), 1e-12)
    log_odds = np.clip(3 * heights, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    fit.subnets.fit_log_odds(to_tensor(points, device), to_tensor(log_odds, device))


def second_halves(fit: Fit, members: Members) -> np.ndarray:
    """Whether each row is in the second subcluster of its cluster, (n,) bool."""
    sides = np.zeros(len(fit.rows), dtype=bool)
    with torch.no_grad():
        for cluster in range(fit.net.n_clusters):
            rows = members.rows(cluster)
            for part, points in fit.rows.chunks_of(rows, fit.settings.n_hidden):
                log_odds = fit.subnets.log_odds_of(cluster, to_tensor(points, fit.settings.device))
                sides[rows[part]] = (log_odds > 0).cpu().numpy()
    return sides


@dataclass(frozen=True)
class Members:
    """The rows of each cluster, one cluster after the other."""

    labels: np.ndarray  # (n,)
    order: np.ndarray  # (n,) rows
    starts: np.ndarray  # (K,) positions in ``order``
    counts: np.ndarray  # (K,)

    @classmethod
    def of(cls, labels: np.ndarray, n_clusters: int) -> Members:
        """The members under labels (n,)."""
        counts = np.bincount(labels, minlength=n_clusters)
        return cls(labels, np.argsort(labels, kind="stable"), np.cumsum(counts) - counts, counts)

    def rows(self, cluster: int) -> np.ndarray:
        """The rows of one cluster in increasing order."""
        return self.order[self.starts[cluster] : self.starts[cluster] + self.counts[cluster]]

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """``size`` random rows of each cluster, with replacement; (K, size)."""
        within = (rng.random((len(self.counts), size)) * self.counts[:, None]).astype(np.int64)
        return self.order[self.starts[:, None] + within]

    def draw_points(self, rng: np.random.Generator, rows: Rows, size: int) -> np.ndarray:
        """Random rows (K, size, d) of each cluster."""
        return rows.take(self.draw(rng, size).ravel()).reshape(-1, size, rows.n_features)


class SubclusteringNets(_GrowingNets):
    """All f_sub: points (K, b, d), b of each cluster, to the log odds (K, b) of the second subcluster.

    Two logits give the same as their difference: the second output is the only one.
    """

    def __init__(self, parameters: Iterable[Tensor], centres: Tensor) -> None:
        super().__init__(parameters, SUB_RATE)
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
        return torch.baddbmm(self.output_bias, self.hidden_layer(points), self.output)[:, :, 0]

    def hidden_layer(self, points: Tensor) -> Tensor:
        """Hidden units (K, b, h) of points (K, b, d)."""
        return torch.relu(torch.baddbmm(self.hidden_bias, points, self.hidden))

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
            output, bias = regress(self.hidden_layer(points), log_odds[:, :, None], torch.ones_like(log_odds))
            share = torch.sigmoid(log_odds)
            sides = torch.stack([1 - share, share], dim=1)  # (K, 2, b)
            self.centres = sides @ points / sides.sum(dim=2, keepdim=True).clamp(min=1e-6)
        self._set([self.hidden, self.hidden_bias, output, bias[:, None]])


# -- layers and steps ----------------------------------------------------------------------------


def _hidden_layer(
    rng: np.random.Generator, n_features: int, n_hidden: int, *stack: int
) -> tuple[Tensor, Tensor]:
    """Weights (..., d, h) such that hidden units vary as much as a feature does, and biases (..., h)."""
    weights = rng.standard_normal((*stack, n_features, n_hidden)) * (1 / np.sqrt(n_features))
    # Kinks all over the data rather than all at its centre.
    biases = rng.uniform(-1, 1, (*stack, n_hidden))
    return torch.from_numpy(weights.astype(np.float32)), torch.from_numpy(biases.astype(np.float32))


def regress(hidden: Tensor, targets: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Output weights (..., h, m) and biases (..., m) closest to targets (..., n, m) given hidden (..., n, h).

    ``weights`` (..., n) are those of the rows.
    """
    ones = torch.ones_like(hidden[..., :1])
    design = torch.cat([hidden, ones], dim=-1).double()
    weighted = design * weights[..., None].double()
    gram = weighted.transpose(-1, -2) @ design
    size = torch.diagonal(gram, dim1=-2, dim2=-1).mean(dim=-1)[..., None, None]
    penalty = (RIDGE * size + 1e-9) * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    solution = torch.linalg.solve(gram + penalty, weighted.transpose(-1, -2) @ targets.double())
    return solution[..., :-1, :].float(), solution[..., -1, :].float()


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


def to_tensor(array: np.ndarray, device: str) -> Tensor:
    """Single precision for a net."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).to(device)
