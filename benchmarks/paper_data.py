"""Labelled data of the papers' tables, divided as the papers divide them.

AMCP (Table 2) trains on half of the classes and tests on the other half. CHiGac (Table 2) names no such
split, and its figures are about all classes: there other rows of the same classes are the test.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.data import data_directory

__all__ = ["READERS", "RowsAndLabels"]

# Rows (n, d), labels (n,), and the shape of the images if they are images.
RowsAndLabels = tuple[np.ndarray, np.ndarray, tuple[int, ...] | None]


def _arrays(file: str) -> dict[str, np.ndarray]:
    with np.load(data_directory() / f"{file}.npz", allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _even_classes(file: str, train: bool, shape: tuple[int, ...] | None) -> RowsAndLabels:
    """Rows for training of the classes 0, 2, 4, 6 and 8, or rows for the test of the other five."""
    data = _arrays(file)
    kept = (data["split"] == (0 if train else 1)) & (data["y"] % 2 == (0 if train else 1))
    rows = data["X"][kept]
    return rows if shape else rows.astype(np.float32), data["y"][kept].astype(int), shape


def cifar(train: bool) -> RowsAndLabels:
    """CIFAR-10 features: airplanes, birds, deer, frogs and ships; the test is on the other five."""
    return _even_classes("images/cifar10_effnetlite0_pca128", train, None)


def clothes(train: bool) -> RowsAndLabels:
    """Fashion-MNIST: T-shirts, pullovers, coats, shirts and bags; the test is on the other five."""
    return _even_classes("images/fashion_mnist", train, (28, 28))


def _other_rows(file: str, train: bool) -> RowsAndLabels:
    """All classes; the test is on rows that are not for training."""
    data = _arrays(file)
    kept = data["split"] == (0 if train else 1)
    return data["X"][kept].astype(np.float32), data["y"][kept].astype(int), None


def reuters(train: bool) -> RowsAndLabels:
    """Four topics of Reuters, 2,000 words."""
    return _other_rows("text/reuters_rcv1_4root_tfidf2000", train)


def activities(train: bool) -> RowsAndLabels:
    """Six activities by 343 features of an accelerometer; other people are in the test."""
    return _other_rows("sensors/har_uci_acc343", train)


READERS: dict[str, Callable[[bool], RowsAndLabels]] = {
    "cifar": cifar,
    "clothes": clothes,
    "reuters": reuters,
    "activities": activities,
}
