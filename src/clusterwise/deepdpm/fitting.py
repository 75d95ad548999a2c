"""The rounds of a fit: train, split, train, merge, until nothing moves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from clusterwise.deepdpm.history import History
from clusterwise.deepdpm.moves import (
    Proposals,
    accept_merges,
    accept_splits,
    aim_subclusters,
    join_outputs,
    network_sides,
    split_outputs,
    statistics_of_halves,
    two_means_sides,
)
from clusterwise.deepdpm.nets import ClusteringNet, NetWeights, SubclusteringNets
from clusterwise.deepdpm.settings import Settings
from clusterwise.deepdpm.training import (
    Members,
    assign,
    log_targets,
    natural_parameters,
    to_tensor,
    train_epoch,
    train_subclusters,
)
from clusterwise.dp.state import statistics_of
from clusterwise.gaussian.rows import Rows

__all__ = ["Fit", "Snapshot", "run"]

# Rows that the first partition is made from.
FIRST_ROWS = 20_000
K_MEANS_STEPS = 20
# Targets of the first output units end here: beyond, the fit would bend to rows that no one doubts.
LEAST_FIRST_LOG = -8.0


@dataclass(frozen=True)
class Snapshot:
    """All that is needed to go on, and all that is left when a fit is over."""

    weights: NetWeights
    statistics: np.ndarray  # (K, p), weighted by the net's memberships
    history: History
    proposals: Proposals
    quiet_rounds: int  # without a move at the end
    interrupted: bool


class Fit:
    """A fit under way."""

    def __init__(
        self, seed: int, rows: Rows, settings: Settings, report: Callable[[History], object]
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows, self.settings, self.report = rows, settings, report
        self.history = History()
        self.quiet_rounds = 0

    # -- how it starts ---------------------------------------------------------------------------

    def start(self, k_init: int) -> None:
        """Begin with k-means of ``k_init`` clusters."""
        settings, d = self.settings, self.rows.n_features
        self.net = ClusteringNet.draw(self.rng, d, settings.n_hidden, settings.learning_rate, settings.device)
        labels = _first_labels(self.rng, self.rows, min(k_init, len(self.rows)))
        k = int(labels.max()) + 1
        self.statistics = statistics_of(self.rows, labels, k, settings.prior)
        self._aim_net(Members.of(labels, k))
        self._renew_subclusters(k)
        self.frozen = True
        self.proposals = Proposals(np.full(k, -np.inf), np.empty(0))
        self.last = self.snapshot(interrupted=True)

    def resume(self, snapshot: Snapshot) -> None:
        """Begin where another fit ended."""
        settings = self.settings
        self.net = ClusteringNet.from_weights(snapshot.weights, settings.learning_rate, settings.device)
        self.statistics = snapshot.statistics
        self.history = snapshot.history.copy()
        self.proposals = snapshot.proposals
        self._renew_subclusters(self.net.n_clusters)
        self.frozen = False
        self.last = self.snapshot(interrupted=True)

    def _renew_subclusters(self, n_clusters: int) -> None:
        settings = self.settings
        self.subnets = SubclusteringNets.draw(
            self.rng,
            n_clusters,
            self.rows.n_features,
            settings.n_hidden,
            settings.subcluster_learning_rate,
            settings.device,
        )
        self.ages = np.zeros(n_clusters, dtype=np.int64)

    def _aim_net(self, members: Members) -> None:
        """Fit the output units to the targets of the present parameters."""
        k, device = len(self.statistics), self.settings.device
        if k == 1:
            return
        points = self.rows.take(members.draw(self.rng, np.arange(k), 512).ravel())
        eta = natural_parameters(self.statistics, self.settings)
        log_r = np.maximum(log_targets(self.settings.prior.lift(points), eta), LEAST_FIRST_LOG)
        targets = to_tensor(log_r, device)
        units = torch.full((k,), -1, device=device)
        self.net.output = self.net.output[:, :1].expand(-1, k)
        self.net.output_bias = self.net.output_bias[:1].expand(k)
        self.net.set_outputs(to_tensor(points, device), targets, torch.ones_like(targets), units)

    # -- training --------------------------------------------------------------------------------

    @property
    def n_clusters(self) -> int:
        """Number of clusters at present."""
        return self.net.n_clusters

    @property
    def over(self) -> bool:
        """Whether there are no epochs left."""
        return len(self.history) >= self.settings.max_epochs

    def train(self, n_epochs: int, with_m_steps: bool = True) -> None:
        """Run some epochs; without M-steps the parameters stand still and only the net learns."""
        eta = natural_parameters(self.statistics, self.settings)
        for _ in range(n_epochs):
            if self.over:
                return
            if self.n_clusters == 1:  # nothing to learn: all memberships are one
                self.history.add_epoch(1, 0.0)
                self.report(self.history)
                return
            loss, statistics = train_epoch(self.rng, self.rows, self.net, eta, self.settings)
            if with_m_steps:
                self.statistics = statistics
                eta = natural_parameters(statistics, self.settings)
            self.history.add_epoch(self.n_clusters, loss)
            self.last = self.snapshot(interrupted=True)
            self.report(self.history)

    def settle(self) -> None:
        """Let the net follow the last move, then let net and parameters find each other."""
        if self.frozen:
            self.train(self.settings.freeze_epochs, with_m_steps=False)
            self.frozen = False
        self.train(self.settings.settle_epochs)

    def finish(self) -> None:
        """Come to rest: the learning rate falls to nothing."""
        for epoch in range(self.settings.final_epochs):
            self.net.set_learning_rate(1 - epoch / self.settings.final_epochs)
            self.train(1)

    # -- moves -----------------------------------------------------------------------------------

    def _hard_partition(self) -> tuple[np.ndarray, Members]:
        """Labels (n,) and members of the clusters; clusters that no row prefers are dropped first."""
        labels = assign(self.rows, self.net, self.settings.device)
        members = Members.of(labels, self.n_clusters)
        if (members.counts > 0).all():
            return labels, members
        kept = np.flatnonzero(members.counts > 0)
        self._keep(kept)
        self.history.add_moves(merges=len(members.counts) - len(kept))
        labels = np.searchsorted(kept, labels)
        return labels, Members.of(labels, len(kept))

    def _keep(self, kept: np.ndarray) -> None:
        """Keep the clusters with these numbers (K',)."""
        settings = self.settings
        weights = self.net.to_weights().select(kept)
        self.net = ClusteringNet.from_weights(weights, settings.learning_rate, settings.device)
        self.subnets.take(torch.from_numpy(kept).to(settings.device))
        self.statistics, self.ages = self.statistics[kept], self.ages[kept]

    def split(self) -> int:
        """Propose to split every cluster into its subclusters; returns how many did."""
        settings, prior = self.settings, self.settings.prior
        labels, members = self._hard_partition()
        k = self.n_clusters
        hard = statistics_of(self.rows, labels, k, prior)
        aim_subclusters(self.rng, self.rows, self.subnets, members, hard, self.ages, settings)
        by_centres = settings.subclusters == "2-means"
        if by_centres:
            sides = two_means_sides(self.rows, self.subnets, labels)
        else:
            train_subclusters(self.rng, self.rows, self.subnets, members, settings)
            sides = network_sides(self.rows, self.subnets, members, settings.device)
        halves = statistics_of_halves(self.rows, labels, sides, k, prior)
        accepted, log_odds = accept_splits(self.rng, halves, settings)
        self.proposals = Proposals(log_odds, self.proposals.merges)
        self.ages += 1
        split = np.flatnonzero(accepted)[: max(0, settings.max_clusters - k)]
        if len(split) == 0:
            return 0
        split_outputs(
            self.rng, self.rows, members, self.net, self.subnets, split, by_centres, settings.device
        )
        self.statistics = np.concatenate([hard, halves[split, 1]])
        self.statistics[split] = halves[split, 0]
        self.ages = np.concatenate([self.ages, np.zeros(len(split), dtype=np.int64)])
        self.ages[split] = 0
        self.history.add_moves(splits=len(split))
        self.frozen = True
        return len(split)

    def merge(self) -> int:
        """Propose to merge neighbours; returns how many pairs did."""
        settings = self.settings
        labels, members = self._hard_partition()
        hard = statistics_of(self.rows, labels, self.n_clusters, settings.prior)
        pairs, log_odds = accept_merges(self.rng, hard, settings)
        self.proposals = Proposals(self.proposals.splits, log_odds)
        if not pairs:
            return 0
        for a, b in pairs:
            hard[a] += hard[b]
            self.ages[a] = 0
        remain = join_outputs(self.rng, self.rows, members, self.net, self.subnets, pairs, settings.device)
        self.statistics, self.ages = hard[remain], self.ages[remain]
        self.history.add_moves(merges=len(pairs))
        self.frozen = True
        return len(pairs)

    def rounds(self) -> None:
        """Train, split, train, merge, until ``patience`` rounds in a row move nothing."""
        settings = self.settings
        if self.n_clusters == 1:
            self.train(1)
        while self.quiet_rounds < settings.patience and not self.over:
            self.settle()
            moves = self.split() if settings.splits else 0
            if moves:
                self.settle()
            moves += self.merge() if settings.merges else 0
            self.quiet_rounds = 0 if moves else self.quiet_rounds + 1
        if self.frozen:
            self.settle()
        self.finish()

    def snapshot(self, interrupted: bool) -> Snapshot:
        """The present state."""
        return Snapshot(
            self.net.to_weights(),
            self.statistics,
            self.history.copy(),
            self.proposals,
            self.quiet_rounds,
            interrupted,
        )


def _first_labels(rng: np.random.Generator, rows: Rows, k: int) -> np.ndarray:
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


def run(
    seed: int,
    rows: Rows,
    settings: Settings,
    k_init: int,
    before: Snapshot | None = None,
    report: Callable[[History], object] = lambda _: None,
) -> Snapshot:
    """Fit to ``rows``; an interrupt from the keyboard ends the fit with the state of the last whole epoch."""
    fit = Fit(seed, rows, settings, report)
    if before is None:
        fit.start(k_init)
    else:
        fit.resume(before)
    try:
        fit.rounds()
    except KeyboardInterrupt:
        return fit.last
    return fit.snapshot(interrupted=False)
