"""Posteriors side by side, on tiny chains and a tiny network."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from clusterwise.bench import BenchmarkError, registry
from clusterwise.bench.posteriors_picture import Compared, Forecast, examples
from clusterwise.bench.studies import posteriors
from clusterwise.bench.studies.posteriors import Sampling, draw, figures_of, total_variation
from clusterwise.dp.hyper import first_guess

SHORT = Sampling(n_warm_up=4, n_draws=6, n_partitions=8)
asked: list[tuple[str, int, int]] = []


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posteriors, "SIZES", (6, 9))
    monkeypatch.setattr(posteriors, "N_SETS", 3)
    monkeypatch.setattr(posteriors, "QUICK_N_SETS", 2)
    original = posteriors._measure

    def spy(posterior: str, n: int, index: int, *rest: object) -> dict[str, object]:
        asked.append((posterior, n, index))
        return original(posterior, n, index, *rest)

    monkeypatch.setattr(posteriors, "_measure", spy)
    asked.clear()


# A chain of six draws has not converged, and its estimator says so.
pytestmark = pytest.mark.filterwarnings("ignore::clusterwise.exceptions.NotConvergedWarning")


@pytest.fixture
def weights(tiny_networks: Path) -> Path:
    return tiny_networks / "tiny-ncp.safetensors"


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_its_files_and_goes_on(tmp_path: Path, weights: Path) -> None:
    page = posteriors.run(tmp_path, True, str, weights, SHORT)
    found = rows_of(page.with_suffix(".csv"))
    assert {(row["n"], row["index"]) for row in found} == {(n, i) for n in "69" for i in "01"}
    for row in found:
        assert int(row["true_k"]) == draw(int(row["n"]), int(row["index"])).n_clusters
        for name in ("tv_NCP", "pairs_inferred", "p_true_k_known", "brier_NCP"):
            assert 0 <= float(row[name]) <= 1
        assert 1 <= float(row["mean_k_NCP"]) <= int(row["n"])
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.count("DPMixture, told the model |") == 2
    assert len(asked) == 2 * 2 * 4
    asked.clear()
    posteriors.run(tmp_path, False, str, weights, SHORT)
    assert {index for _, _, index in asked} == {2}
    # a torn last line is measured again, and nothing else
    raw = tmp_path / "posteriors.raw.csv"
    before = raw.read_text()
    raw.write_text(before[:-20])
    asked.clear()
    posteriors.run(tmp_path, False, str, weights, SHORT)
    assert asked == [("NCP", 9, 2)]


def test_chains_do_not_wait_for_the_network(tmp_path: Path, weights: Path) -> None:
    with pytest.raises(BenchmarkError, match="goes on from here"):
        posteriors.run(tmp_path, True, str, "no-such-weights", SHORT)
    assert {name for name, _, _ in asked} == {*posteriors.CHAINS, "inferred"}
    asked.clear()
    posteriors.run(tmp_path, True, str, weights, SHORT)
    assert {name for name, _, _ in asked} == {"NCP"}


def test_failures_are_left_out_and_tried_again(
    tmp_path: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = posteriors._sample

    def fails(posterior: str, points: np.ndarray, index: int, *rest: object) -> object:
        if posterior == "inferred" and index == 1:
            raise RuntimeError("planted\nfailure")
        return original(posterior, points, index, *rest)

    monkeypatch.setattr(posteriors, "_sample", fails)
    lines: list[str] = []
    page = posteriors.run(tmp_path, True, lines.append, weights, SHORT)
    assert any("inferred, N = 6, set 1: error: RuntimeError: planted" in line for line in lines)
    assert {row["index"] for row in rows_of(page.with_suffix(".csv"))} == {"0"}
    monkeypatch.setattr(posteriors, "_sample", original)
    asked.clear()
    posteriors.run(tmp_path, True, str, weights, SHORT)
    assert asked == [("inferred", 6, 1), ("inferred", 9, 1)]


def test_the_known_model_is_the_true_posterior() -> None:
    """Of two points P(one cluster) has a closed form; a mixture told something else would miss it."""
    points = np.array([[3.0, -1.0], [5.5, 0.5]])

    def log_normal(x: np.ndarray, variances: np.ndarray) -> float:
        return float((-0.5 * np.log(2 * np.pi * variances) - x**2 / (2 * variances)).sum())

    apart = sum(log_normal(point, np.full(2, 101.0)) for point in points)
    total, gap = points.sum(axis=0) / np.sqrt(2), (points[0] - points[1]) / np.sqrt(2)
    together = log_normal(total, np.full(2, 201.0)) + log_normal(gap, np.full(2, 1.0))
    exact = 1 / (1 + 0.7 * np.exp(apart - together))
    assert 0.3 < exact < 0.95
    mixture = posteriors._dp_mixture(True, 1, 0, Sampling(n_warm_up=0, n_draws=1)).fit(points)
    hyper = first_guess(mixture._hyper_prior_used)
    prior = hyper.prior(mixture._hyper_prior_used)
    lifted = prior.lift(mixture._space.apply(points))
    odds = prior.log_marginal(lifted).sum() - prior.log_marginal(lifted.sum(axis=0)[None])[0]
    assert 1 / (1 + hyper.alpha * np.exp(odds)) == pytest.approx(exact, rel=1e-4)


def test_figures_of_planted_forecasts() -> None:
    drawn = draw(6, 0)
    together = (drawn.labels[:, None] == drawn.labels)[np.triu_indices(6, 1)]
    k = drawn.n_clusters
    sure = Forecast({k: 1.0}, together.astype(float), 1.0)
    wrong = Forecast({k + 1: 1.0}, 1.0 - together, 2.0)
    half = Forecast({k: 0.5, k + 1: 0.5}, np.full(15, 0.5), 3.0)
    forecasts = {"known": sure, "inferred": half, "NCP": wrong}
    figures = figures_of(Compared(6, 0, drawn, together, (sure, half), forecasts))
    assert (figures["tv_floor"], figures["tv_inferred"], figures["tv_NCP"]) == (0.5, 0.5, 1.0)
    assert (figures["pairs_floor"], figures["pairs_NCP"]) == (0.5, 1.0)
    assert (figures["brier_known"], figures["brier_inferred"], figures["brier_NCP"]) == (0.0, 0.25, 1.0)
    assert (figures["p_true_k_known"], figures["p_true_k_NCP"]) == (1.0, 0.0)
    assert figures["mean_k_inferred"] == k + 0.5
    assert total_variation({1: 1.0}, {1: 0.25, 2: 0.75}) == 0.75


def test_examples_are_a_clear_and_an_ambiguous_set() -> None:
    def planted(n: int, index: int, p: float) -> Compared:
        forecast = Forecast({1: p, 2: 1 - p}, np.zeros(1), 0.0)
        return Compared(n, index, draw(20, index), np.zeros(1), (forecast, forecast), {"known": forecast})

    several = [i for i in range(40) if draw(20, i).n_clusters >= 3][:3]
    sets = [planted(20, i, p) for i, p in zip(several, (0.7, 0.95, 0.55), strict=True)]
    sets += [planted(10, several[0], 0.5), planted(10, several[1], 1.0)]
    assert [one.index for one in examples(sets)] == [several[1], several[2]]


def test_counts_survive_a_cell_and_seeds_are_their_own() -> None:
    counts = np.array([0, 3, 600, 600, 17])
    np.testing.assert_array_equal(posteriors._unpacked(posteriors._packed(counts)), counts)
    starts = {float(draw(n, i).points[0, 0]) for n in (10, 20) for i in range(3)}
    assert len(starts) == 6
    registry.discover()
    assert "posteriors" in registry.BENCHMARKS
