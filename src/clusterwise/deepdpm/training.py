"""Training steps of the nets, and the weighted M-steps that go with them.

One epoch is one pass: each batch is lifted to its sufficient statistics T(x), which give the targets r^E (one
matrix product with the natural parameters of the clusters) and, weighted by the net's own r, the next M-step.
Nothing of size n x K is ever kept. Beyond ``BATCHES`` batches an epoch sees a random part of the rows: what
the net learns from them holds for the others too, and so an epoch of a million rows takes no longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from clusterwise.deepdpm.nets import ClusteringNet, SubclusteringNets
from clusterwise.deepdpm.settings import Settings
from clusterwise.gaussian.full import Full
from clusterwise.gaussian.rows import Rows

__all__ = [
    "Members",
    "assign",
    "log_targets",
    "natural_parameters",
    "to_tensor",
    "train_epoch",
    "train_subclusters",
]

# Most batches in an epoch.
BATCHES = 64
# Log responsibilities below this count as this: the loss stays finite far from a cluster.
LEAST_LOG = -30.0
# Subclustering nets: rows of each cluster in a batch, batches between two M-steps, and M-steps.
SUB_BATCH, SUB_BATCHES, SUB_STEPS = 256, 4, 25


def to_tensor(array: np.ndarray, device: str) -> Tensor:
    """Single precision for a net."""
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32)).to(device)


def natural_parameters(statistics: np.ndarray, settings: Settings) -> np.ndarray:
    """M-step: log pi_k N(x; mu_k, Sigma_k) is T(x) . eta_k for the eta (K, p) returned here."""
    prior = settings.prior
    if not settings.prior_in_m_step:
        # nu = d - 1 makes Sigma the plain weighted covariance; a trace of Psi keeps it invertible.
        nu = prior.n_features - 1.0 if isinstance(prior, Full) else 1e-9
        prior = replace(prior, kappa=1e-9, nu=nu, psi=np.full(prior.n_features, 1e-6))
    counts = np.maximum(statistics[:, 0], 1e-6)
    eta = prior.most_probable(np.concatenate([counts[:, None], statistics[:, 1:]], axis=1))
    eta[:, 0] += np.log(counts / counts.sum())
    return eta


def log_targets(lifted: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """log r^E (n, K) of lifted points (n, p)."""
    result: np.ndarray = log_softmax(lifted @ eta.T, axis=1)
    return np.maximum(result, LEAST_LOG, out=result)


def train_epoch(
    rng: np.random.Generator, rows: Rows, net: ClusteringNet, eta: np.ndarray, settings: Settings
) -> tuple[float, np.ndarray]:
    """One pass; returns the mean loss and the statistics (K, p) weighted by the net's memberships."""
    n, prior = len(rows), settings.prior
    order = rng.permutation(n)[: BATCHES * settings.batch_size]
    n_batches = -(-len(order) // settings.batch_size)
    means = None
    if settings.cluster_loss == "isotropic":
        means = to_tensor(_means(eta, settings), settings.device)
    statistics, total = np.zeros((net.n_clusters, prior.n_statistics)), 0.0
    for batch in np.array_split(order, n_batches):
        points = rows.take(np.sort(batch))
        lifted = prior.lift(points)
        inputs = to_tensor(points, settings.device)
        log_r = torch.log_softmax(net.logits(inputs), dim=1)
        r = log_r.exp()
        if means is None:
            targets = to_tensor(log_targets(lifted, eta), settings.device)
            loss = (r * (log_r - targets)).sum(dim=1).mean()
        else:
            loss = (r * torch.cdist(inputs, means).square()).sum(dim=1).mean()
        net.optimizer.step(loss)
        statistics += r.detach().cpu().numpy().astype(np.float64).T @ lifted
        total += float(loss.detach()) * len(batch)
    return total / len(order), statistics * (n / len(order))


def _means(eta: np.ndarray, settings: Settings) -> np.ndarray:
    """Means (K, d) of Gaussians with these natural parameters: where their densities are largest."""
    d = settings.prior.n_features
    linear, quadratic = eta[:, 1 : d + 1], eta[:, d + 1 :]
    if quadratic.shape[1] == 1 or not isinstance(settings.prior, Full):
        means: np.ndarray = linear / (-2 * quadratic)
        return means
    precision = np.zeros((len(eta), d, d))
    a, b = np.triu_indices(d)
    precision[:, a, b] = precision[:, b, a] = -quadratic
    precision[:, range(d), range(d)] *= 2
    return np.linalg.solve(precision, linear[:, :, None])[:, :, 0]


def assign(rows: Rows, net: ClusteringNet, device: str) -> np.ndarray:
    """The net's cluster of every row, (n,)."""
    labels = np.zeros(len(rows), dtype=np.int64)
    if net.n_clusters == 1:
        return labels
    with torch.no_grad():
        for part, points in rows.chunks(len(net.hidden_bias) + net.n_clusters):
            labels[part] = net.logits(to_tensor(points, device)).argmax(dim=1).cpu().numpy()
    return labels


@dataclass(frozen=True)
class Members:
    """The rows of each cluster, one cluster after the other."""

    order: np.ndarray  # (n,) rows
    starts: np.ndarray  # (K,) positions in ``order``
    counts: np.ndarray  # (K,)

    @classmethod
    def of(cls, labels: np.ndarray, n_clusters: int) -> Members:
        """The members under labels (n,)."""
        counts = np.bincount(labels, minlength=n_clusters)
        return cls(np.argsort(labels, kind="stable"), np.cumsum(counts) - counts, counts)

    def rows(self, cluster: int) -> np.ndarray:
        """The rows of one cluster in increasing order."""
        return self.order[self.starts[cluster] : self.starts[cluster] + self.counts[cluster]]

    def draw(self, rng: np.random.Generator, clusters: np.ndarray, size: int) -> np.ndarray:
        """``size`` random rows of each of the clusters (m,), with replacement; (m, size)."""
        counts = self.counts[clusters][:, None]
        within = (rng.random((len(clusters), size)) * counts).astype(np.int64)
        return self.order[self.starts[clusters][:, None] + within]


def train_subclusters(
    rng: np.random.Generator,
    rows: Rows,
    nets: SubclusteringNets,
    members: Members,
    settings: Settings,
) -> None:
    """Train all subclustering nets on the isotropic loss, each on its own cluster."""
    clusters, d = np.arange(nets.n_clusters), rows.n_features
    for _ in range(SUB_STEPS):
        weights = torch.zeros(nets.n_clusters, 2, 1, device=settings.device)
        sums = torch.zeros_like(nets.centres)
        for _ in range(SUB_BATCHES):
            drawn = members.draw(rng, clusters, SUB_BATCH)
            points = to_tensor(rows.take(drawn.ravel()), settings.device).view(*drawn.shape, d)
            share = torch.sigmoid(nets.log_odds(points))
            sides = torch.stack([1 - share, share], dim=1)  # (K, 2, b)
            offsets = torch.stack([points - nets.centres[:, side, None] for side in (0, 1)], dim=1)
            distances = (offsets.flatten(1, 2) @ nets.metrics).square().sum(dim=2).view_as(sides)
            loss = (sides * distances).sum(dim=1).mean()
            nets.optimizer.step(loss)
            sides = sides.detach()
            weights += sides.sum(dim=2, keepdim=True)
            sums += sides @ points
        nets.centres = torch.where(weights > 1e-3, sums / weights.clamp(min=1e-3), nets.centres)
