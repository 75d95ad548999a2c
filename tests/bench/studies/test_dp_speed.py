"""The study of DPMixture's time with methods in this process: sizes, steps, ratios, resumption."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.bench import registry
from clusterwise.bench.process import InThisProcess
from clusterwise.bench.registry import Case
from clusterwise.bench.studies import dp_speed
from clusterwise.bench.studies.dp_speed import BOTH, MAPPED, ONE, VARIATIONAL, Sizes, draw_mixture

TINY = Sizes(n=(60, 120, 240), runs=2, race=120, many=200, n_warm_up=2, n_draws=2)
pytestmark = pytest.mark.filterwarnings("ignore::clusterwise.exceptions.NotConvergedWarning")


@pytest.fixture(autouse=True)
def _here(here: type[InThisProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_speed, "MethodProcess", here)
    monkeypatch.setattr(dp_speed, "n_threads", lambda: 2)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_mixtures_can_be_told_apart() -> None:
    case = draw_mixture(4000, 0)
    assert case.points.shape == (4000, 10)
    assert case.truth is not None
    labels = case.truth.references[0]
    assert len(np.unique(labels)) == 20
    means = np.stack([case.points[labels == k].mean(axis=0) for k in range(20)])
    inverses = [np.linalg.inv(np.cov(case.points[labels == k].T)) for k in range(20)]
    offsets = case.points[:, None] - means
    distances = np.stack(
        [np.einsum("nd,de,ne->n", offsets[:, k], inverses[k], offsets[:, k]) for k in range(20)], axis=1
    )
    assert adjusted_rand_score(labels, distances.argmin(axis=1)) > 0.9
    np.testing.assert_array_equal(case.points, draw_mixture(4000, 0).points)
    assert not np.array_equal(case.points, draw_mixture(4000, 1).points)


def test_a_run_leaves_its_files_and_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = dp_speed.run(tmp_path, True, str, TINY)
    raw = rows_of(tmp_path / "dp-speed.raw.csv")
    assert {row["status"] for row in raw} == {"ok"}
    keys = {(row["method"], row["n"], row["threads"], row["run"]) for row in raw}
    growth = {(ONE, str(n), "1", str(run)) for n in (60, 120) for run in (0, 1)} | {(ONE, "240", "1", "0")}
    race = {(method, "120", threads, "0") for method in (BOTH, VARIATIONAL) for threads in ("1", "2")}
    assert keys == growth | race | {(MAPPED, "120", "1", "0")}
    assert {(row["method"], row["steps"]) for row in raw} == {
        (ONE, "4"), (MAPPED, "4"), (BOTH, "8"), (VARIATIONAL, "0"),
    }  # fmt: skip
    points = rows_of(tmp_path / "dp-speed.csv")
    assert len(points) == 3 + 5
    for row in points:
        if row["method"] == ONE:
            times = [float(r["seconds"]) for r in raw if (r["method"], r["n"]) == (ONE, row["n"])]
            assert float(row["seconds"]) == pytest.approx(np.median(times), rel=1e-4)
            assert float(row["seconds_per_step"]) == pytest.approx(np.median(times) / 4, rel=1e-4)
    assert page.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert "Exponent: " in page.read_text()
    monkeypatch.setattr(InThisProcess, "run", lambda *_: pytest.fail("measured again"))
    dp_speed.run(tmp_path, True, str, TINY)


def test_a_mapped_file_gives_the_same_clusters_in_any_chunks(tmp_path: Path) -> None:
    case = draw_mixture(300, 0)
    np.save(tmp_path / "points.npy", case.points[:200])
    options = {"n_chains": 1, "n_warm_up": 20, "n_draws": 10}
    mapped = dp_speed.sampled(str(tmp_path / "points.npy"), **options)
    labels = mapped(Case(np.zeros((200, 1)), 0, None)).labels
    loaded = dp_speed.sampled(None, **options)(Case(case.points[:200], 0, None)).labels
    assert labels.shape == (200,)
    # The rows come in another order, so the chains differ; the clusters are much the same.
    assert adjusted_rand_score(labels, loaded) > 0.5


def test_ratios_are_to_the_rival_with_as_many_threads() -> None:
    def row(method: str, threads: str, seconds: str) -> dict[str, str]:
        return {
            "method": method, "threads": threads, "seconds": seconds, "found_k": "20", "ari": "0.9",
            "peak_memory_mb": "100",
        }  # fmt: skip

    race = [row(BOTH, "1", "5"), row(VARIATIONAL, "1", "10"), row(BOTH, "2", "4"), row(VARIATIONAL, "2", "5")]
    table = dp_speed._race_table(race).splitlines()[2:]
    assert [line.split("|")[4].strip() for line in table] == ["0.50", "1.0", "0.80", "1.0"]


def test_the_growth_is_fitted(tmp_path: Path) -> None:
    rows = [
        {"method": ONE, "n": str(n), "threads": "1", "run": "0", "seconds": str(n / 10), "steps": "10",
         "peak_memory_mb": "100", "found_k": "20", "ari": "0.9"}
        for n in (100, 1000, 10000)
    ]  # fmt: skip
    page = dp_speed._publish(tmp_path, rows, TINY)
    assert "Exponent: 1.00;" in page.read_text()
    assert "| 1,000  |    1 |     100 |" in page.read_text()


def test_it_is_registered() -> None:
    registry.discover()
    assert "dp-speed" in registry.BENCHMARKS
