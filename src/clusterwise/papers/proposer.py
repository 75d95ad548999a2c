"""A trained network as a proposer: data sets are padded to one size and run as few batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clusterwise._tensors import pad_sets, to_numpy
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.propose import Proposal, ProposedStep
from clusterwise.papers.model import AmortizedModel, Inference

__all__ = ["NetworkProposer", "batches_of_similar_size", "on_device"]

# Points times paths that run together, padding included; a single data set may have more.
POINTS_PER_BATCH = 60_000


@dataclass(frozen=True)
class NetworkProposer:
    """Proposes what a network infers: its answer, and partitions that it draws."""

    model: AmortizedModel
    max_clusters: int = 100
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method's own ``infer``
    device: str = "cpu"

    def propose(self, sets: Sequence[np.ndarray], seeds: Sequence[int], n_draws: int) -> list[Proposal]:
        """See ``Proposer``; ``sets`` may have fewer features than the network takes."""
        found: dict[int, Proposal] = {}
        sizes = [len(points) * (1 + n_draws) for points in sets]
        for batch in batches_of_similar_size(sizes, POINTS_PER_BATCH):
            run = self._run([sets[i] for i in batch], [seeds[i] for i in batch], n_draws)
            for i, inference in zip(batch, run, strict=True):
                found[i] = _proposal(inference, sets[i], with_draws=n_draws > 0)
        return [found[i] for i in range(len(sets))]

    def _run(self, sets: list[np.ndarray], seeds: list[int], n_draws: int) -> list[Inference]:
        """One batch; a single set with too many paths for one is run several times, with other seeds."""
        model = on_device(self.model, self.device)
        points, mask = pad_sets([_padded(s, model.n_features) for s in sets], self.device)
        at_once = max(1, POINTS_PER_BATCH // points.shape[1] - 1)
        infer = partial(model.infer, points, mask, max_clusters=self.max_clusters, **self.options)
        if len(sets) > 1 or n_draws <= at_once:
            return infer(seeds=seeds, n_draws=n_draws)
        first, *others = (
            infer(seeds=[seed], n_draws=min(at_once, n_draws - start))[0]
            for start, seed in zip(range(0, n_draws, at_once), _seeds(seeds[0]), strict=False)
        )
        if first.beliefs:  # all that it believes in, whatever was asked for
            return [first]
        return [
            replace(
                first,
                draws=sum((one.draws for one in others), first.draws),
                densities=sum((one.densities[1:] for one in others), first.densities),
            )
        ]


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
        return to_numpy(tensor[:n_points], dtype)

    draws = inference.draws if with_draws else ()
    weights = np.ones(1) if not draws else np.r_[0.0, np.full(len(draws), 1 / len(draws))]
    if draws and inference.beliefs:
        weights = np.array(inference.beliefs) / sum(inference.beliefs)
    k_posterior = None
    if inference.log_k_posterior is not None:
        beliefs = np.exp(to_numpy(inference.log_k_posterior, np.float64))
        k_posterior = {k: float(p) for k, p in enumerate(beliefs / beliefs.sum(), start=1)}
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
