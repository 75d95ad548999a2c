"""Data sets clustered by what a trained network infers, and by a search from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from clusterwise.affine import FeatureSpace
from clusterwise.assigner import ClusterDensity
from clusterwise.exceptions import ClusterwiseError, FarRowsWarning
from clusterwise.fitting.mixture_fit import (
    clusters_of_labels,
    clusters_of_mixtures,
    posterior_of_mixtures,
    search_from,
)
from clusterwise.fitting.protocol import MAX_ROWS, Clustering, Method, Progress
from clusterwise.fitting.uncertainty import MIN_PROBABILITY, ClusteringPosterior
from clusterwise.gaussian.mixture import FittedMixture
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.papers.cut import CutRule, cuts_of
from clusterwise.papers.model import AmortizedModel, Inference
from clusterwise.rows.sorted_rows import SortedRows, sample_rows, spread_rows

__all__ = [
    "NetworkMethod",
    "NetworkProposer",
    "Proposal",
    "ProposedStep",
    "batches_of_similar_size",
    "find_far_rows",
    "on_device",
    "pad_sets",
]

# Points times paths that run together, padding included; a single data set may have more.
POINTS_PER_BATCH = 60_000
# Rows that a cluster of a sample must have on average, or the sample shows too little of each.
MIN_ROWS_PER_CLUSTER = 8
# More clusters than this are not split and merged.
MAX_TO_SEARCH = 150
# Training data reach this much farther only once in a thousand data sets, times this margin.
MARGIN = 1.5
# The fraction of the rows that may lie far out before they count as data like the others, and how far: a
# cluster of the training data is at most some 60 of its own widths away from the next one.
MAX_FRACTION = 0.01
MAX_SPREADS = 100.0
# Features of unit spread that reach no farther than this: a few rows cannot make up most of that spread.
ORDINARY_REACH = 5.0
# Among fewer rows than this some lie close together by chance; less spread than this is rounding.
MIN_ROWS_TO_CHECK = 20
ROUNDING = 1e-14


@dataclass(frozen=True)
class ProposedStep:
    """One step of a cluster-wise network, over the m rows that it saw."""

    members: np.ndarray  # (m,) bool
    probabilities: np.ndarray  # (m,)
    anchor: int | None  # the row that the step started from, where a method has one


@dataclass(frozen=True)
class Proposal:
    """Candidate partitions of the m rows of one data set that the network saw."""

    candidates: tuple[np.ndarray, ...]  # labels (m,) each, from 0 on; the first is the network's own answer
    weights: np.ndarray  # the network's probability of each candidate, they sum to one
    steps: tuple[ProposedStep, ...] = ()  # how the first candidate came about
    cap_reached: bool = False
    log_probability: float | None = None  # of the first candidate, where a method gives one
    k_posterior: dict[int, float] | None = None  # where a method has a probability of k itself
    densities: tuple[
        ClusterDensity, ...
    ] = ()  # of each candidate, where the network has densities of its own
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (m,) of the sorted rows

    def labels_of(self, candidate: int, n_rows: int) -> np.ndarray:
        """A candidate's labels of all sorted rows, (n,), -1 for those that the network did not see."""
        labels = np.full(n_rows, -1)
        labels[self.rows] = self.candidates[candidate]
        return labels


@dataclass(frozen=True)
class NetworkMethod(Method):
    """What an amortized estimator does with a data set; see ``Method``."""

    proposer: NetworkProposer
    space: Callable[[np.ndarray], FeatureSpace]  # what makes the map of sorted points (n, d)
    refine: Literal["search", "cut"] | None  # None: the network's own answer is reported
    max_network_points: int  # rows that the network sees
    weights_name: str
    known_reach: float  # how far training data of unit spread reach
    max_rows: int = MAX_ROWS  # rows that a search sees
    n_draws: int = 20  # candidates behind the posterior
    rule: CutRule | None = None  # of refine="cut"
    encoded: bool = False  # whether an encoder that was trained on labels makes the features
    covariance_type: CovarianceType = "full"

    def fit_space(self, points: np.ndarray) -> FeatureSpace:
        """See ``Method``."""
        return self.space(points)

    def cluster(self, sets: Sequence[SortedRows], seed: int, progress: Progress) -> list[Clustering]:
        """See ``Method``; the network sees the data sets in few batches."""
        progress("the network infers", 0, 2)
        proposals = self._propose(sets, [self._seen(rows, seed) for rows in sets], seed, 0)
        progress("its answer is refined", 1, 2)
        return [self._refined(rows, one, seed) for rows, one in zip(sets, proposals, strict=True)]

    def _refined(self, rows: SortedRows, proposal: Proposal, seed: int) -> Clustering:
        """The clusters that a proposal leads to."""
        if self.refine == "search":
            context, mixtures = self._search(rows, proposal, seed)
            capped, most = proposal.cap_reached, self.proposer.max_clusters
            found = clusters_of_mixtures(rows, context, mixtures, most, cap_reached=capped, details=proposal)
        else:
            labels, capped = proposal.labels_of(0, len(rows)), proposal.cap_reached
            density = proposal.densities[0] if proposal.densities else None
            if self.refine == "cut" and self.rule is not None:
                own, _, beyond = cuts_of(rows.features[proposal.rows], self.rule, self._max)
                labels[proposal.rows], capped, density = own[0], capped or beyond, None
            if density is None:
                density = self._clusters(rows, proposal, labels[proposal.rows])
            found = Clustering(density, density, labels, capped, details=proposal)
        far = tuple(find_far_rows(rows.features, self.known_reach, self.weights_name))
        check = None if self.encoded else found.check  # classes, not Gaussians, are what it was taught
        return replace(found, warnings=far, check=check, weights_name=self.weights_name)

    @property
    def _max(self) -> int:
        return self.proposer.max_clusters

    def _clusters(self, rows: SortedRows, proposal: Proposal, labels: np.ndarray) -> ClusterDensity:
        """Gaussians of the rows that the network saw, by labels (m,)."""
        return clusters_of_labels(rows.features[proposal.rows], labels, self.covariance_type)

    def _search(
        self, rows: SortedRows, proposal: Proposal, seed: int
    ) -> tuple[np.ndarray, list[FittedMixture]]:
        """Rows that the search sees, (s,), and all mixtures that it visits from a proposal."""
        context = sample_rows(len(rows), self.max_rows, seed)
        # Hundreds of clusters are only fitted: to split and merge them takes minutes.
        many = self.encoded and proposal.candidates[0].max() >= MAX_TO_SEARCH
        return context, search_from(
            rows, context, proposal.candidates, proposal.rows, self.covariance_type, 0 if many else None
        )

    # -- what else may be true -------------------------------------------------------------------

    @property
    def draws_partitions(self) -> bool:
        """See ``Method``."""
        return self.refine is None

    def posterior(
        self, rows: SortedRows, found: Clustering, seed: int, n_samples: int | None
    ) -> ClusteringPosterior:
        """See ``Method``: mixtures that drawn candidates lead to, these themselves, or other cuts."""
        n, seen = len(rows), found.details.rows
        if self.refine == "cut" and self.rule is not None:
            cuts, counts, _ = cuts_of(rows.features[seen], self.rule, self._max, self.n_draws)
            proposal = Proposal(tuple(cuts), counts / counts.sum(), rows=seen)
            densities = [self._clusters(rows, proposal, labels) for labels in cuts]
            every = [proposal.labels_of(i, n) for i in range(len(cuts))]
            return ClusteringPosterior.of(rows, densities, np.log(counts), every)
        (proposal,) = self._propose([rows], [seen], seed, n_samples or self.n_draws)
        if self.refine == "search":
            return posterior_of_mixtures(rows, self._search(rows, proposal, seed)[1], self._max)
        likely = np.flatnonzero(proposal.weights >= MIN_PROBABILITY * proposal.weights.max()).tolist()
        labels = [proposal.candidates[i] for i in likely]
        densities = [proposal.densities[i] for i in likely if proposal.densities]
        assigners = densities or [self._clusters(rows, proposal, one) for one in labels]
        probabilities = proposal.weights[likely] / proposal.weights[likely].sum()
        return ClusteringPosterior(assigners, probabilities, [proposal.labels_of(i, n) for i in likely])

    # -- what the network sees -------------------------------------------------------------------

    def _seen(self, rows: SortedRows, seed: int) -> np.ndarray:
        """Ascending positions (m,) of the sorted rows that the network sees, spread over the data."""
        context = sample_rows(len(rows), self.max_rows, seed)
        seen = context[spread_rows(len(context), self.max_network_points)]
        if not self.encoded or len(seen) == len(context):
            return seen
        (proposal,) = self._propose([rows], [seen], seed, 0)
        enough = len(seen) >= MIN_ROWS_PER_CLUSTER * (proposal.candidates[0].max() + 1)
        return seen if enough else context

    def _propose(
        self, sets: Sequence[SortedRows], seen: Sequence[np.ndarray], seed: int, n_draws: int
    ) -> list[Proposal]:
        """What the network infers of the rows ``seen`` (m,) of each data set."""
        shown = [rows.features[at] for rows, at in zip(sets, seen, strict=True)]
        small = [i for i, at in enumerate(seen) if not self.encoded or len(at) <= self.max_network_points]
        found = dict(zip(small, self.proposer.propose([shown[i] for i in small], seed, n_draws), strict=True))
        for i in sorted(set(range(len(sets))) - set(small)):
            found[i] = self._propose_by_parts(shown[i], seed, n_draws)
        return [replace(found[i], rows=seen[i]) for i in range(len(sets))]

    def _propose_by_parts(self, features: np.ndarray, seed: int, n_draws: int) -> Proposal:
        """Candidates of rows (m, f) that are too many to be seen at once, from neighbourhoods of them."""
        from clusterwise.papers.encoded import labels_by_parts, neighbourhoods

        parts = neighbourhoods(features, self.max_network_points, seed)
        sets = [features[parts == part] for part in range(int(parts.max()) + 1)]
        found = self.proposer.propose(sets, seed, n_draws)
        n = min(len(one.candidates) for one in found)
        candidates = tuple(
            labels_by_parts(
                features, parts, [one.candidates[i] for one in found], self.covariance_type, self._max
            )
            for i in range(n)
        )
        weights = np.ones(1) if n == 1 else np.r_[0.0, np.full(n - 1, 1 / (n - 1))]
        capped = any(one.cap_reached for one in found) or bool(candidates[0].max() + 1 >= self._max)
        return Proposal(candidates, weights, cap_reached=capped)


@dataclass(frozen=True)
class NetworkProposer:
    """Proposes what a network infers: its answer, and partitions that it draws."""

    model: AmortizedModel
    max_clusters: int = 100
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method's own ``infer``
    device: str = "cpu"

    def propose(self, sets: Sequence[np.ndarray], seed: int, n_draws: int) -> list[Proposal]:
        """Partitions of data sets (m_b, f), sorted and scaled, each by itself with the same seed.

        The sets may have fewer features than the network takes. The first candidate is the answer that the
        network would give alone; with ``n_draws`` > 0 there are further ones, as many if it can draw them.
        """
        found: dict[int, Proposal] = {}
        sizes = [len(points) * (1 + n_draws) for points in sets]
        for batch in batches_of_similar_size(sizes, POINTS_PER_BATCH):
            for i, inference in zip(batch, self._run([sets[i] for i in batch], seed, n_draws), strict=True):
                found[i] = _proposal(inference, sets[i], with_draws=n_draws > 0)
        return [found[i] for i in range(len(sets))]

    def _run(self, sets: list[np.ndarray], seed: int, n_draws: int) -> list[Inference]:
        """One batch; a single set with too many paths for one is run several times, with other seeds."""
        model = on_device(self.model, self.device)
        points, mask = pad_sets([_padded(s, model.n_features) for s in sets], self.device)
        at_once = max(1, POINTS_PER_BATCH // points.shape[1] - 1)
        infer = partial(model.infer, points, mask, max_clusters=self.max_clusters, **self.options)
        if len(sets) > 1 or n_draws <= at_once:
            return infer(seeds=[seed] * len(sets), n_draws=n_draws)
        first, *others = (
            infer(seeds=[one], n_draws=min(at_once, n_draws - start))[0]
            for start, one in zip(range(0, n_draws, at_once), _seeds(seed), strict=False)
        )
        if first.draw_probabilities:  # all that it knows of, whatever was asked for
            return [first]
        return [
            replace(
                first,
                draws=sum((one.draws for one in others), first.draws),
                densities=sum((one.densities[1:] for one in others), first.densities),
            )
        ]


def pad_sets(sets: Sequence[np.ndarray], device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
    """Stack data sets (n_b, d) into points (B, max n, d) and a mask (B, max n), True where present."""
    longest = max(len(points) for points in sets)
    padded = np.zeros((len(sets), longest, sets[0].shape[1]), dtype=np.float32)
    mask = np.zeros((len(sets), longest), dtype=bool)
    for b, points in enumerate(sets):
        padded[b, : len(points)] = points
        mask[b, : len(points)] = True
    return torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device)


def _padded(features: np.ndarray, n_features: int) -> np.ndarray:
    """Features (n, f) with zeros appended, as many as a network lacks that takes ``n_features``."""
    n_missing = n_features - features.shape[1]
    return np.pad(features, ((0, 0), (0, n_missing))) if n_missing > 0 else features


def _seeds(seed: int) -> Iterator[int]:
    """The seed, and others that follow from it."""
    yield seed
    yield from (int(np.random.SeedSequence([seed, i]).generate_state(1)[0] >> 1) for i in count(1))


def on_device(model: AmortizedModel, device: str) -> AmortizedModel:
    """Return the network on the device that it is to run on."""
    try:
        if next(model.parameters()).device != torch.device(device):  # moving nothing takes a while
            model = model.to(device)
    except (AssertionError, RuntimeError) as error:  # torch's ways to say that there is no such device
        raise ClusterwiseError(
            f"The network cannot run on device {device!r} ({str(error).splitlines()[0]}); pass device='cpu'."
        ) from error
    return model


def batches_of_similar_size(sizes: Sequence[int], points_per_batch: int) -> Iterator[list[int]]:
    """Group the indices of data sets of similar size, so that little of a padded batch is padding."""
    batch: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda i: sizes[i]):
        if batch and (len(batch) + 1) * sizes[index] > points_per_batch:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _proposal(inference: Inference, points: np.ndarray, with_draws: bool) -> Proposal:
    """Take what the network says about the points (m, f), which are no padding."""
    n_points, n_features = points.shape

    def of_rows(tensor: Tensor, dtype: Any = None) -> np.ndarray:
        array = tensor[:n_points].numpy(force=True)
        return array if dtype is None else array.astype(dtype)

    draws = inference.draws if with_draws else ()
    weights = np.ones(1) if not draws else np.r_[0.0, np.full(len(draws), 1 / len(draws))]
    if draws and inference.draw_probabilities:
        weights = np.array(inference.draw_probabilities) / sum(inference.draw_probabilities)
    k_posterior = None
    if inference.log_k_posterior is not None:
        of_k = np.exp(inference.log_k_posterior.numpy(force=True).astype(np.float64))
        k_posterior = {k: float(p) for k, p in enumerate(of_k / of_k.sum(), start=1)}
    candidates = tuple(_compact(of_rows(labels, np.int64)) for labels in (inference.labels, *draws))
    # A density of more features than there are says nothing about these alone.
    flows = [one for one in inference.densities[: len(candidates)] if one.flow.n_features == n_features]
    return Proposal(
        candidates,
        weights,
        tuple(ProposedStep(of_rows(s.members), of_rows(s.probabilities), s.anchor) for s in inference.steps),
        inference.cap_reached,
        inference.log_probability,
        k_posterior,
        tuple(flows),
    )


def _compact(labels: np.ndarray) -> np.ndarray:
    """Number the clusters in use 0 .. K-1: a step may have lost all its members to later ones."""
    used = np.bincount(labels) > 0
    return labels if used.all() else (used.cumsum() - 1)[labels]


def find_far_rows(features: np.ndarray, known_reach: float, weights: str) -> Iterator[FarRowsWarning]:
    """A warning of how far out some rows of scaled features (n, f) lie, if the weights never saw such data.

    ``known_reach`` is how far training data of unit spread reach. One extreme row of n has at most
    sqrt(n f) spreads, because it is a part of the spread itself; therefore the farthest rows are also
    compared with the spread of the others.
    """
    reach = float(np.abs(features).max())
    if reach > MARGIN * known_reach:
        yield FarRowsWarning(weights=weights, distance=reach, known=known_reach)
        return
    if len(features) < MIN_ROWS_TO_CHECK or (reach < ORDINARY_REACH and MAX_FRACTION * len(features) >= 1):
        return
    centre = np.median(features, axis=0)
    distances = np.sqrt(np.square(features - centre).mean(axis=1))
    n_ordinary = len(features) - max(1, int(MAX_FRACTION * len(features)))
    ordinary = features[np.argpartition(distances, n_ordinary - 1)[:n_ordinary]]
    spread = float(ordinary.std(axis=0).max())
    if spread > ROUNDING and distances.max() > MAX_SPREADS * spread:
        yield FarRowsWarning(weights=weights, distance=float(distances.max() / spread))
