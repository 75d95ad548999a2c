"""Splits and merges: what is proposed, what the Hastings ratio makes of it, and what becomes of the nets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clusterwise.deepdpm.nets import ClusteringNet, SubclusteringNets
from clusterwise.deepdpm.settings import Settings
from clusterwise.deepdpm.training import Members, to_tensor
from clusterwise.gaussian.moves import log_split_odds, nearest_pairs
from clusterwise.gaussian.niw import NormalInverseWishart, sum_by_label
from clusterwise.gaussian.rows import Rows

__all__ = [
    "Proposals",
    "accept_merges",
    "accept_splits",
    "aim_subclusters",
    "join_outputs",
    "k_after_moves",
    "network_sides",
    "split_outputs",
    "statistics_of_halves",
    "two_means_sides",
]

# With so few clusters a fit may be stuck.
STUCK = 2
# Rows of each cluster that output units are fitted to.
ROWS_PER_UNIT = 512
# Rows of a cluster weigh this much in the fit of its own units, all others one.
OWN_WEIGHT = 20.0
# Log odds that new units start with are at most this large: training must be able to change them.
MOST_ODDS = 4.0
TWO_MEANS_STEPS = 15


@dataclass(frozen=True)
class Proposals:
    """Log Hastings ratios of what was proposed last."""

    splits: np.ndarray  # (K,)
    merges: np.ndarray  # (m,)


# -- subclusters ---------------------------------------------------------------------------------


def aim_subclusters(
    rng: np.random.Generator,
    rows: Rows,
    nets: SubclusteringNets,
    members: Members,
    statistics: np.ndarray,
    ages: np.ndarray,
    settings: Settings,
) -> None:
    """Let every subclustering net start from a cut through the centre of its cluster.

    It is cut across its longest axis. Where that led to nothing and there are so few clusters that the fit
    may be stuck, the distances in the isotropic loss are measured in the cluster's own standard deviations,
    and the cuts are random: two long bars side by side are told apart in this way only. ``statistics`` (K, p)
    are those of the clusters, ``ages`` (K,) count the rounds since they were made.
    """
    posterior = settings.prior.posterior(statistics)
    variances, axes = np.linalg.eigh(settings.prior.covariances(posterior))
    plain = (ages == 0) | (len(ages) > STUCK)
    directions = rng.standard_normal(variances.shape)
    directions /= np.sqrt(variances)
    directions[plain] = 0.0
    directions[plain, -1] = 1.0
    normals = np.einsum("kab,kb->ka", axes, directions)
    metrics = axes / np.sqrt(variances)[:, None, :]
    metrics[plain] = np.eye(variances.shape[1])
    drawn = members.draw(rng, np.arange(len(ages)), ROWS_PER_UNIT)
    points = rows.take(drawn.ravel()).reshape(*drawn.shape, -1)
    heights = np.einsum("kbd,kd->kb", points - posterior.mean[:, None], normals)
    heights /= np.maximum(np.sqrt(np.square(heights).mean(axis=1, keepdims=True)), 1e-12)
    device = settings.device
    nets.metrics = to_tensor(metrics, device)
    nets.aim(
        torch.arange(len(ages), device=device),
        to_tensor(points, device),
        to_tensor(np.clip(3 * heights, -MOST_ODDS, MOST_ODDS), device),
    )
    nets.renew()


def network_sides(rows: Rows, nets: SubclusteringNets, members: Members, device: str) -> np.ndarray:
    """Whether each row is in the second subcluster of its cluster, (n,) bool."""
    sides = np.zeros(len(rows), dtype=bool)
    with torch.no_grad():
        for cluster in range(nets.n_clusters):
            mine = members.rows(cluster)
            for part, points in rows.chunks_of(mine, nets.hidden.shape[2]):
                sides[mine[part]] = (nets.log_odds_of(cluster, to_tensor(points, device)) > 0).cpu().numpy()
    return sides


def two_means_sides(rows: Rows, nets: SubclusteringNets, labels: np.ndarray) -> np.ndarray:
    """The same by 2-means in every cluster, started from the centres that the nets were aimed at."""
    centres = nets.centres.detach().cpu().numpy().astype(np.float64)
    k, d = len(centres), rows.n_features
    sides = np.zeros(len(rows), dtype=bool)
    for _ in range(TWO_MEANS_STEPS):
        directions = centres[:, 1] - centres[:, 0]
        thresholds = (np.square(centres[:, 1]) - np.square(centres[:, 0])).sum(axis=1) / 2
        sums = np.zeros((2 * k, d + 1))
        for part, points in rows.chunks(4 * d):
            of = labels[part]
            sides[part] = np.einsum("nd,nd->n", points, directions[of]) > thresholds[of]
            ones = np.ones((len(points), 1))
            sums += sum_by_label(np.concatenate([ones, points], axis=1), 2 * of + sides[part], 2 * k)
        new = (sums[:, 1:] / np.maximum(sums[:, :1], 1.0)).reshape(k, 2, d)
        new = np.where(sums[:, 0].reshape(k, 2, 1) > 0, new, centres)
        if np.allclose(new, centres, rtol=0, atol=1e-6):
            break
        centres = new
    nets.centres = torch.from_numpy(centres.astype(np.float32)).to(nets.centres.device)
    return sides


def statistics_of_halves(
    rows: Rows, labels: np.ndarray, sides: np.ndarray, n_clusters: int, prior: NormalInverseWishart
) -> np.ndarray:
    """Sufficient statistics (K, 2, p) of all subclusters."""
    total = np.zeros((2 * n_clusters, prior.n_statistics))
    for part, points in rows.chunks(prior.n_statistics):
        total += sum_by_label(prior.lift(points), 2 * labels[part] + sides[part], 2 * n_clusters)
    return total.reshape(n_clusters, 2, -1)


# -- decisions -----------------------------------------------------------------------------------


def accept_splits(
    rng: np.random.Generator, halves: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray]:
    """Which clusters split, (K,) bool, given the statistics of their halves; and log H of each."""
    two = halves[:, :, 0].min(axis=1) > 0.5
    log_odds = np.full(len(halves), -np.inf)
    if two.any():
        log_odds[two] = log_split_odds(halves[two], settings.alpha, settings.prior)
    return np.log(rng.random(len(halves))) < log_odds, log_odds


def accept_merges(
    rng: np.random.Generator, statistics: np.ndarray, settings: Settings
) -> tuple[list[tuple[int, int]], np.ndarray]:
    """Which pairs merge, each cluster in one pair at most; and log H of all pairs that were proposed.

    Pairs are nearest neighbours, the closest first.
    """
    if len(statistics) < 2:
        return [], np.empty(0)
    pairs = nearest_pairs(settings.prior.means(statistics))
    log_odds = -log_split_odds(statistics[pairs], settings.alpha, settings.prior)
    wanted = np.log(rng.random(len(pairs))) < log_odds
    busy: set[int] = set()
    accepted = []
    for (a, b), yes in zip(pairs, wanted, strict=True):
        if yes and a not in busy and b not in busy:  # never three at once
            busy |= {int(a), int(b)}
            accepted.append((int(a), int(b)))
    return accepted, log_odds


def k_after_moves(n_clusters: int, proposals: Proposals) -> dict[int, float]:
    """Distribution of K after one more round of the moves that were proposed last, each on its own."""
    law = {n_clusters: 1.0}
    # A cluster merges with one other at most: of K clusters the K / 2 likeliest pairs are counted.
    merges = np.sort(proposals.merges)[::-1][: n_clusters // 2]
    for step, log_odds in ((1, proposals.splits), (-1, merges)):
        for probability in np.exp(np.minimum(log_odds, 0.0)):
            moved: dict[int, float] = {}
            for k, p in law.items():
                for new, share in ((k, 1 - probability), (k + step, probability)):
                    moved[new] = moved.get(new, 0.0) + p * share
            law = moved
    likely = {k: float(p) for k, p in sorted(law.items()) if p > 1e-12 and k >= 1}
    total = sum(likely.values())
    return {k: p / total for k, p in likely.items()}


# -- what becomes of the nets --------------------------------------------------------------------


def _sample(rng: np.random.Generator, rows: Rows, members: Members) -> tuple[np.ndarray, np.ndarray]:
    """Rows of every cluster, for fitting output units: points (m, d) and their clusters (m,)."""
    in_use = np.flatnonzero(members.counts > 0)
    drawn = members.draw(rng, in_use, ROWS_PER_UNIT)
    return rows.take(drawn.ravel()), np.repeat(in_use, ROWS_PER_UNIT)


def split_outputs(
    rng: np.random.Generator,
    rows: Rows,
    members: Members,
    net: ClusteringNet,
    nets: SubclusteringNets,
    split: np.ndarray,
    centres_only: bool,
    device: str,
) -> None:
    """Double the output units of the clusters ``split`` (m,); the second halves come last."""
    points, clusters = _sample(rng, rows, members)
    inputs = to_tensor(points, device)
    k = net.n_clusters
    with torch.no_grad():
        logits = net.logits(inputs)
        log_odds = torch.stack([_log_odds(nets, int(c), inputs, centres_only) for c in split], dim=1)
        log_odds = log_odds.clamp(-MOST_ODDS, MOST_ODDS)
        parents = torch.from_numpy(split).to(device)
        first = logits[:, parents] + torch.nn.functional.logsigmoid(-log_odds)
        second = logits[:, parents] + torch.nn.functional.logsigmoid(log_odds)
        targets = torch.cat([logits, second], dim=1)
        targets[:, parents] = first
        own = torch.from_numpy(clusters[:, None] == split).to(device)
        weights = torch.ones_like(targets)
        weights[:, parents] = weights[:, k:] = 1 + (OWN_WEIGHT - 1) * own.float()
    units = torch.arange(k + len(split), device=device)
    units[k:] = -1
    units[parents] = -1
    net.set_outputs(inputs, targets, weights, units)
    nets.take(torch.cat([torch.arange(k, device=device), parents]))


def _log_odds(nets: SubclusteringNets, cluster: int, points: Tensor, centres_only: bool) -> Tensor:
    if not centres_only:
        return nets.log_odds_of(cluster, points)
    first, second = nets.centres[cluster]
    return 2 * (points @ (second - first)) - (second @ second - first @ first)


def join_outputs(
    rng: np.random.Generator,
    rows: Rows,
    members: Members,
    net: ClusteringNet,
    nets: SubclusteringNets,
    pairs: list[tuple[int, int]],
    device: str,
) -> np.ndarray:
    """Give each pair (a, b) one output unit, at a; returns the old numbers (K',) of those that remain."""
    points, clusters = _sample(rng, rows, members)
    inputs = to_tensor(points, device)
    gone = {b for _, b in pairs}
    remain = np.array([k for k in range(net.n_clusters) if k not in gone])
    kept = torch.from_numpy(remain).to(device)
    with torch.no_grad():
        logits = net.logits(inputs)
        targets = logits[:, kept].clone()
        weights = torch.ones_like(targets)
        units = kept.clone()
        for a, b in pairs:
            place = int(np.searchsorted(remain, a))
            targets[:, place] = torch.logaddexp(logits[:, a], logits[:, b])
            own = torch.from_numpy((clusters == a) | (clusters == b)).to(device)
            weights[:, place] = 1 + (OWN_WEIGHT - 1) * own.float()
            units[place] = -1
    net.set_outputs(inputs, targets, weights, units)
    nets.take(kept)
    return remain
