"""The study of the five strategies with networks that hardly learn anything."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clusterwise.bench import inference_study as study
from clusterwise.bench import registry
from clusterwise.bench.inference_figures import FIGURES, Effort, figures_of
from clusterwise.bench.inference_study import NAMES, Plan
from clusterwise.models.chigac_inference import STRATEGIES
from clusterwise.models.registry import make_model

TINY = Plan(
    n_seeds=2,
    steps=3,
    snapshots=(1, 3),
    n_points=30,
    points_per_batch=60,
    n_sets=4,
    effort=Effort(n_states=2, n_samples=3, n_proposal_steps=2, n_noise=2),
    model={
        **study.MODEL,
        "width": 8,
        "n_heads": 2,
        "n_encoder_blocks": 1,
        "n_coordinates": 6,
        "n_inner_steps": 2,
    },
)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_leaves_its_files_and_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    page = study.run(tmp_path, True, lines.append, TINY)
    raw = rows_of(tmp_path / "chigac-inference.raw.csv")
    keys = {(row["strategy"], row["seed"], row["step"]) for row in raw}
    assert keys == {(s, str(seed), str(step)) for s in STRATEGIES for seed in (0, 1) for step in (1, 3)}
    assert all(np.isfinite(float(row[name])) for row in raw for name in FIGURES if name != "DBI (cosine)")
    assert all(len(row["labels"].split()) == 30 for row in raw)
    table = rows_of(tmp_path / "chigac-inference.csv")
    assert len(table) == 5 * 2 * (1 + len(FIGURES))
    assert {row["n_seeds"] for row in table} == {"2"}
    text = page.read_text()
    assert all(f"| {name}" in text for name in NAMES.values())
    for picture in ("chigac-inference.png", "chigac-inference-2.png"):
        assert picture in text
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(study, "train", refuse)
    study.run(tmp_path, True, str, TINY)


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, trained = study.train, []

    def dies(recipe: Any, *args: Any, **kwargs: Any) -> Any:
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(recipe.name)
        return original(recipe, *args, **kwargs)

    monkeypatch.setattr(study, "train", dies)
    plan = dataclasses.replace(TINY, n_seeds=1)
    with pytest.raises(KeyboardInterrupt):
        study.run(tmp_path, True, str, plan)
    first = list(trained)
    trained.clear()
    trained.extend(["", "", "", ""])  # no more dying
    study.run(tmp_path, True, str, plan)
    assert len(first) == 3
    assert sorted(first + trained[4:]) == sorted(f"{s}-0" for s in STRATEGIES)


def test_another_plan_is_another_measurement(tmp_path: Path) -> None:
    one = study._fingerprint(TINY)
    assert one == study._fingerprint(dataclasses.replace(TINY, n_seeds=9))
    assert one != study._fingerprint(dataclasses.replace(TINY, n_sets=5))
    assert one != study._fingerprint(dataclasses.replace(TINY, model={**TINY.model, "inner_rate": 0.2}))


def test_figures_are_a_function_of_the_network_and_ordered_as_theory_says() -> None:
    """The log-likelihood is above the ELBO: both are bounds, and the first is the tighter one."""
    task = study._held_out(Plan(n_sets=20, n_points=40))
    torch.manual_seed(0)
    model = make_model("chigac", {**study.MODEL, "inference": "ergodic"}).eval()
    effort = Effort(n_samples=20, n_proposal_steps=10, n_noise=4)
    one, same = (figures_of(model, task, effort, seed=1) for _ in range(2))
    assert one == same
    assert set(one) == set(FIGURES)
    assert one["log-likelihood"] > one["ELBO"]
    assert one["reconstruction"] > 0


def test_the_study_is_known_by_its_name() -> None:
    registry.discover()
    assert isinstance(registry.BENCHMARKS["chigac-inference"], registry.Study)
    assert set(NAMES) == set(STRATEGIES)
