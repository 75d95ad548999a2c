"""Reliability diagrams."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.stats import binomtest

from clusterwise.bench.calibration_metrics import reliability_curve
from clusterwise.bench.reliability_display import ReliabilityDisplay, wilson_errors
from clusterwise.exceptions import ClusterwiseError

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def forecasts(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(5, 1, 400)
    return confidence, rng.random(400) < confidence


@pytest.mark.parametrize(("right", "count"), [(0, 7), (7, 7), (3, 10), (199, 200), (1, 1)])
def test_intervals_are_wilsons(right, count):
    down, up = wilson_errors(np.array([right / count]), np.array([count]))
    interval = binomtest(right, count).proportion_ci(method="wilson")
    assert right / count - down[0] == pytest.approx(interval.low, abs=1e-4)
    assert right / count + up[0] == pytest.approx(interval.high, abs=1e-4)


@pytest.mark.parametrize("bins", ["width", "count"])
def test_dots_are_the_curve_and_their_areas_the_counts(bins):
    display = ReliabilityDisplay.from_predictions(*forecasts(), n_bins=8, bins=bins)
    expected = reliability_curve(*forecasts(), 8, bins)
    (dots,) = (c for c in display.ax_.collections if hasattr(c, "get_sizes") and len(c.get_offsets()) > 1)
    np.testing.assert_allclose(dots.get_offsets(), np.column_stack(expected[:2]))
    areas = dots.get_sizes()
    np.testing.assert_allclose(np.argsort(areas, kind="stable"), np.argsort(expected.counts, kind="stable"))
    display.figure_.canvas.draw()


def test_two_methods_share_axes_and_one_diagonal():
    _, ax = plt.subplots()
    for name, colour, seed in (("one", "#0072B2", 0), ("other", "#E69F00", 1)):
        ReliabilityDisplay.from_predictions(*forecasts(seed), ax=ax, name=name, colour=colour)
    assert [line.get_gid() for line in ax.lines].count("calibrated") == 1
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["one", "other"]
    assert [to_hex(handle.get_facecolor()[0]) for handle in legend.legend_handles] == ["#0072b2", "#e69f00"]
    assert len({tuple(handle.get_sizes()) for handle in legend.legend_handles}) == 1


def test_errors_of_the_wrong_shape_are_refused():
    curve = reliability_curve(*forecasts(), 8)
    with pytest.raises(ClusterwiseError, match=r"\(2, bins\)"):
        ReliabilityDisplay(curve, errors=np.zeros(len(curve.counts)))
    ReliabilityDisplay(curve).plot().figure_.canvas.draw()
