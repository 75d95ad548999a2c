"""The cluster-wise loop of AMCP along one path, compiled.

This is ``Loop`` of ``amcp_loop`` for what networks are trained with and used with nearly always: a linear
decoder, the E-step of Eq 4, and proportions that are estimated. Arrays are so small that numpy would take
longer to call than to compute. Everything is in single precision, as the network's encodings are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterwise._compiled import compiled
from clusterwise.papers.amcp_loop import SMALLEST_SQUARE, shared_out
from clusterwise.papers.amcp_mixing import UNASSIGNED, IntraCM, SeedWeights
from clusterwise.papers.amcp_steps import e_step, log_shares_of, m_step
from clusterwise.papers.model import Inference, Step

__all__ = ["Path", "compiled_inference", "walk"]


class Path(NamedTuple):
    """K steps of the loop through N points."""

    columns: np.ndarray  # (N,) the step whose cluster a point is in at the end; UNASSIGNED after a cap
    members: np.ndarray  # (K, N) bool, who joined in each step
    probabilities: np.ndarray  # (K, N), of those not assigned before
    seeds: np.ndarray  # (K,)


def compiled_inference(
    intra: IntraCM,
    x: np.ndarray,
    log_seed_loss: np.ndarray,
    present: np.ndarray,
    numbers: np.ndarray,
) -> Inference:
    """What paths through one data set say, one path for each row of ``numbers`` (P, steps).

    Encodings ``x`` (n, D) and ``log_seed_loss`` (n,) are those of the points that are ``present`` (N,).
    """
    rows = np.flatnonzero(present)

    def at_their_places(values: np.ndarray) -> Tensor:
        if len(rows) < len(present):
            padded = np.zeros(len(present), values.dtype)
            padded[rows] = values
            values = padded
        return torch.from_numpy(values)

    labels: list[Tensor] = []
    steps: tuple[Step, ...] = ()
    capped = False
    for row, uniform in enumerate(numbers):
        path = walk(
            x,
            log_seed_loss,
            uniform,
            precision=intra.precision,
            log_density_of_rest=intra.log_density_of_rest,
            n_em_steps=intra.n_steps,
            update=intra.options.update,
            seed_weights=intra.seed_weights,
        )
        columns = path.columns
        if columns.min() == UNASSIGNED:
            columns, capped = shared_out(x, columns), capped or row == 0
        name = np.cumsum(np.bincount(columns) > 0) - 1  # of the clusters in use, from 0 on
        labels.append(at_their_places(name[columns]))
        if row == 0:
            steps = tuple(
                Step(at_their_places(members), at_their_places(probabilities), int(rows[seed]))
                for members, probabilities, seed in zip(*path[1:], strict=True)
            )
    return Inference(labels[0], steps, None, capped, tuple(labels[1:]))


def walk(
    x: np.ndarray,
    log_seed_loss: np.ndarray,
    uniform: np.ndarray,
    *,
    precision: float,
    log_density_of_rest: float,
    n_em_steps: int,
    update: bool,
    seed_weights: SeedWeights,
) -> Path:
    """Generate clusters of encodings (N, D) until no point is left, or ``uniform`` (steps,) is used up.

    ``log_seed_loss`` (N,) is expected of each point as a seed; a number of ``uniform`` draws a seed by its
    cumulative probability, -1 takes the likeliest.
    """
    scaled = np.multiply(x.T, precision, order="C")
    arrays = (x, scaled, log_seed_loss, uniform)
    return Path(*_walk(*arrays, precision, log_density_of_rest, n_em_steps, update, *seed_weights))


@compiled
def _walk(
    x: np.ndarray,
    scaled: np.ndarray,
    log_seed_loss: np.ndarray,
    uniform: np.ndarray,
    precision: float,
    log_density_of_rest: float,
    n_em_steps: int,
    update: bool,
    of_dissimilarity: float,
    of_expected_loss: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n, most = len(x), len(uniform)
    rest = np.empty(n, x.dtype)
    for i in range(n):
        rest[i] = 0.5 * np.dot(scaled[:, i].copy(), x[i])
    columns = np.full(n, UNASSIGNED)
    similarity = np.zeros(n)
    seeds = np.empty(most, np.int64)
    members, probabilities = np.zeros((8, n), np.bool_), np.zeros((8, n), x.dtype)
    k, n_left = 0, n
    while n_left > 0 and k < most:
        if k == len(members):  # twice the room
            members = np.concatenate((members, np.zeros_like(members)))
            probabilities = np.concatenate((probabilities, np.zeros_like(probabilities)))
        seed = _seed(similarity, log_seed_loss, columns, uniform[k], of_dissimilarity, of_expected_loss)
        seeds[k] = seed
        centres, log_shares = _start(x, columns, seed, k)
        scores, plan = e_step(scaled, rest, centres, log_shares, precision, log_density_of_rest)
        for _ in range(n_em_steps - 1):
            centres, log_shares = m_step(x, plan, centres)
            scores, plan = e_step(scaled, rest, centres, log_shares, precision, log_density_of_rest)
        n_left = 0
        for i in range(n):
            best = 0
            for j in range(1, k + 1):
                if scores[j, i] > scores[best, i]:
                    best = j
            if columns[i] == UNASSIGNED:
                probabilities[k, i] = plan[k, i]
                refused = scores[k + 1, i] > scores[best, i]
                if not refused and (update or best == k):
                    columns[i] = best
            elif update:
                # Earlier clusters keep their points or exchange them among each other and with the new one.
                columns[i] = best
            if i == seed:  # so that every step makes progress
                columns[i] = k
            members[k, i] = columns[i] == k
            n_left += columns[i] == UNASSIGNED
        if n_left > 0:
            similarity = _similarity(plan, centres, columns)
        k += 1
    return columns, members[:k], probabilities[:k], seeds[:k]


@compiled
def _seed(
    similarity: np.ndarray,
    log_seed_loss: np.ndarray,
    columns: np.ndarray,
    uniform: float,
    of_dissimilarity: float,
    of_expected_loss: float,
) -> int:
    """Eq 10: the point that makes the best seed among the unassigned, or one that is drawn."""
    n = len(columns)
    logits = np.full(n, -np.inf)
    for i in range(n):
        if columns[i] == UNASSIGNED:
            logits[i] = (1 - similarity[i]) * of_dissimilarity - log_seed_loss[i] * of_expected_loss
    likeliest = int(np.argmax(logits))
    if uniform < 0:
        return likeliest
    weights = np.exp(logits - logits[likeliest])
    threshold, so_far = uniform * weights.sum(), 0.0
    for i in range(n):
        so_far += weights[i]
        if so_far > threshold:
            return i
    return likeliest


@compiled
def _start(x: np.ndarray, columns: np.ndarray, seed: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres (J, D) and log proportions (J,) that the columns stand for; component k starts at the seed."""
    n, d = x.shape
    centres, mass = np.zeros((k + 2, d), x.dtype), np.zeros(k + 2, x.dtype)
    for i in range(n):
        j = columns[i] if columns[i] >= 0 else k + 1
        mass[j] += 1
        for a in range(d):
            centres[j, a] += x[i, a]
    for j in range(k + 2):
        centres[j] /= max(mass[j], 1)
    centres[k] = x[seed]
    # What is unassigned is half the new cluster's until the first E-step says more.
    mass[k] = mass[k + 1] = 0.5 * mass[k + 1]
    return centres, log_shares_of(mass, n)


@compiled
def _similarity(plan: np.ndarray, centres: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Column means of M (Eq 9) for every point, (N,); see ``similarity_to_assigned``."""
    n_components, n = plan.shape
    centred = centres - np.float32(0.5)
    products = np.dot(centred, centred.T)
    projected = np.dot(products, plan)
    inverse_norms, sums, n_assigned = np.empty(n), np.zeros(n_components), 0
    for i in range(n):
        square = 0.0
        for j in range(n_components):
            square += projected[j, i] * plan[j, i]
        inverse_norms[i] = 1 / math.sqrt(max(square, SMALLEST_SQUARE))
        if columns[i] >= 0:
            n_assigned += 1
            for j in range(n_components):
                sums[j] += plan[j, i] * inverse_norms[i]
    similarity = np.zeros(n)
    for i in range(n):
        for j in range(n_components):
            similarity[i] += projected[j, i] * sums[j]
        similarity[i] *= inverse_norms[i] / max(n_assigned, 1)
    return similarity
