"""NCP's posterior over partitions compared with that of a Markov chain, on small CRP mixtures."""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

import clusterwise
from benchmarks.ours import find_weights, weights_identity
from benchmarks.page import mean, median, sets
from benchmarks.suite import Case, Data, Method, Outcome, Suite
from benchmarks.synthetic import Word, drawn
from clusterwise.priors.mixtures import ChineseRestaurantMixture

SIZES = (10, 20, 30, 50)
ALPHA, MEAN_SD, SD = 0.7, 10.0, 1.0
N_WARM_UP, N_DRAWS, N_PARTITIONS = 60, 300, 600
TRUTH: dict[str, Any] = {
    "alpha": ALPHA,
    "mean_prior": np.zeros(2),
    "mean_precision_prior": (SD / MEAN_SD) ** 2,
    "degrees_of_freedom_prior": 1e6,  # all clusters have the same width
    "covariance_prior": SD**2,
}
WEIGHTS = "ncp-2d"
COLUMNS = ("TV", "pairs", "P(true K)", "Brier of pairs", "mean K")
FIGURES = {
    "sets": sets,
    **{name: mean(name, 2 if name == "mean K" else 4 if "Brier" in name else 3) for name in COLUMNS},
    "true K": mean("true k", 2),
    "CPU seconds": median("cpu_seconds"),
}


class Posterior(NamedTuple):
    """What a method says of one data set."""

    labels: np.ndarray  # (n,)
    k: Mapping[int, float]
    pairs: np.ndarray  # (n (n - 1) / 2,) probability that two points share a cluster


def total_variation(first: Mapping[int, float], second: Mapping[int, float]) -> float:
    """Total variation distance of two distributions over k.

    >>> total_variation({1: 0.5, 2: 0.5}, {2: 0.5, 3: 0.5})
    0.5
    """
    return sum(abs(first.get(k, 0.0) - second.get(k, 0.0)) for k in first.keys() | second.keys()) / 2


def posterior_of(name: str, points: np.ndarray, n_partitions: int, **options: Any) -> Posterior:
    model = getattr(clusterwise, name)(**options).fit(points)
    drawn = model.sample_partitions(n_partitions)
    k = drawn.k_posterior if name == "NCP" else model.k_posterior_
    return Posterior(model.labels_, k, drawn.coclustering()[np.triu_indices(len(points), 1)])


def chain(points: np.ndarray, seed: int, n_chains: int = 1, **truth: Any) -> Posterior:
    """A DPMixture with round clusters, which may be told the model of the data."""
    lengths = {"n_chains": n_chains, "n_warm_up": N_WARM_UP, "n_draws": N_DRAWS}
    options = {"covariance_type": "spherical", "random_state": seed, **lengths, **truth}
    return posterior_of("DPMixture", points, 200, **options)


@lru_cache(maxsize=2)  # the methods share a process, and the truth of the data set before them
def _true_posterior(points: bytes, seed: int) -> tuple[Posterior, Posterior, Posterior]:
    """Two chains, and both together."""
    array = np.frombuffer(points).reshape(-1, 2)
    one, two = (chain(array, 2 * seed + place, **TRUTH) for place in (0, 1))
    k = {k: (one.k.get(k, 0.0) + two.k.get(k, 0.0)) / 2 for k in one.k.keys() | two.k.keys()}
    return one, two, Posterior(one.labels, k, (one.pairs + two.pairs) / 2)


def compared(method: str, case: Case, weights: str = WEIGHTS) -> Outcome:
    """A posterior and its distance from the true one, which is found after the clock has stopped."""
    truth = partial(_true_posterior, np.ascontiguousarray(case.points).tobytes(), case.seed)
    if method == "known":
        found = truth()[2]
    elif method == "inferred":
        found = chain(case.points, case.seed, 2)
    else:
        options = {"weights": find_weights(weights), "random_state": case.seed}
        found = posterior_of("NCP", case.points, N_PARTITIONS, **options)

    def more(case: Case) -> dict[str, float]:
        one, other = truth()[:2] if method == "known" else (found, truth()[2])
        pairs = float(np.abs(one.pairs - other.pairs).mean())
        return {"TV": total_variation(one.k, other.k), "pairs": pairs, **scored(case, found)}

    return Outcome(found.labels, more=more)


def scored(case: Case, found: Posterior) -> dict[str, float]:
    """How far a posterior is from the partition that was drawn."""
    (true,) = case.references
    together = (true[:, None] == true)[np.triu_indices(len(true), 1)]
    return {
        "P(true K)": float(found.k.get(len(np.unique(true)), 0.0)),
        "Brier of pairs": float(np.square(found.pairs - together).mean()),
        "mean K": float(sum(k * p for k, p in found.k.items())),
    }


def posteriors(quick: bool) -> Suite:
    own = partial(Method, kind="ours", group="posteriors")
    methods = [
        own("DPMixture, told the model", partial(partial, compared, "known")),
        own("DPMixture, defaults", partial(partial, compared, "inferred")),
        own("NCP", partial(partial, compared, "NCP"), identity=partial(weights_identity, WEIGHTS)),
    ]
    prior = ChineseRestaurantMixture(alpha=ALPHA, mean_sd=MEAN_SD, sd=SD)
    draws = {n: partial(drawn, partial(prior.draw_set, n_points=n), Word.POSTERIORS, n) for n in SIZES}
    data = [Data(f"{n} points", draw, 2 if quick else 12) for n, draw in draws.items()]
    return Suite(data, methods, FIGURES, metrics=("k", "true k"), columns=COLUMNS)


SUITES = {"posteriors": posteriors}
