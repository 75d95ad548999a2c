"""Bars of P(K)."""

from __future__ import annotations

from matplotlib.colors import to_hex

from clusterwise.plotting import KPosteriorDisplay
from clusterwise.plotting.palette import BASE


def test_heights_and_the_chosen_number(make_fitted):
    estimator, _ = make_fitted(3)
    display = KPosteriorDisplay.from_estimator(estimator)
    bars = {round(bar.get_x() + bar.get_width() / 2): bar for bar in display.ax_.patches}
    assert {k: bar.get_height() for k, bar in bars.items()} == {1: 0, 2: 0.25, 3: 0.7, 4: 0, 5: 0.05, 6: 0}
    assert [k for k, bar in bars.items() if to_hex(bar.get_facecolor()) == BASE[0].lower()] == [3]
    display.figure_.canvas.draw()


def test_improbable_numbers_are_left_out():
    display = KPosteriorDisplay(dict.fromkeys(range(1, 90), 1e-06) | {7: 0.9}).plot()
    assert len(display.ax_.patches) == 3


def test_a_chosen_number_outside_the_posterior_is_shown():
    display = KPosteriorDisplay({2: 1.0}, n_clusters=4).plot()
    assert {round(bar.get_x() + 0.375) for bar in display.ax_.patches} == {1, 2, 3, 4, 5}


def test_the_tallest_of_many_bars_are_numbered():
    posterior = {k: 0.3 if k in (4, 9) else 0.4 / 12 for k in range(1, 15)}
    display = KPosteriorDisplay(posterior, n_clusters=6).plot()
    assert sorted(text.get_text() for text in display.ax_.texts) == ["0.03", "0.30", "0.30"]
