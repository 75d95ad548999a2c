"""Splits and merges: what is proposed, what the Hastings ratio makes of it, and what becomes of the nets.

A cluster k may split into its subclusters, which is accepted with probability min(1, H_s), ::

    H_s = alpha Gamma(N_1) f(X_1) Gamma(N_2) f(X_2) / (Gamma(N) f(X)),

and two clusters that are near each other may merge, with H_m = 1 / H_s. f is the marginal likelihood of the
rows that are assigned to a part.
"""

from __future__ import annotations

import numpy as np
import torch

from clusterwise.deepdpm.net_training import (
    MAX_LOG_ODDS,
    ROWS_PER_UNIT,
    Members,
    Snapshot,
    Training,
    draw_points,
)
from clusterwise.deepdpm.nets import to_tensor
from clusterwise.gaussian.moves import HastingsRatio, choose_merges, choose_splits, neighbouring_pairs
from clusterwise.gaussian.niw import statistics_of

__all__ = ["k_after_moves", "merge_clusters", "split_clusters"]

# Rows of a cluster weigh this much in the fit of its own units, all others one.
OWN_WEIGHT = 20.0


def split_clusters(fit: Training, members: Members) -> int:
    """Number of clusters that split into their subclusters."""
    settings, k = fit.settings, fit.n_clusters
    sides = subclusters(fit, members)
    halves = statistics_of(fit.rows, 2 * members.labels + sides, 2 * k, settings.prior).reshape(k, 2, -1)
    test = HastingsRatio(halves.sum(axis=1), settings.prior, settings.alpha, fit.rng)
    accepted, fit.log_split_ratios = choose_splits(halves, test)
    split = accepted[: max(0, settings.max_clusters - k)]
    fit.ages += 1
    if len(split) == 0:
        return 0
    split_outputs(fit, members, split)
    fit.statistics = halves.sum(axis=1)
    fit.take(np.concatenate([np.arange(k), split]))
    fit.statistics[split], fit.statistics[k:] = halves[split, 0], halves[split, 1]
    fit.ages[split] = fit.ages[k:] = 0
    fit.history.add_moves(splits=len(split))
    fit.just_moved = True
    return len(split)


def merge_clusters(fit: Training, members: Members) -> int:
    """Number of pairs of neighbouring clusters that merge."""
    settings, k = fit.settings, fit.n_clusters
    statistics = statistics_of(fit.rows, members.labels, k, settings.prior)
    test = HastingsRatio(statistics, settings.prior, settings.alpha, fit.rng)
    pairs, fit.log_merge_ratios = choose_merges(neighbouring_pairs(statistics, settings.prior), test)
    if len(pairs) == 0:
        return 0
    first, second = pairs.T
    remain = np.setdiff1d(np.arange(k), second)
    statistics[first] += statistics[second]
    fit.statistics, fit.ages[first] = statistics, 0
    merge_outputs(fit, members, pairs, remain)
    fit.take(remain)
    fit.history.add_moves(merges=len(pairs))
    fit.just_moved = True
    return len(pairs)


# -- proposals -----------------------------------------------------------------------------------


def subclusters(fit: Training, members: Members) -> np.ndarray:
    """Whether each row is in the second subcluster of its cluster, (n,) bool."""
    sides = np.zeros(len(fit.rows), dtype=bool)
    with torch.no_grad():
        for cluster in range(fit.n_clusters):
            rows = members.rows(cluster)
            for part, points in fit.rows.chunks_of(rows, fit.settings.n_hidden):
                log_odds = fit.subnets.log_odds_of(cluster, to_tensor(points, fit.settings.device))
                sides[rows[part]] = (log_odds > 0).cpu().numpy()
    return sides


def k_after_moves(snapshot: Snapshot) -> dict[int, float]:
    """Distribution of K after one more round of the moves that were proposed last, each on its own."""
    n_clusters = snapshot.weights.n_clusters
    # A cluster merges with one other at most: of K clusters the K / 2 likeliest pairs are counted.
    merges = np.sort(snapshot.log_merge_ratios)[::-1][: n_clusters // 2]
    law = np.ones(1)
    for accepted in np.exp(np.minimum(snapshot.log_split_ratios, 0.0)):
        law = np.convolve(law, [1 - accepted, accepted])
    for accepted in np.exp(np.minimum(merges, 0.0)):
        law = np.convolve(law, [accepted, 1 - accepted])
    first = n_clusters - len(merges)
    likely = {k: float(p) for k, p in enumerate(law, start=first) if p > 1e-12}
    total = sum(likely.values())
    return {k: p / total for k, p in likely.items()}


# -- what becomes of the clustering net ----------------------------------------------------------


def split_outputs(fit: Training, members: Members, split: np.ndarray) -> None:
    """Double the output units of the clusters ``split`` (m,); the second halves come last."""
    k, device = fit.n_clusters, fit.settings.device
    points, clusters = _sample(fit, members)
    with torch.no_grad():
        logits = fit.net.logits(points)
        log_odds = torch.stack([fit.subnets.log_odds_of(c, points) for c in split.tolist()], dim=1)
        log_odds = log_odds.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)
        parents = torch.from_numpy(split).to(device)
        first = logits[:, parents] + torch.nn.functional.logsigmoid(-log_odds)
        second = logits[:, parents] + torch.nn.functional.logsigmoid(log_odds)
        targets = torch.cat([logits, second], dim=1)
        targets[:, parents] = first
        own = torch.from_numpy(clusters[:, None] == split).to(device)
        weights = torch.ones_like(targets)
        weights[:, parents] = weights[:, k:] = 1 + (OWN_WEIGHT - 1) * own.float()
    units = torch.arange(k + len(split), device=device)
    units[k:] = units[parents] = -1
    fit.net.set_outputs(points, targets, weights, units)


def merge_outputs(fit: Training, members: Members, pairs: np.ndarray, remain: np.ndarray) -> None:
    """Give each of the pairs (m, 2) one output unit in place of its first; the others in ``remain`` stay."""
    device = fit.settings.device
    points, clusters = _sample(fit, members)
    units = torch.tensor(remain, device=device)
    with torch.no_grad():
        logits = fit.net.logits(points)
        targets = logits[:, units]
        weights = torch.ones_like(targets)
        for pair in pairs:
            unit = int(np.searchsorted(remain, pair[0]))
            targets[:, unit] = logits[:, pair.tolist()].logsumexp(dim=1)
            own = torch.from_numpy(np.isin(clusters, pair)).to(device)
            weights[:, unit] = 1 + (OWN_WEIGHT - 1) * own.float()
            units[unit] = -1
    fit.net.set_outputs(points, targets, weights, units)


def _sample(fit: Training, members: Members) -> tuple[torch.Tensor, np.ndarray]:
    """Points (m, d) of every cluster, which output units are fitted to, and their clusters (m,)."""
    points = draw_points(fit.rng, fit.rows, members, ROWS_PER_UNIT)
    labels = np.repeat(np.arange(fit.n_clusters), ROWS_PER_UNIT)
    return to_tensor(points.reshape(len(labels), -1), fit.settings.device), labels
