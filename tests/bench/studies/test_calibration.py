"""The study of calibration on planted forecasters: honest ones pass, sure ones do not, killed runs go on."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax

from clusterwise.bench import BenchmarkError
from clusterwise.bench.studies import calibration
from clusterwise.bench.studies.calibration import Candidate
from clusterwise.priors.crp import ChineseRestaurantMixture

asked: list[tuple[str, int]] = []


@dataclass(frozen=True)
class Planted(Candidate):
    """Knows the mixture of the only setting, and says so honestly or too loudly."""

    exponent: float = 1.0

    def build(self, seed: int) -> SimpleNamespace:
        def fit(points: np.ndarray) -> SimpleNamespace:
            asked.append((self.name, seed))
            if self.name == "broken" and seed == 1:
                raise RuntimeError("planted\nfailure")
            drawn = calibration.draw("crp only", seed)
            rng = np.random.default_rng([seed, 1])
            membership = softmax(self.exponent * drawn.components.log_joint(points), axis=1)
            p = rng.uniform(0.55, 0.8)
            k, other = drawn.n_clusters, drawn.n_clusters + 1
            if rng.random() > p:
                k, other = other, k
            p = p if self.exponent == 1 else 0.99
            return SimpleNamespace(
                labels_=membership.argmax(axis=1),
                membership_=membership,
                probabilities_=membership.max(axis=1),
                n_clusters_=k,
                k_posterior_={k: p, other: 1 - p},
            )

        return SimpleNamespace(fit=fit)


HONEST = Planted("honest", "ACTST", "act-st-2d")
SURE = Planted("sure", "ACTST", "act-st-2d", exponent=3.0)
BROKEN = Planted("broken", "ACTST", "act-st-2d")
ABSENT = Planted("absent", "ACTST", "no-such-weights")


@pytest.fixture(autouse=True)
def _one_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    prior = ChineseRestaurantMixture(k_exact=3, mean_sd=2.0, sd=1.0)
    monkeypatch.setattr(calibration, "SETTINGS", {"crp only": lambda rng: prior.draw_set(rng, 120)})
    monkeypatch.setattr(calibration, "N_SETS", 60)
    monkeypatch.setattr(calibration, "QUICK_N_SETS", 4)
    asked.clear()


def figures_of(page: Path) -> dict[tuple[str, str], tuple[float, float]]:
    with page.with_suffix(".csv").open(newline="") as file:
        return {
            (row["method"], row["figure"]): (float(row["value"]), float(row["standard_error"]))
            for row in csv.DictReader(file)
        }


def test_honest_forecasters_pass_and_sure_ones_do_not(tmp_path: Path) -> None:
    lines: list[str] = []
    page = calibration.run(tmp_path, False, lines.append, [HONEST, SURE, ABSENT])
    found = figures_of(page)
    for subject in ("k", "membership"):
        value, error = found["honest", f"{subject} overconfidence"]
        assert abs(value) < 4 * error
        value, error = found["sure", f"{subject} overconfidence"]
        assert value > 4 * error
        assert found["honest", f"{subject} Brier"] < found["sure", f"{subject} Brier"]
    assert "no absent, its weights no-such-weights are not shipped" in lines[0]
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.count("| crp only |") == 4  # two methods, two tables
    assert "act-st-2d" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "calibration.csv", "calibration.md", "calibration.png", "calibration.raw.csv",
    ]  # fmt: skip


def test_a_killed_run_goes_on_and_a_quick_one_is_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "N_SETS", 8)
    whole = calibration.run(tmp_path / "whole", False, str, [HONEST, SURE])
    raw = (tmp_path / "whole" / "calibration.raw.csv").read_text()
    for share in (0.0, 0.4, 0.97):
        out = tmp_path / str(share)
        out.mkdir()
        (out / "calibration.raw.csv").write_text(raw[: int(share * len(raw))])
        asked.clear()
        page = calibration.run(out, False, str, [HONEST, SURE])
        kept = max(raw[: int(share * len(raw))].count("\n") - 1, 0)
        assert len(asked) == 16 - kept
        assert page.with_suffix(".csv").read_text() == whole.with_suffix(".csv").read_text()
    quick = tmp_path / "quick"
    calibration.run(quick, True, str, [HONEST])
    asked.clear()
    calibration.run(quick, False, str, [HONEST])
    assert asked == [("honest", index) for index in range(4, 8)]


def test_other_weights_and_errors_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    calibration.run(tmp_path, True, lines.append, [BROKEN, HONEST])
    assert any("broken, crp only, 1: error: RuntimeError: planted" in line for line in lines)
    asked.clear()
    calibration.run(tmp_path, True, str, [BROKEN, HONEST])
    assert asked == [("broken", 1)]
    asked.clear()
    monkeypatch.setattr(calibration, "weights_identity", lambda name: "retrained")
    calibration.run(tmp_path, True, str, [HONEST])
    assert asked == [("honest", index) for index in range(4)]


def test_without_any_weights_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="train some"):
        calibration.run(tmp_path, True, str, [ABSENT])


def test_settings_are_drawn_from_seeds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    from clusterwise.bench.benchmarks import mog

    assert len(calibration.SETTINGS) == 6
    assert {setting.split()[0] for setting in calibration.SETTINGS} == set(calibration.FAMILIES)
    starts = {float(calibration.draw(s, i).points[0, 0]) for s in calibration.SETTINGS for i in range(3)}
    starts |= {float(mog.draw_case(s, i).points[0, 0]) for s in mog.SETTINGS for i in range(3)}
    assert len(starts) == 6 * 3 + 2 * 3
    again = calibration.draw("mog (1000, 4)", 2)
    np.testing.assert_array_equal(again.points, calibration.draw("mog (1000, 4)", 2).points)


def test_a_real_estimator_gives_a_row(tmp_path: Path) -> None:
    page = calibration.run(tmp_path, True, str, [Candidate("ACT-ST", "ACTST", "act-st-2d")])
    assert ("ACT-ST", "membership ECE") in figures_of(page)
