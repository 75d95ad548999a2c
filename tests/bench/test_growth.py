"""Exponents, tables and pictures of growth; no time is ever asserted."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from clusterwise.bench.growth import Point, Stages, draw_growth, exponent, exponents, growth_page


def powers(method: str, sizes: list[int], power: float, axis: str = "N") -> list[Point]:
    return [
        Point(
            method,
            size if axis == "N" else 10_000,
            10 if axis == "N" else size,
            (1e-4 * size**power,) * 3,
            (10 if axis == "N" else size - size // 50,) * 3,
            300.0 + size / 1e3,
            "ok",
        )
        for size in sizes
    ]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.7])
def test_exponents_of_powers(power: float) -> None:
    sizes = [1000, 3000, 10_000, 30_000, 100_000]
    (found,) = exponents(powers("a", sizes, power), "N").values()
    assert found == pytest.approx((power, power), abs=1e-9)


def test_the_upper_half_sees_what_comes_late() -> None:
    points = powers("a", [10, 100], 0.0) + [
        Point("a", n, 10, (n * 1e-3,), (10,), 1.0, "ok") for n in (10**4, 10**5, 10**6)
    ]
    everything, upper = exponents(points, "N")["a"]
    assert upper == pytest.approx(1.0)
    assert everything > 1.0


def test_sizes_at_which_clusters_were_missed_do_not_count() -> None:
    """A method that finds one cluster where there are a hundred is quick, and that is no merit."""
    points = powers("a", [2, 10, 50], 1.0, "K")
    missed = Point("a", 10_000, 100, (1e-9,), (1,), 1.0, "ok")
    assert exponents([*points, missed], "K")["a"] == pytest.approx((1.0, 1.0))


def test_one_size_or_a_method_that_never_ended_has_no_exponent() -> None:
    assert math.isnan(exponent([10], [1.0]))
    late = Point("late", 1000, 10, (), (), math.nan, "timeout")
    assert all(map(math.isnan, exponents([late], "N")["late"]))


def test_the_exponent_is_that_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([10.0, 30, 100, 300])
    seconds = np.exp(rng.normal(size=4))
    x, y = np.log(sizes) - np.log(sizes).mean(), np.log(seconds)
    assert exponent(sizes, seconds) == pytest.approx(x @ y / (x @ x))


@pytest.fixture
def study() -> tuple[list[Point], list[Point], list[Stages]]:
    by_n = powers("AMCP", [1000, 10_000, 100_000], 0.9) + powers("HDBSCAN", [1000, 10_000], 2.0)
    by_n.append(Point("HDBSCAN", 100_000, 10, (), (), math.nan, "timeout"))
    by_k = powers("AMCP", [2, 10, 100], 0.5, "K") + powers("HDBSCAN", [2, 10, 100], 0.0, "K")
    stages = [Stages("AMCP", 1000, 10, {"encoder": 0.3, "loop": 0.1, "other": 0.1})]
    return by_n, by_k, stages


def test_the_page_says_what_was_measured(study) -> None:
    text = growth_page("Growth", "How.", *study, {"AMCP": "as it is", "HDBSCAN": "a peer"})
    (line,) = (line for line in text.splitlines() if line.startswith("| HDBSCAN") and "timeout" in line)
    assert "2.00" in line
    assert "(98)" in text  # clusters found where K = 100
    assert "AMCP, N = 1,000, k = 10: encoder, 60 % of 0.500 s" in text
    assert "- HDBSCAN, N = 100,000, k = 10: timeout" in text
    assert "- HDBSCAN: a peer" in text
    assert "nan" not in text


def test_the_picture_is_drawn_with_and_without_stages(study, tmp_path: Path) -> None:
    by_n, by_k, stages = study
    for name, part in (("with.png", stages), ("without.png", [])):
        draw_growth(by_n, by_k, part, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
