"""Training of the nets, and the weighted M-steps that go with it.

One epoch is one pass: each batch becomes its sufficient statistics T(x), which give the targets r^E (one
matrix product with the natural parameters of the clusters) and, weighted by the net's own r, the next M-step.
Nothing of size n x K is ever kept. Beyond ``MAX_BATCHES`` batches an epoch sees a random part of the rows:
what the net learns from them holds for the others too, and so an epoch of a million rows takes no longer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.special import log_softmax

from clusterwise.deepdpm.nets import ClusteringNet, NetWeights, SubclusteringNets, to_tensor
from clusterwise.gaussian.niw import NormalInverseWishart, statistics_of
from clusterwise.gaussian.sorted_rows import Rows

__all__ = [
    "History",
    "Members",
    "Settings",
    "Snapshot",
    "Training",
    "hard_partition",
    "log_responsibilities",
    "m_step",
    "train_clustering_net",
    "train_epoch",
    "train_subclustering_nets",
]

MAX_BATCHES = 64
# Epochs with M-steps in one round; after a move, epochs before them in which the net follows it.
EPOCHS, FROZEN_EPOCHS = 3, 3
# Log responsibilities below this count as this: the loss stays finite far from a cluster.
MIN_LOG = -30.0
# Subclustering nets: rows of each cluster in a batch, batches between two M-steps, and M-steps.
SUB_BATCH, SUB_BATCHES, SUB_STEPS = 256, 4, 25
# With so few clusters a fit may be stuck.
STUCK = 2
# Rows of each cluster that output units are fitted to, and the largest log odds that they start with:
# training must be able to change them.
ROWS_PER_UNIT, MAX_LOG_ODDS = 512, 4.0


@dataclass(frozen=True)
class Settings:
    """Settings of one fit, in the units of the features."""

    prior: NormalInverseWishart
    alpha: float
    n_hidden: int = 50
    batch_size: int = 1024
    learning_rate: float = 5e-3
    max_epochs: int = 300
    max_clusters: int = 500
    device: str = "cpu"


@dataclass
class History:
    """One entry for each epoch; moves are counted at the epoch that they follow.

    ``merges`` also counts clusters that disappeared because no row preferred them.
    """

    n_clusters: list[int] = field(default_factory=list)  # K while the epoch was trained
    loss: list[float] = field(default_factory=list)  # mean loss of the clustering net
    splits: list[int] = field(default_factory=list)
    merges: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.n_clusters)

    def add_epoch(self, n_clusters: int, loss: float) -> None:
        """Append an epoch."""
        for values, value in zip(vars(self).values(), (n_clusters, loss, 0, 0), strict=True):
            values.append(value)

    def add_moves(self, splits: int = 0, merges: int = 0) -> None:
        """Count moves that were accepted after the last epoch."""
        self.splits[-1] += splits
        self.merges[-1] += merges

    def as_arrays(self) -> dict[str, np.ndarray]:
        """All series by name, (epochs,) each, ready for a data frame."""
        return {name: np.asarray(values) for name, values in vars(self).items()}


@dataclass(frozen=True)
class Snapshot:
    """All that is needed to continue a fit, and all that is left when it is over."""

    weights: NetWeights
    statistics: np.ndarray  # (K, p), weighted by the net's memberships
    history: History
    log_split_ratios: np.ndarray  # (K,) log H_s of the splits that were proposed last
    log_merge_ratios: np.ndarray  # (m,) log H_m of the merges that were proposed last
    quiet_rounds: int  # without a move at the end
    interrupted: bool


class Training:
    """A fit under way: rows and settings, the nets, and the mixture that they follow."""

    def __init__(
        self,
        rng: np.random.Generator,
        rows: Rows,
        settings: Settings,
        callback: Callable[[History], object],
        first: Snapshot,
    ) -> None:
        self.rng, self.rows, self.settings, self.callback = rng, rows, settings, callback
        k, d, device = first.weights.n_clusters, rows.n_features, settings.device
        self.net = ClusteringNet.from_weights(first.weights, settings.learning_rate, device)
        self.subnets = SubclusteringNets.draw(rng, k, d, settings.n_hidden, device)
        self.statistics = first.statistics  # (K, p), weighted by the net's memberships
        self.history = copy.deepcopy(first.history)
        self.log_split_ratios, self.log_merge_ratios = first.log_split_ratios, first.log_merge_ratios
        self.ages = np.zeros(k, dtype=np.int64)  # rounds since each cluster was made
        self.just_moved = len(self.history) == 0  # the net has not yet followed the mixture
        self.quiet_rounds = 0
        self.last_epoch = first

    @property
    def n_clusters(self) -> int:
        """Number of clusters at present."""
        return self.net.n_clusters

    def take(self, parents: np.ndarray) -> None:
        """Give each of K' clusters the subclustering net, statistics and age of its parent, (K',)."""
        self.subnets.take(torch.from_numpy(parents).to(self.settings.device))
        self.statistics, self.ages = self.statistics[parents], self.ages[parents]

    @property
    def over(self) -> bool:
        """Whether there are no epochs left."""
        return len(self.history) >= self.settings.max_epochs

    def snapshot(self, interrupted: bool = False) -> Snapshot:
        """The present state."""
        weights, history = self.net.to_weights(), copy.deepcopy(self.history)
        ratios = self.log_split_ratios, self.log_merge_ratios
        return Snapshot(weights, self.statistics, history, *ratios, self.quiet_rounds, interrupted)


# -- the clustering net --------------------------------------------------------------------------


def m_step(statistics: np.ndarray, prior: NormalInverseWishart) -> np.ndarray:
    """Natural parameters eta (K, p) of the MAP mixture: log pi_k N(x; mu_k, Sigma_k) is T(x) . eta_k."""
    counts = np.maximum(statistics[:, 0], 1e-6)
    eta = prior.most_probable(np.concatenate([counts[:, None], statistics[:, 1:]], axis=1))
    eta[:, 0] += np.log(counts / counts.sum())
    return eta


def log_responsibilities(lifted: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """log r^E (n, K) of points with sufficient statistics ``lifted`` (n, p)."""
    result: np.ndarray = log_softmax(lifted @ eta.T, axis=1)
    return np.maximum(result, MIN_LOG, out=result)


def train_epoch(
    rng: np.random.Generator, rows: Rows, net: ClusteringNet, eta: np.ndarray, settings: Settings
) -> tuple[float, np.ndarray]:
    """Mean KL(r || r^E) of one pass, and the statistics (K, p) weighted by the net's memberships r."""
    n, prior = len(rows), settings.prior
    order = rng.permutation(n)[: MAX_BATCHES * settings.batch_size]
    statistics, total = np.zeros((net.n_clusters, prior.n_statistics)), 0.0
    for batch in np.array_split(order, -(-len(order) // settings.batch_size)):
        points = rows.take(np.sort(batch))
        lifted = prior.terms(points)
        log_targets = to_tensor(log_responsibilities(lifted, eta), settings.device)
        log_r = torch.log_softmax(net.logits(to_tensor(points, settings.device)), dim=1)
        r = log_r.exp()
        loss = (r * (log_r - log_targets)).sum(dim=1).mean()
        net.optimizer.step(loss)
        statistics += r.detach().cpu().numpy().astype(np.float64).T @ lifted
        total += float(loss.detach()) * len(batch)
    return total / len(order), statistics * (n / len(order))


def train_clustering_net(fit: Training, n_epochs: int = EPOCHS) -> None:
    """Train net and mixture in turn; after a move the mixture stands still until the net has followed."""
    n_frozen = FROZEN_EPOCHS if fit.just_moved else 0
    fit.just_moved = False
    for epoch in range(n_frozen + n_epochs):
        if fit.over:
            return
        loss = 0.0
        if fit.n_clusters > 1:
            eta = m_step(fit.statistics, fit.settings.prior)
            loss, statistics = train_epoch(fit.rng, fit.rows, fit.net, eta, fit.settings)
            if epoch >= n_frozen:
                fit.statistics = statistics
        fit.history.add_epoch(fit.n_clusters, loss)
        fit.last_epoch = fit.snapshot(interrupted=True)
        fit.callback(fit.history)
        if fit.n_clusters == 1:  # nothing to learn: all memberships are one
            return


# -- the subclustering nets ----------------------------------------------------------------------


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


def hard_labels(rows: Rows, net: ClusteringNet, device: str) -> np.ndarray:
    """The net's cluster of every row, (n,)."""
    labels = np.zeros(len(rows), dtype=np.int64)
    with torch.no_grad():
        for part, points in rows.chunks(len(net.hidden_bias) + net.n_clusters):
            labels[part] = net.logits(to_tensor(points, device)).argmax(dim=1).cpu().numpy()
    return labels


def hard_partition(fit: Training) -> Members:
    """Members of the clusters; those that no row prefers are dropped first."""
    labels = hard_labels(fit.rows, fit.net, fit.settings.device)
    kept = np.unique(labels)
    if len(kept) < fit.n_clusters:
        fit.history.add_moves(merges=fit.n_clusters - len(kept))
        fit.net.take(torch.from_numpy(kept).to(fit.settings.device))
        fit.take(kept)
    return Members.of(np.searchsorted(kept, labels), len(kept))


def draw_points(rng: np.random.Generator, rows: Rows, members: Members, size: int) -> np.ndarray:
    """Random rows (K, size, d) of each cluster."""
    return rows.take(members.draw(rng, size).ravel()).reshape(-1, size, rows.n_features)


def train_subclustering_nets(fit: Training, members: Members) -> None:
    """Train all subclustering nets on the isotropic loss, each on its own cluster."""
    first_cuts(fit, members)
    nets, device = fit.subnets, fit.settings.device
    for _ in range(SUB_STEPS):
        weights = torch.zeros(nets.n_clusters, 2, 1, device=device)
        sums = torch.zeros_like(nets.centres)
        for _ in range(SUB_BATCHES):
            points = to_tensor(draw_points(fit.rng, fit.rows, members, SUB_BATCH), device)
            share = torch.sigmoid(nets.log_odds(points))
            sides = torch.stack([1 - share, share], dim=1)  # r~, (K, 2, b)
            offsets = torch.stack([points - nets.centres[:, side, None] for side in (0, 1)], dim=1)
            distances = (offsets.flatten(1, 2) @ nets.metrics).square().sum(dim=2).view_as(sides)
            nets.optimizer.step((sides * distances).sum(dim=1).mean())
            sides = sides.detach()
            weights += sides.sum(dim=2, keepdim=True)
            sums += sides @ points
        nets.centres = torch.where(weights > 1e-3, sums / weights.clamp(min=1e-3), nets.centres)


def first_cuts(fit: Training, members: Members) -> None:
    """Let every subclustering net start from a cut through the centre of its cluster.

    It is cut across its longest axis. Where that led to no split and there are so few clusters that the fit
    may be stuck, the distances in the isotropic loss are measured in the cluster's own standard deviations,
    and the cuts are random: two long bars side by side are told apart in this way only.
    """
    prior, device = fit.settings.prior, fit.settings.device
    posterior = prior.posterior(statistics_of(fit.rows, members.labels, fit.n_clusters, prior))
    variances, axes = np.linalg.eigh(prior.covariances(posterior))
    plain = (fit.ages == 0) | (fit.n_clusters > STUCK)
    directions = fit.rng.standard_normal(variances.shape) / np.sqrt(variances)
    directions[plain] = np.eye(variances.shape[1])[-1]
    normals = np.einsum("kab,kb->ka", axes, directions)
    metrics = axes / np.sqrt(variances)[:, None, :]
    metrics[plain] = np.eye(variances.shape[1])
    fit.subnets.metrics = to_tensor(metrics, device)
    points = draw_points(fit.rng, fit.rows, members, ROWS_PER_UNIT)
    heights = np.einsum("kbd,kd->kb", points - posterior.mean[:, None], normals)
    heights /= np.maximum(np.sqrt(np.square(heights).mean(axis=1, keepdims=True)), 1e-12)
    log_odds = np.clip(3 * heights, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    fit.subnets.fit_log_odds(to_tensor(points, device), to_tensor(log_odds, device))
