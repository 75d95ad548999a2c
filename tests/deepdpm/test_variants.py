"""Variants of images."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import clusterwise as cw


def _blob(row: float, column: float) -> np.ndarray:
    """An image (10, 12) with one blob."""
    rows, columns = np.mgrid[:10, :12]
    return np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 4)


def test_no_amount_changes_nothing() -> None:
    images = np.random.default_rng(0).random((7, 120))
    same = cw.ImageVariants(10, 12, amount=0)(images, np.random.default_rng(1))
    np.testing.assert_allclose(same, images, atol=1e-5)


def test_a_blob_moves_a_little_and_keeps_its_mass() -> None:
    images = np.repeat(_blob(5, 6).reshape(1, -1), 200, axis=0)
    variants = cw.ImageVariants(10, 12, amount=0.5)(images, np.random.default_rng(1)).reshape(-1, 10, 12)
    mass = variants.sum(axis=(1, 2))
    columns = (variants.sum(axis=1) * np.arange(12)).sum(axis=1) / mass
    assert columns.std() > 0.1
    assert np.abs(columns - 6).max() < 1.5
    np.testing.assert_allclose(mass, images[0].sum(), rtol=0.2)


def test_variants_depend_on_the_generator_alone() -> None:
    images = np.random.default_rng(0).random((5, 120))
    variants = pickle.loads(pickle.dumps(cw.ImageVariants(10, 12)))
    one, same, other = (variants(images, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_wrong_number_of_pixels() -> None:
    with pytest.raises(ValueError, match="takes rows of 120 pixels, got 7"):
        cw.ImageVariants(10, 12)(np.zeros((3, 7)), np.random.default_rng(0))
