from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import gammaln

import clusterwise as cw
from clusterwise.fitting.protocol import log_sampling_correction
from clusterwise.rows import as_source


def hard(labels: np.ndarray) -> np.ndarray:
    return np.eye(labels.max() + 1)[labels]


def log_sizes(n: int, strata: list[tuple[int, int, list[int]]]) -> float:
    """Log probability of the labels of rows chosen from strata, given how many rows each has.

    All shares of clusters are equally likely. A stratum has so many rows among all n, so many of them were
    chosen, and these are divided among its clusters: a Dirichlet-multinomial over the strata's totals, and
    one within each stratum.
    """
    k = sum(len(sizes) for _, _, sizes in strata)
    result = gammaln(k) - gammaln(n + k)
    for total, chosen, sizes in strata:
        result += gammaln(total + len(sizes)) - gammaln(chosen + len(sizes)) + gammaln(np.add(sizes, 1)).sum()
    return float(result)


def log_sizes_if_even(sizes: list[int]) -> float:
    return float(gammaln(len(sizes)) + gammaln(np.add(sizes, 1)).sum() - gammaln(sum(sizes) + len(sizes)))


@pytest.mark.parametrize("split", [0, 1])
def test_an_uneven_choice_is_undone_in_the_prior_of_sizes(split: int) -> None:
    n, chosen, rare = 1_000_000, 8000, 400
    strata = [(n - rare, chosen, [5000, 3000]), (rare, rare, [rare])]
    more = [(total, of, list(sizes)) for total, of, sizes in strata]
    first = more[split][2][0]
    more[split][2][0:1] = [first // 4, first - first // 4]  # one more cluster, in one of the strata
    exact = log_sizes(n, more) - log_sizes(n, strata)
    found = []
    for one in (strata, more):
        sizes = [size for _, _, of_stratum in one for size in of_stratum]
        labels = np.repeat(np.arange(len(sizes)), sizes)
        weights = np.where(np.arange(len(labels)) < chosen, (n - rare) / chosen, 1.0)
        found.append(log_sizes_if_even(sizes) + log_sampling_correction(hard(labels), weights))
    # Stirling's formula is off by one over the number of rows.
    assert found[1] - found[0] == pytest.approx(exact, abs=0.01)
    assert log_sampling_correction(hard(labels), np.full(len(labels), 3.0)) == pytest.approx(0.0, abs=1e-9)


def test_an_uneven_choice_is_undone_in_what_estimators_believe() -> None:
    rng = np.random.default_rng(1)
    n, rare = 300_000, 16
    X = rng.normal(size=(n, 2))
    X[:, 0] += np.where(rng.random(n) < 0.1, 1.43, 0.0)  # one cluster or two
    X[:rare] = [40.0, -40.0] + rng.normal(size=(rare, 2))  # too few for an even sample
    estimator = cw.GaussianSearch(random_state=0).fit(as_source(X, always=True))
    chosen = len(estimator.sample_rows_)
    found = estimator.k_posterior_
    even = replace(estimator._rows, origin=replace(estimator._rows.origin, weights=None))
    if_even = estimator._make_method().posterior(even, estimator._found, estimator._seed).k_posterior
    assert set(found) == set(if_even) == {2, 3}
    # One more cluster among rows that stand for many: their weight over that of all rows, once more.
    factor = ((n - rare) / (chosen - rare)) / (n / chosen)
    assert found[3] / found[2] / (if_even[3] / if_even[2]) == pytest.approx(factor, rel=1e-4)
