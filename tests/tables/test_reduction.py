"""Missing values from the most similar rows, in constant memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.impute import KNNImputer

from clusterwise.tables.encoding import MAX_INPUTS, Jitter
from clusterwise.tables.reduction import MAX_DONORS, N_NEIGHBOURS, Imputer


def with_gaps(n: int, f: int, share: float) -> np.ndarray:
    rng = np.random.default_rng(n + f)
    features = rng.normal(size=(n, f))
    features[rng.random(features.shape) < share] = np.nan
    return features


@pytest.mark.parametrize(
    "n, f, share", [(300, 6, 0.2), (100, 40, 0.5), (60, 3, 0.6), (MAX_DONORS + 500, 5, 0.3)]
)
def test_gaps_are_filled_as_by_scikit_learn(n: int, f: int, share: float) -> None:
    features = with_gaps(n, f, share)
    features[3] = np.nan  # a row without any value
    imputer = Imputer.of(features, seed=0)
    known = KNNImputer(n_neighbors=N_NEIGHBOURS, keep_empty_features=True).fit(imputer.donors)
    expected = known.transform(features)
    imputer.fill(features)
    np.testing.assert_allclose(features, expected, atol=1e-12)


def test_a_value_that_only_few_rows_have_is_found() -> None:
    features = np.random.default_rng(0).normal(size=(400, 3))
    features[:, 2] = np.nan
    features[[5, 390], 2] = 1.0, 3.0
    Imputer.of(features, seed=0).fill(features)
    np.testing.assert_allclose(np.delete(features[:, 2], [5, 390]), 2.0)


def test_a_column_that_no_drawn_row_has_gets_a_donor() -> None:
    features = np.random.default_rng(0).normal(size=(8 * MAX_DONORS, 2))
    features[:, 1] = np.nan
    features[7, 1] = 5.0
    Imputer.of(features, seed=0).fill(features)
    np.testing.assert_array_equal(features[:, 1], 5.0)


def test_memory_does_not_grow_with_the_rows() -> None:
    peaks = []
    for n in (4_000, 16_000):
        features = with_gaps(n, 5, 0.1)
        imputer = Imputer.of(features, seed=0)
        tracemalloc.start()
        imputer.fill(features)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.parametrize("n_inputs", [2, MAX_INPUTS, 5 * MAX_INPUTS])
def test_noise_is_normal_independent_and_a_function_of_the_row(n_inputs: int) -> None:
    rows = np.random.default_rng(0).integers(0, 4, (3_000, n_inputs)).astype(float)
    rows += 1e-3 * np.arange(len(rows))[:, None]  # all different
    jitter = Jitter.of(n_inputs, 5)
    noise = jitter(rows)
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(np.cov(noise.T), np.eye(5), atol=0.12)
    np.testing.assert_array_equal(jitter(rows[100:110]), noise[100:110])


def test_noise_takes_steps_in_proportion_to_the_columns() -> None:
    sizes = {
        m: sum(one.size for one in (jitter.turns, jitter.more_turns) if one is not None)
        for m in (200, 400)
        for jitter in [Jitter.of(m, m)]
    }
    assert sizes[400] == 2 * sizes[200]
