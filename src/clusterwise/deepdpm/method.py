r"""DeepDPM: a Dirichlet-process mixture of one data set whose memberships come from nets.

After Ronen, Finder & Freifeld (2022). The clustering net gives rows x_i memberships r_i = f_cl(x_i), which
follow the responsibilities of the mixture, and the mixture is estimated from them::

    L_cl  = sum_i KL(r_i || r_i^E)          r_ik^E = pi_k N(x_i; mu_k, Sigma_k) / sum_k' (the same)
    mu_k, Sigma_k, pi_k = weighted MAP estimates, row i with weight r_ik                    (the M-step)

A net of each cluster divides it in two, r~_i = f_sub^k(x_i), around the means mu~ of its subclusters::

    L_sub = sum_k sum_{i in k} sum_j r~_ij |x_i - mu~_kj|^2

and K changes by splits into the subclusters and by mergers, accepted by a Hastings ratio (``split_merge``).

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

import warnings
from collections.abc import Callable

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from clusterwise.deepdpm.net_training import (
    ROWS_PER_UNIT,
    History,
    Members,
    Settings,
    Snapshot,
    Training,
    draw_points,
    hard_partition,
    log_responsibilities,
    m_step,
    train_clustering_net,
    train_subclustering_nets,
)
from clusterwise.deepdpm.nets import ClusteringNet, NetWeights, to_tensor
from clusterwise.deepdpm.split_merge import merge_clusters, split_clusters
from clusterwise.gaussian.clusters import Clusters
from clusterwise.gaussian.niw import NormalInverseWishart, statistics_of
from clusterwise.gaussian.sorted_rows import Rows, by_first_appearance

__all__ = ["fit_mixture", "outputs_in_use", "weighted_rows"]

# Rounds without a move before the end, and epochs after it, in which the learning rate falls to nothing.
PATIENCE, LAST_EPOCHS = 3, 8
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
    first = first_snapshot(rng, rows, settings, k_init) if before is None else before
    fit = Training(rng, rows, settings, callback, first)
    try:
        while fit.quiet_rounds < PATIENCE and not fit.over:
            train_clustering_net(fit)  # net_training.py: L_cl and the M-step
            members = hard_partition(fit)
            train_subclustering_nets(fit, members)  # net_training.py: L_sub
            moves = split_clusters(fit, members)  # split_merge.py: H_s
            if moves:
                train_clustering_net(fit)
            moves += merge_clusters(fit, hard_partition(fit))  # split_merge.py: H_m
            fit.quiet_rounds = 0 if moves else fit.quiet_rounds + 1
        if fit.just_moved:
            train_clustering_net(fit)
        for epoch in range(LAST_EPOCHS):
            fit.net.optimizer.learning_rate = settings.learning_rate * (1 - epoch / LAST_EPOCHS)
            train_clustering_net(fit, n_epochs=1)
    except KeyboardInterrupt:
        return fit.last_epoch
    return fit.snapshot()


def first_snapshot(rng: np.random.Generator, rows: Rows, settings: Settings, k_init: int) -> Snapshot:
    """A partition by k-means into at most ``k_init`` clusters, its mixture, and a net that follows it."""
    prior, device = settings.prior, settings.device
    net = ClusteringNet.draw(rng, rows.n_features, settings.n_hidden, settings.learning_rate, device)
    labels = first_labels(rng, rows, min(k_init, len(rows)))
    k = int(labels.max()) + 1
    statistics = statistics_of(rows, labels, k, prior)
    if k > 1:
        points = draw_points(rng, rows, Members.of(labels, k), ROWS_PER_UNIT).reshape(-1, rows.n_features)
        log_r = log_responsibilities(prior.terms(points), m_step(statistics, prior))
        targets = to_tensor(np.maximum(log_r, MIN_FIRST_LOG), device)
        new = torch.full((k,), -1, device=device)
        net.set_outputs(to_tensor(points, device), targets, torch.ones_like(targets), new)
    return Snapshot(net.to_weights(), statistics, History(), np.full(k, -np.inf), np.empty(0), 0, True)


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


# -- what is left of a fit -----------------------------------------------------------------------


def weighted_rows(
    rows: Rows, weights: NetWeights, prior: NormalInverseWishart
) -> tuple[np.ndarray, np.ndarray]:
    """Memberships (n, K) of all rows, and the statistics (K, p) that they weight."""
    k = weights.n_clusters
    membership, statistics = np.empty((len(rows), k)), np.zeros((k, prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics):
        membership[part] = weights.memberships(points)
        statistics += membership[part].T @ prior.terms(points)
    return membership, statistics


def outputs_in_use(
    rows: Rows, order: np.ndarray | None, weights: NetWeights, prior: NormalInverseWishart
) -> tuple[NetWeights, Clusters, np.ndarray]:
    """Outputs that some row prefers, in the order of first appearance.

    Returns also the clusters that they weight, and the memberships (n, K) of all rows. ``order`` (n,) has
    the places of the rows in the input; None: as they came.
    """
    while True:
        membership, statistics = weighted_rows(rows, weights, prior)
        in_use = by_first_appearance(membership.argmax(axis=1), weights.n_clusters, order)
        if np.array_equal(in_use, np.arange(weights.n_clusters)):
            return weights, Clusters(prior, statistics), membership
        # A row between two outputs prefers the first of them: look again after they changed places.
        weights = weights.select(in_use)
