"""Colours stay apart, also for readers who see fewer of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from clusterwise.plotting.palette import BASE, PALETTE, cluster_colour, cluster_colours, cluster_marker

# Linear RGB as seen with full protanopia and deuteranopia (Machado, Oliveira & Fernandes 2009, table 1).
PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]
DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]


def linear_rgb(colour: str) -> np.ndarray:
    encoded = np.frombuffer(bytes.fromhex(colour[1:]), dtype=np.uint8) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ np.clip(linear, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("seen", [np.eye(3), PROTANOPIA, DEUTERANOPIA], ids=["all", "protan", "deutan"])
def test_base_colours_stay_apart(seen):
    # A difference of 10 in CIE Lab is seen at a glance; one of 2.3 is just noticeable.
    seen_colours = [lab(np.asarray(seen) @ linear_rgb(colour)) for colour in BASE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen_colours, 2)) > 10


def test_no_colour_is_lost_on_white():
    assert all(lab(linear_rgb(colour))[0] < 86 for colour in PALETTE)


def test_first_clusters_have_their_own_colour_and_later_ones_their_own_look():
    assert len(set(cluster_colours(18))) == 18
    looks = [(cluster_colour(label), cluster_marker(label)) for label in range(72)]
    assert len(set(looks)) == 72
    assert {marker for _, marker in looks[:18]} == {"o"}
    assert cluster_colour(10_000) in PALETTE
