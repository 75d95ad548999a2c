"""Splits and merges after AMCP's loop: what is two becomes two, what is one stays one."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.models.amcp_revision import MERGE_PRICE, SPLIT_PRICE, revised

PRECISION = 16.0  # components with a standard deviation of 1/4


def encodings(sizes: tuple[int, ...], apart: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of these sizes on a line in five dimensions, ``apart`` from each other, and their labels."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    x = 0.3 + 0.05 * rng.standard_normal((len(labels), 5))
    x[:, 0] += apart * labels
    return x.astype(np.float32), labels


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two partitions are equal but for names."""
    pairs = set(zip(one.tolist(), other.tolist(), strict=True))
    return len(pairs) == len(set(one.tolist())) == len(set(other.tolist()))


@pytest.mark.parametrize("sizes", [(40, 40), (60, 15), (30, 30, 30)])
def test_two_clusters_in_one_column_are_split(sizes: tuple[int, ...]) -> None:
    x, labels = encodings(sizes, apart=1.2)
    assert same(revised(x, np.maximum(labels - 1, 0), PRECISION, 20), labels)


def test_a_cluster_in_several_columns_is_merged() -> None:
    x, labels = encodings((50, 40), apart=1.2)
    columns = np.where(labels == 0, np.arange(len(labels)) % 3, 3)
    assert same(revised(x, columns, PRECISION, 20), labels)


def test_what_is_right_stays() -> None:
    x, labels = encodings((50, 4, 30), apart=1.2)
    assert same(revised(x, 2 * labels, PRECISION, 20), labels)


def test_the_price_decides() -> None:
    """The gain of a split is the rise of the log evidence, whatever its names."""
    x, labels = encodings((40, 40), apart=0.9)
    together = np.zeros_like(labels)

    def evidence(labels: np.ndarray) -> float:
        used = np.unique(labels)
        centres = np.stack([x[labels == j].mean(0) for j in used])
        shares = np.array([(labels == j).mean() for j in used])
        squares = ((x[:, None] - centres) ** 2).sum(-1)
        return float(np.logaddexp.reduce(np.log(shares) - 0.5 * PRECISION * squares, axis=1).sum())

    gain = evidence(labels) - evidence(together)
    assert gain > SPLIT_PRICE
    # EM moves the references a little, which raises the evidence of two parts further.
    for factor, n_clusters in ((0.9, 2), (1.3, 1)):
        found = revised(x, together, PRECISION, 20, split_price=factor * gain, merge_price=0.0)
        assert len(np.unique(found)) == n_clusters
    merged = revised(x, labels, PRECISION, 20, split_price=np.inf, merge_price=1.3 * gain)
    assert len(np.unique(merged)) == 1
    assert gain > MERGE_PRICE


def test_a_large_cluster_need_not_be_round() -> None:
    """What counts is the gain for each point of the smaller part."""
    rng = np.random.default_rng(0)
    x = np.full((2000, 5), 0.4, dtype=np.float32)
    x[:, 0] += 0.3 * rng.standard_normal(2000).astype(np.float32)
    together = np.zeros(2000, dtype=np.int64)
    assert len(np.unique(revised(x, together, PRECISION, 20, price_per_point=0.0))) > 1
    assert len(np.unique(revised(x, together, PRECISION, 20))) == 1


def test_no_more_clusters_than_allowed() -> None:
    x, labels = encodings((30,) * 6, apart=1.2)
    assert len(np.unique(revised(x, np.zeros_like(labels), PRECISION, 3))) <= 3


def test_one_point_and_equal_points() -> None:
    x = np.full((7, 5), 0.5, dtype=np.float32)
    for n in (1, 7):
        np.testing.assert_array_equal(revised(x[:n], np.zeros(n, np.int64), PRECISION, 5), 0)
