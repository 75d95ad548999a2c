"""The study of the five strategies with networks that hardly learn anything."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch

from benchmarks.inference import Effort, figures_of
from benchmarks.runner import run_suite
from benchmarks.suites.chigac_inference import FIGURES, MODEL, NAMES, Plan, held_out, suite_of
from clusterwise.models.chigac_inference import STRATEGIES
from clusterwise.models.registry import make_model

TINY = Plan(
    n_seeds=2,
    snapshots=(1, 3),
    n_points=30,
    points_per_batch=60,
    n_sets=4,
    effort={"n_states": 2, "n_samples": 3, "n_proposal_steps": 2, "n_noise": 2},
    model={
        **MODEL, "width": 8, "n_heads": 2, "n_encoder_blocks": 1, "n_coordinates": 6, "n_inner_steps": 2,
    },
)  # fmt: skip


def test_a_run_leaves_rows_page_and_pictures(tmp_path: Path) -> None:
    page = run_suite("inference", tmp_path, suite=suite_of(TINY), here=True, write=lambda line: None)
    with page.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["method"], row["index"]) for row in rows} == {(n, i) for n in NAMES.values() for i in "01"}
    for row in rows:
        assert row["status"] == "ok"
        for name in FIGURES:
            values = [float(cell) for cell in row[f"{name}, by step"].split()]
            assert len(values) == 2
            assert np.isfinite(values).all() or name == "DBI (cosine)"
        assert [len(cell.split()) for cell in row["labels, by step"].split(";")] == [30, 30]
    text = page.read_text()
    assert all(f"| {name}" in text for name in NAMES.values())
    for picture in ("inference.png", "inference-2.png"):
        assert picture in text
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_figures_are_a_function_of_the_network_and_ordered_as_theory_says() -> None:
    """The log-likelihood is above the ELBO: both are bounds, and the first is the tighter one."""
    task = held_out(Plan(n_sets=20, n_points=40))
    torch.manual_seed(0)
    model = make_model("chigac", {**MODEL, "inference": "ergodic"}).eval()
    effort = Effort(n_samples=20, n_proposal_steps=10, n_noise=4)
    one, same = (figures_of(model, task, effort, seed=1) for _ in range(2))  # type: ignore[arg-type]
    assert one == same
    assert set(one) == set(FIGURES)
    assert one["log-likelihood"] > one["ELBO"]
    assert one["reconstruction"] > 0


def test_every_strategy_has_a_name() -> None:
    assert set(NAMES) == set(STRATEGIES)
