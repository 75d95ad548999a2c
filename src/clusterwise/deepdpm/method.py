r"""DeepDPM: a Dirichlet-process mixture of one data set whose memberships come from nets.

After Ronen, Finder & Freifeld (2022). The clustering net gives rows x_i memberships r_i = f_cl(x_i), which
follow the responsibilities of the mixture, and the mixture is estimated from them::

    L_cl  = sum_i KL(r_i || r_i^E)          r_ik^E = pi_k N(x_i; mu_k, Sigma_k) / sum_k' (the same)
    mu_k, Sigma_k, pi_k = weighted MAP estimates, row i with weight r_ik                    (the M-step)

A net of each cluster divides it in two, r~_i = f_sub^k(x_i), around the means mu~ of its subclusters::

    L_sub = sum_k sum_{i in k} sum_j r~_ij |x_i - mu~_kj|^2

and a cluster k may split into its subclusters, accepted with probability min(1, H_s), ::

    H_s = alpha Gamma(N_1) f(X_1) Gamma(N_2) f(X_2) / (Gamma(N) f(X)),

where f is the marginal likelihood of the rows that are assigned to a part. Neighbours
merge with H_m = 1 / H_s.

=============  ========================================================================================
x_i            row i, i = 1 .. n, of d features
r_i, r_i^E     memberships (K,) by the clustering net, and by the mixture
pi, mu, Sigma  weights, means and covariances of the mixture of K Gaussians, with a NIW prior
T(x)           sufficient statistics (p,) of a row; their weighted sums (K, p) stand for the mixture
f_cl           clustering net: one hidden layer, K outputs, softmax
f_sub^k        subclustering net of cluster k: one hidden layer, two outputs, softmax
=============  ========================================================================================
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist
from torch import Tensor

from clusterwise.deepdpm.nets import (
    MAX_LOG_ODDS,
    ROWS_PER_UNIT,
    ClusteringNet,
    Members,
    NetWeights,
    SubclusteringNets,
    log_responsibilities,
    m_step,
    second_halves,
    to_tensor,
    train_clustering_net,
    train_subclustering_nets,
)
from clusterwise.gaussian.moves import (
    HastingsRatio,
    choose_merges,
    choose_splits,
    names_after,
    neighbouring_pairs,
)
from clusterwise.gaussian.niw import NormalInverseWishart, statistics_of
from clusterwise.rows.sorted_rows import Rows

__all__ = ["Fit", "History", "Settings", "Snapshot", "fit_mixture", "merge_clusters", "split_clusters"]

# Rounds without a move before the end, and epochs after it, in which the learning rate falls to nothing.
PATIENCE, LAST_EPOCHS = 3, 8
# Rows of a cluster weigh this much in the fit of its own units, all others one.
OWN_WEIGHT = 20.0
# Rows that the first partition is made from.
FIRST_ROWS = 20_000
K_MEANS_STEPS = 20
# Targets of the first output units end here: beyond, the fit would bend to rows whose cluster is clear.
MIN_FIRST_LOG = -8.0


def fit_mixture(
    seed: int,
    rows: Rows,
    settings: Settings,
    k_init: int,
    before: Snapshot | None = None,
    callback: Callable[[History], object] = lambda history: None,
) -> Snapshot:
    """State of the fit to ``rows``, after some rounds without a move; ``before`` is where another ended.

    ``callback`` gets the history after every epoch. An interrupt from the keyboard ends the fit with the
    state of the last whole epoch.
    """
    rng = np.random.default_rng(seed)
    first = Snapshot.of(*first_partition(rng, rows, settings, k_init)) if before is None else before
    fit = Fit(rng, rows, settings, callback, first)
    try:
        while fit.quiet_rounds < PATIENCE and not fit.over:
            train_clustering_net(fit)  # nets.py: L_cl and the M-step
            members = hard_partition(fit)
            train_subclustering_nets(fit, members)  # nets.py: L_sub
            n_moves = split_clusters(fit, members)  # H_s
            if n_moves:
                train_clustering_net(fit)
            n_moves += merge_clusters(fit, hard_partition(fit))  # H_m
            fit.quiet_rounds = 0 if n_moves else fit.quiet_rounds + 1
        if fit.just_moved:
            train_clustering_net(fit)
        for epoch in range(LAST_EPOCHS):
            fit.net.optimizer.learning_rate = settings.learning_rate * (1 - epoch / LAST_EPOCHS)
            train_clustering_net(fit, n_epochs=1)
    except KeyboardInterrupt:
        return fit.last_epoch
    return fit.snapshot()


# -- where a fit is ------------------------------------------------------------------------------


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

    @classmethod
    def of(cls, weights: NetWeights, statistics: np.ndarray) -> Snapshot:
        """A fit that begins with these weights and statistics (K, p)."""
        return cls(weights, statistics, History(), np.full(len(statistics), -np.inf), np.empty(0), 0, True)

    def k_after_moves(self) -> dict[int, float]:
        """Distribution of K after one more round of the moves that were proposed last, each on its own."""
        n_clusters = self.weights.n_clusters
        # A cluster merges with one other at most: of K clusters the K / 2 likeliest pairs are counted.
        merges = np.sort(self.log_merge_ratios)[::-1][: n_clusters // 2]
        law = np.ones(1)
        for accepted in np.exp(np.minimum(self.log_split_ratios, 0.0)):
            law = np.convolve(law, [1 - accepted, accepted])
        for accepted in np.exp(np.minimum(merges, 0.0)):
            law = np.convolve(law, [accepted, 1 - accepted])
        likely = {k: float(p) for k, p in enumerate(law, start=n_clusters - len(merges)) if p > 1e-12}
        total = sum(likely.values())
        return {k: p / total for k, p in likely.items()}


class Fit:
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
    def over(self) -> bool:
        """Whether there are no epochs left."""
        return len(self.history) >= self.settings.max_epochs

    def take(self, parents: np.ndarray) -> None:
        """Give each of K' clusters the subclustering net, statistics and age of its parent, (K',)."""
        self.subnets.take(torch.from_numpy(parents).to(self.settings.device))
        self.statistics, self.ages = self.statistics[parents], self.ages[parents]

    def end_epoch(self, loss: float) -> None:
        """Note an epoch with this loss; an interrupt would leave the fit as it is now."""
        self.history.add_epoch(self.net.n_clusters, loss)
        self.last_epoch = self.snapshot(interrupted=True)
        self.callback(self.history)

    def snapshot(self, interrupted: bool = False) -> Snapshot:
        """The present state."""
        weights, history = self.net.to_weights(), copy.deepcopy(self.history)
        ratios = self.log_split_ratios, self.log_merge_ratios
        return Snapshot(weights, self.statistics, history, *ratios, self.quiet_rounds, interrupted)


# -- the start -----------------------------------------------------------------------------------


def first_partition(
    rng: np.random.Generator, rows: Rows, settings: Settings, k_init: int
) -> tuple[NetWeights, np.ndarray]:
    """A net that follows a partition by k-means into at most ``k_init`` clusters, and statistics (K, p)."""
    prior, device = settings.prior, settings.device
    net = ClusteringNet.draw(rng, rows.n_features, settings.n_hidden, settings.learning_rate, device)
    labels = first_labels(rng, rows, min(k_init, len(rows)))
    k = int(labels.max()) + 1
    statistics = statistics_of(rows, labels, k, prior)
    if k > 1:
        points = Members.of(labels, k).draw_points(rng, rows, ROWS_PER_UNIT).reshape(-1, rows.n_features)
        log_r = log_responsibilities(prior.terms(points), m_step(statistics, prior))
        targets = to_tensor(np.maximum(log_r, MIN_FIRST_LOG), device)
        new = torch.full((k,), -1, device=device)
        net.set_outputs(to_tensor(points, device), targets, torch.ones_like(targets), new)
    return net.to_weights(), statistics


def first_labels(rng: np.random.Generator, rows: Rows, k: int) -> np.ndarray:
    """A partition (n,) into at most k clusters by k-means on some of the rows."""
    n = len(rows)
    if k == 1:
        return np.zeros(n, dtype=np.int64)
    some = rows.take(np.sort(rng.choice(n, min(n, FIRST_ROWS), replace=False)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # clusters may come out empty
        centres, _ = kmeans2(some, k, iter=K_MEANS_STEPS, minit="++", rng=rng)
    labels = np.empty(n, dtype=np.int64)
    for part, points in rows.chunks(k + rows.n_features):
        labels[part] = cdist(points, centres).argmin(axis=1)
    return np.unique(labels, return_inverse=True)[1]


# -- splits and merges ---------------------------------------------------------------------------


def hard_partition(fit: Fit) -> Members:
    """Members of the clusters; those that no row prefers are dropped first."""
    device = fit.settings.device
    labels = np.empty(len(fit.rows), dtype=np.int64)
    with torch.no_grad():
        for part, points in fit.rows.chunks(fit.settings.n_hidden + fit.net.n_clusters):
            labels[part] = fit.net.logits(to_tensor(points, device)).argmax(dim=1).cpu().numpy()
    kept = np.unique(labels)
    if len(kept) < fit.net.n_clusters:
        fit.history.add_moves(merges=fit.net.n_clusters - len(kept))
        fit.net.take(torch.from_numpy(kept).to(device))
        fit.take(kept)
    return Members.of(np.searchsorted(kept, labels), len(kept))


def split_clusters(fit: Fit, members: Members) -> int:
    """Number of clusters that split into their subclusters."""
    settings, k, labels = fit.settings, fit.net.n_clusters, 2 * members.labels + second_halves(fit, members)
    halves = statistics_of(fit.rows, labels, 2 * k, settings.prior).reshape(k, 2, -1)
    statistics = halves.sum(axis=1)
    test = HastingsRatio(statistics, settings.prior, settings.alpha, fit.rng)
    accepted, fit.log_split_ratios = choose_splits(halves, test)
    split = accepted[: max(0, settings.max_clusters - k)]
    fit.ages += 1
    if len(split) > 0:
        split_outputs(fit, members, split)
        fit.statistics = statistics
        fit.take(np.concatenate([np.arange(k), split]))
        fit.statistics[split], fit.statistics[k:] = halves[split, 0], halves[split, 1]
        fit.ages[split] = fit.ages[k:] = 0
        fit.history.add_moves(splits=len(split))
        fit.just_moved = True
    return len(split)


def merge_clusters(fit: Fit, members: Members) -> int:
    """Number of pairs of neighbouring clusters that merge."""
    settings, k = fit.settings, fit.net.n_clusters
    statistics = statistics_of(fit.rows, members.labels, k, settings.prior)
    test = HastingsRatio(statistics, settings.prior, settings.alpha, fit.rng)
    pairs, fit.log_merge_ratios = choose_merges(neighbouring_pairs(statistics, settings.prior), test)
    if len(pairs) > 0:
        first, second = pairs.T
        statistics[first] += statistics[second]
        fit.statistics, fit.ages[first] = statistics, 0
        fit.take(merge_outputs(fit, members, pairs))
        fit.history.add_moves(merges=len(pairs))
        fit.just_moved = True
    return len(pairs)


def split_outputs(fit: Fit, members: Members, split: np.ndarray) -> None:
    """Replace the output of each cluster in ``split`` (m,) by two; the second ones come last."""
    k, m = fit.net.n_clusters, len(split)
    units, new = np.concatenate([np.arange(k), split]), np.arange(k, k + m)
    points, clusters = _points_and_clusters(fit, members)
    with torch.no_grad():
        log_odds = torch.stack([fit.subnets.log_odds_of(c, points) for c in split.tolist()], dim=1)
        log_odds = log_odds.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)
        targets = fit.net.logits(points)[:, units]
        targets[:, split] += torch.nn.functional.logsigmoid(-log_odds)
        targets[:, new] += torch.nn.functional.logsigmoid(log_odds)
    own = clusters[:, None] == units
    units[split] = units[new] = -1
    _set_outputs(fit, points, targets, own, units)


def merge_outputs(fit: Fit, members: Members, pairs: np.ndarray) -> np.ndarray:
    """Give the clusters of each of the pairs (m, 2) one output; the clusters that remain, (K',)."""
    names, remain = names_after(pairs, fit.net.n_clusters)
    points, clusters = _points_and_clusters(fit, members)
    units = remain.copy()
    with torch.no_grad():
        logits = fit.net.logits(points)
        targets = logits[:, units]
        for pair in pairs:
            targets[:, names[pair[0]]] = logits[:, pair].logsumexp(dim=1)
    units[names[pairs[:, 0]]] = -1
    _set_outputs(fit, points, targets, names[clusters][:, None] == np.arange(len(remain)), units)
    return remain


def _points_and_clusters(fit: Fit, members: Members) -> tuple[Tensor, np.ndarray]:
    """Points (m, d) of every cluster, which output units are fitted to, and their clusters (m,)."""
    points = members.draw_points(fit.rng, fit.rows, ROWS_PER_UNIT)
    labels = np.repeat(np.arange(fit.net.n_clusters), ROWS_PER_UNIT)
    return to_tensor(points.reshape(len(labels), -1), fit.settings.device), labels


def _set_outputs(fit: Fit, points: Tensor, targets: Tensor, own: np.ndarray, units: np.ndarray) -> None:
    """Fit the new outputs to targets (m, K') at points (m, d), of which each has its ``own`` (m, K')."""
    weights = to_tensor(np.where(own, OWN_WEIGHT, 1.0), fit.settings.device)
    fit.net.set_outputs(points, targets, weights, torch.from_numpy(units).to(fit.settings.device))
