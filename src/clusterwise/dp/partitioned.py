"""The chain of ``chain`` over rows in blocks: sums travel, labels stay where the rows are.

The moves are those of ``subclusters``, ``sweep`` and ``anchored``, each a map over the blocks and a sum over
their results. The driver holds a sample of the rows with their labels: EM of a proposal runs on the members
in the sample, and partitions are compared by it. Which rows are in it does not depend on the partition, so
that all moves leave the posterior as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit

from clusterwise.dp import blocks as at
from clusterwise.dp.anchored import _log_h, draw_anchors, launch
from clusterwise.dp.blocks import Blocks, Change, PerBlock
from clusterwise.dp.hyper import HyperPrior, first_guess
from clusterwise.dp.state import State
from clusterwise.dp.subclusters import best_cut, mergers_of, splits_of
from clusterwise.dp.sweep import draw_weights
from clusterwise.gaussian.moves import HastingsRatio
from clusterwise.gaussian.niw import NormalInverseWishart
from clusterwise.gaussian.sorted_rows import Rows

__all__ = ["BlockMoves", "Sample"]

# The sample may be wrong: of proposals that are hopeless by it, one in twenty is looked at all the same.
MOST_SURE = float(np.log(20.0))


@dataclass(frozen=True)
class Sample:
    """The rows that the driver holds."""

    rows: Rows
    blocks: np.ndarray  # (m,) block of each, ascending
    places: np.ndarray  # (m,) row in the block


class BlockMoves:
    """The moves of one chain over blocks; it remembers what the blocks have yet to be told."""

    def __init__(self, blocks: Blocks, sample: Sample, n_rows: int) -> None:
        self.blocks, self.sample, self.n_rows = blocks, sample, n_rows  # n_rows: of all blocks
        self.change = Change()

    def _told(self) -> Change:
        """What has been decided, to be told once."""
        change, self.change = self.change, Change()
        return change

    # -- warming up ------------------------------------------------------------------------------

    def warm_up(
        self,
        rng: np.random.Generator,
        hyper_prior: HyperPrior,
        n_steps: int,
        report: Callable[[int], object],
        update_hyper: Callable[[np.random.Generator, State, HyperPrior], State],
    ) -> State:
        """From one cluster to about as many as there are, by sub-clusters."""
        hyper_prior = hyper_prior.while_searching()
        hyper = first_guess(hyper_prior)
        prior = hyper.prior(hyper_prior)
        m = len(self.sample.rows)
        empty = np.zeros((1, prior.n_statistics))
        state = State(np.zeros(m, dtype=np.int64), empty, hyper)
        # Everybody is in one cluster: the sums of the side with the largest odds are all sums.
        everybody = np.zeros((1, prior.n_statistics))
        everybody[0, 0] = 1.0
        results = self.blocks.run(at.cut, None, Change(), prior, np.ones(1, dtype=bool), everybody)
        state = replace(state, statistics=np.sum([upper for upper, _ in results], axis=0))
        sides, parts = self._cut(rng, state, np.ones(1, dtype=bool), prior, None)
        if parts[:, :, 0].min() < 0.5:  # all rows are the same
            return state
        ages = np.zeros(1, dtype=np.int64)
        for _ in range(n_steps):
            prior = state.hyper.prior(hyper_prior)
            state, sides, parts, ages = self._warm_up_step(rng, state, sides, parts, ages, prior)
            state = update_hyper(rng, state, hyper_prior)
            report(state.n_clusters)
        return state

    def _cut(
        self,
        rng: np.random.Generator,
        state: State,
        fresh: np.ndarray,
        prior: NormalInverseWishart,
        parts: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Cut clusters anew: sides of the sample, and sums (K, 2, p) of all sides."""
        odds = np.zeros((len(fresh), prior.n_statistics))
        for cluster in np.flatnonzero(fresh):
            members = np.flatnonzero(state.labels == cluster)
            if len(members) < 2:
                continue
            odds[cluster] = best_cut(rng, self.sample.rows, members, float(state.counts[cluster]), prior)
        results = self.blocks.run(at.cut, None, self._told(), prior, fresh, odds)
        upper = np.sum([result[0] for result in results], axis=0)
        by_cluster = np.stack([state.statistics - upper, upper], axis=1)
        if parts is not None:
            by_cluster[~fresh] = parts[~fresh]
        return np.concatenate([result[1] for result in results]), by_cluster

    def _warm_up_step(
        self,
        rng: np.random.Generator,
        state: State,
        sides: np.ndarray,
        parts: np.ndarray,
        ages: np.ndarray,
        prior: NormalInverseWishart,
    ) -> tuple[State, np.ndarray, np.ndarray, np.ndarray]:
        """Draw labels and sides, then split and merge where the ratios say so."""
        k, p = state.n_clusters, prior.n_statistics
        eta = prior.draw(rng, state.statistics)
        eta[:, 0] += np.log(rng.standard_gamma(state.counts) + 1e-300)
        of_halves = parts.reshape(2 * k, p)
        eta_halves = prior.expected(of_halves)
        eta_halves[:, 0] += np.log(np.maximum(of_halves[:, 0], 0.0) + 0.5)
        odds = eta_halves[1::2] - eta_halves[::2]
        self._told()  # all labels and sides are drawn anew
        results = self.blocks.run(at.draw_with_sides, _seed(rng), prior, eta, odds)
        parts = np.sum([result[0] for result in results], axis=0).reshape(k, 2, p)
        labels = np.concatenate([result[1] for result in results]).astype(np.int64)
        sides = np.concatenate([result[2] for result in results])
        in_use = parts[:, :, 0].sum(axis=1) > 0.5
        names = np.maximum(in_use.cumsum() - 1, 0)
        table = np.stack([names, names], axis=1)
        labels, parts, ages = names[labels], parts[in_use], ages[in_use] + 1
        state = replace(state, labels=labels, statistics=parts.sum(axis=1))

        split = splits_of(rng, parts, ages, state.hyper.alpha, prior)
        table = split.new_label[table, np.arange(2)]
        statistics = np.concatenate([state.statistics, parts[split.parents, 1]])
        statistics[split.parents] = parts[split.parents, 0]
        state = replace(state, labels=split.new_label[labels, sides.astype(np.intp)], statistics=statistics)
        self.change = Change(labels=table)
        if split.fresh.any():
            padded = np.zeros((len(split.fresh), 2, p))
            padded[: len(parts)] = parts
            sides, parts = self._cut(rng, state, split.fresh, prior, padded)
            grown = np.concatenate([ages, np.zeros(len(split.parents), dtype=np.int64)])
            ages = np.where(split.fresh, 0, grown)

        merger = mergers_of(rng, state.statistics, state.hyper.alpha, prior)
        if merger is None:
            return state, sides, parts, ages
        gone, kept, new_label = merger
        old = state.n_clusters
        new_side = np.tile(np.array([False, True]), (old, 1))
        new_side[gone], new_side[kept] = True, False  # what has just been merged is ready to split again
        sides = new_side[state.labels, sides.astype(np.intp)]
        parts, statistics, ages = parts.copy(), state.statistics.copy(), ages.copy()
        parts[kept, 0], parts[kept, 1] = statistics[kept], statistics[gone]
        statistics[kept] += statistics[gone]
        ages[kept] = 0
        remain = np.ones(old, dtype=bool)
        remain[gone] = False
        change = Change(labels=np.stack([new_label, new_label], axis=1), sides=new_side)
        self.blocks.run(_tell, None, self._told())  # two changes of names do not go into one
        self.change = change
        state = replace(state, labels=new_label[state.labels], statistics=statistics[remain])
        return state, sides, parts[remain], ages[remain]

    # -- the exact chain -------------------------------------------------------------------------

    def step(
        self, rng: np.random.Generator, state: State, prior: NormalInverseWishart, n_proposals: int
    ) -> State:
        """A sweep over all labels, then splits and mergers."""
        state = self._sweep(rng, state, prior)
        for _ in range(n_proposals if len(self.sample.rows) > 1 else 0):
            state = self._split_or_merge(rng, state, prior)
        return state

    def _sweep(self, rng: np.random.Generator, state: State, prior: NormalInverseWishart) -> State:
        seed, told = _seed(rng), self._told()

        def least(openness: np.ndarray) -> float:
            return min(self.blocks.run(at.least_slice, seed, told, openness))

        drawn = draw_weights(rng, state, prior, self.n_rows, least)
        results = self.blocks.run(at.draw_labels, seed, prior, drawn.eta, drawn.openness, drawn.before)
        statistics = np.sum([result[0] for result in results], axis=0)
        labels = np.concatenate([result[1] for result in results]).astype(np.int64)
        in_use = statistics[:, 0] > 0.5
        names = np.maximum(in_use.cumsum() - 1, 0)
        self.change = Change(labels=np.stack([names, names], axis=1))
        return replace(state, labels=names[labels], statistics=statistics[in_use])

    def _split_or_merge(self, rng: np.random.Generator, state: State, prior: NormalInverseWishart) -> State:
        """Propose to split or to merge the clusters of two rows; see ``anchored``.

        Most proposals are hopeless, and the sample says so. A first decision is made by its ratio r', and the
        blocks are asked about those who pass, with the ratio r / r'. What is accepted in the end is exact
        (delayed acceptance, Christen & Fox 2005): r' is a function of the two partitions, and that of the way
        back its inverse.
        """
        anchors = draw_anchors(rng, self.sample.rows)
        labels, pins = state.labels, np.array([anchors.first, anchors.second])
        a, b = int(labels[anchors.first]), int(labels[anchors.second])
        is_member = labels == a if a == b else (labels == a) | (labels == b)
        n_members = float(state.counts[a] if a == b else state.counts[a] + state.counts[b])
        odds = launch(self.sample.rows, np.flatnonzero(is_member), anchors, prior, n_members)
        sides, guess = self._guess(rng, is_member, labels == b, pins, a == b, odds, state, prior)
        direction = 1.0 if a == b else -1.0
        if np.log(rng.random()) >= direction * guess:
            return state
        of_blocks = np.arange(self.blocks.n_blocks)
        results = self.blocks.run(
            at.propose,
            _seed(rng),
            self._told(),
            prior,
            (a, b),
            odds,
            PerBlock(np.split(sides, np.searchsorted(self.sample.blocks, of_blocks[1:]))),
            PerBlock([self.sample.places[pins[self.sample.blocks[pins] == block]] for block in of_blocks]),
        )
        statistics = np.sum([result.statistics for result in results], axis=0)
        statistics[:, 0] = np.round(statistics[:, 0])
        log_proposal = sum(result.log_probability for result in results)
        log_ratio = _log_h(state, statistics, prior) - log_proposal
        if np.log(rng.random()) >= direction * (log_ratio - guess):
            return state
        if a == b:
            self.change = Change(split=(state.n_clusters,))
            kept = state.statistics.copy()
            kept[a] = statistics[0]
            return replace(
                state,
                labels=np.where(is_member & sides, state.n_clusters, labels),
                statistics=np.concatenate([kept, statistics[1:]]),
            )
        last = state.n_clusters - 1
        keep, gap = min(a, b), max(a, b)
        names = np.arange(last + 1)
        names[last], names[gap] = gap, keep  # in this order: the last may be the gap
        self.change = Change(labels=np.stack([names, names], axis=1))
        kept = state.statistics.copy()
        kept[keep] = statistics.sum(axis=0)
        kept[gap] = kept[last]
        return replace(state, labels=names[labels], statistics=kept[:last])

    def _guess(
        self,
        rng: np.random.Generator,
        is_member: np.ndarray,
        sides: np.ndarray,
        pins: np.ndarray,
        is_split: bool,
        odds: np.ndarray,
        state: State,
        prior: NormalInverseWishart,
    ) -> tuple[np.ndarray, float]:
        """Sides (m,) of the sample, and the log ratio of a split in them if there were no other rows.

        Were its rows counted for all that they stand for, so would be the chance that fits a split to them.
        """
        members = np.flatnonzero(is_member)
        lifted = prior.terms(self.sample.rows.take(members))
        logits = lifted @ odds
        sides = sides.copy()
        if is_split:
            sides[members] = rng.random(len(members)) < expit(logits)
            sides[pins] = False, True
        of_members = sides[members]
        log_proposal = log_expit(np.where(of_members, logits, -logits))
        log_proposal[np.searchsorted(members, pins)] = 0.0
        upper = of_members @ lifted
        statistics = np.stack([lifted.sum(axis=0) - upper, upper])
        guess = float(
            HastingsRatio(state.statistics, prior, state.hyper.alpha).of_splits(statistics[None])[0]
        ) - float(log_proposal.sum())
        return sides, float(np.clip(guess, -MOST_SURE, MOST_SURE))


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))


def _tell(
    block: at.Block, points: np.ndarray, rng: np.random.Generator, change: Change
) -> tuple[at.Block, None]:
    return change.apply(block), None
