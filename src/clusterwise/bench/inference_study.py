"""Tables 3 and 4 of CHiGac, and its Figures 3 and 6: five ways of inference, everything else the same.

Small networks are trained from several seeds with each strategy, on the same data for the same number of
optimizer steps, by the bound alone (no term that scores draws of the prior). On the way and at the end all
are measured on the same held-out data sets.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.inference_figures import FIGURES, Effort, figures_of, partition_of
from clusterwise.bench.inference_pictures import draw_generation, draw_likelihoods
from clusterwise.bench.rows import RowFile, write_csv
from clusterwise.bench.studies.chigac_inference import TITLE
from clusterwise.bench.summary import describe
from clusterwise.bench.synthetic import Word, generator_of
from clusterwise.bench.table import markdown_table, plus_minus
from clusterwise.models.base import TrainingTask
from clusterwise.models.chigac import CHiGac
from clusterwise.models.chigac_inference import STRATEGIES
from clusterwise.priors import make_prior
from clusterwise.training import train
from clusterwise.training.callbacks import Callback
from clusterwise.training.checkpoint import TrainingState
from clusterwise.training.recipe import Recipe, recipe_from_dict
from clusterwise.training.tasks import draw_task

__all__ = ["MODEL", "NAMES", "Plan", "run"]

NAMES = {
    "amortized": "AI",
    "semi-amortized": "Semi-AI",
    "iterative": "IAI",
    "svi": "SVI-AI",
    "ergodic": "EAI",
}
PRIOR: dict[str, Any] = {"name": "mixture-of-gaussians", "n_features": 2, "k_max": 6, "k_law": "uniform"}
MODEL: dict[str, Any] = {
    "n_features": 2,
    "width": 32,
    "n_heads": 4,
    "n_inducing": 8,
    "n_encoder_blocks": 3,
    "n_wavelengths": 6,
    "n_coordinates": 32,
    "n_hidden": 16,
    "n_summaries": 4,
    "n_inner_steps": 5,
    "inner_rate": 0.1,
    "n_states": 3,
    "hybrid": False,
}


@dataclass(frozen=True)
class Plan:
    """How much is trained and measured."""

    n_seeds: int = 4
    steps: int = 2000
    snapshots: tuple[int, ...] = (50, 200, 500, 1000, 2000)  # steps after which a network is measured
    n_points: int = 100
    points_per_batch: int = 1200
    n_sets: int = 60  # held out
    effort: Effort = field(default_factory=Effort)
    model: dict[str, Any] = field(default_factory=lambda: dict(MODEL))


FULL = Plan()
QUICK = Plan(
    n_seeds=1,
    steps=60,
    snapshots=(20, 60),
    n_sets=10,
    effort=Effort(n_samples=10, n_proposal_steps=5, n_noise=2),
)

HOW_TO_READ = """\
Mean ± standard deviation over {n_seeds} seeds, after {last} optimizer steps of {plan.points_per_batch} points
each, on {plan.n_sets} held-out mixtures of up to {k_max} Gaussians with {plan.n_points} points, the same for
all. Strategies of one seed see the same data.

- *Log-likelihood*, *ELBO* and *reconstruction* (error) are nats per cluster. The first is an
  importance-weighted estimate from {effort.n_samples} samples, with a proposal found by the same
  {effort.n_proposal_steps} steps of SVI for every strategy. The other two are taken at the variational
  parameters that the strategy itself infers.
- *Accuracy*, *ARI*, *k error* and *DBI* (median) are those of the network's own partitions, nothing refined.
- *Seconds* are those of training on one machine, measuring left out."""

COLUMNS = ("strategy", "seed", "step", "plan", "seconds", *FIGURES, "labels")


def _recipe(plan: Plan, strategy: str, seed: int) -> Recipe:
    return recipe_from_dict(
        {
            "name": f"{strategy}-{seed}",
            "method": "chigac",
            "seed": 100 + seed,
            "model": {**plan.model, "inference": strategy},
            "prior": PRIOR,
            "sizes": {"n_points": [plan.n_points], "points_per_batch": plan.points_per_batch},
            "optimizer": {
                "steps": plan.steps,
                "learning_rate": 2e-3,
                "warm_up": 50,
                "clip": 1.0,
                "average_decay": 0.99,
            },
            "validation": {"every": plan.steps, "n_sets": 1, "n_points": plan.n_points},
        }
    )


def _held_out(plan: Plan) -> TrainingTask:
    rng = generator_of(Word.CHIGAC_INFERENCE)
    return draw_task(make_prior(**PRIOR), rng, plan.n_sets, plan.n_points)


def _shown(task: TrainingTask) -> int:
    """The held-out data set that the picture of generation shows: the first with four clusters, if any."""
    return int(np.argmax(task.n_clusters.numpy() == 4))


class _Snapshots(Callback):
    """Measures the averaged weights after some steps; the time that this takes is not training time."""

    def __init__(self, plan: Plan, task: TrainingTask, rows: RowFile, key: dict[str, object]) -> None:
        self.plan, self.task, self.rows, self.key = plan, task, rows, key

    def after_step(self, state: TrainingState) -> bool:
        if state.step in self.plan.snapshots:
            model = state.averaged
            assert isinstance(model, CHiGac)
            figures = figures_of(model, self.task, self.plan.effort)
            labels = partition_of(model, self.task.points[_shown(self.task)])
            self.rows.add(
                self.key
                | {
                    "step": state.step,
                    "seconds": f"{state.seconds:.4g}",
                    "labels": " ".join(map(str, labels)),
                }
                | {name: repr(value) for name, value in figures.items()}
            )
        return False


def run(out: Path, quick: bool, write: Callable[[str], object], plan: Plan | None = None) -> Path:
    """Train and measure, then write ``chigac-inference.csv``, ``.md`` and two pictures.

    Raw rows are in ``chigac-inference.raw.csv``; a training that a killed run left half-way begins anew.
    """
    chosen = (QUICK if quick else FULL) if plan is None else plan
    identity = _fingerprint(chosen)
    rows = RowFile(out / "chigac-inference.raw.csv", COLUMNS, 3, lambda row: row["plan"] == identity)
    if rows.n_dropped:
        write(f"chigac-inference: {rows.n_dropped} rows of another plan are measured again")
    task = _held_out(chosen)
    runs = [(strategy, seed) for seed in range(chosen.n_seeds) for strategy in STRATEGIES]
    for done, (strategy, seed) in enumerate(runs, start=1):
        if all((strategy, seed, step) in rows for step in chosen.snapshots):
            continue
        begin = time.monotonic()
        key: dict[str, object] = {"strategy": strategy, "seed": seed, "plan": identity}
        snapshots = _Snapshots(chosen, task, rows, key)
        with tempfile.TemporaryDirectory() as directory:
            train(_recipe(chosen, strategy, seed), directory, callbacks=[snapshots], verbose=False)
        write(
            f"chigac-inference: {done}/{len(runs)} trainings, {NAMES[strategy]} from seed {seed} took "
            f"{time.monotonic() - begin:.0f} s"
        )
    page = _publish(out, chosen, rows.finish(), task)
    write(f"chigac-inference: raw rows in {rows.path}, page in {page}")
    return page


def _fingerprint(plan: Plan) -> str:
    """Everything that decides the figures of a plan, except how many seeds it has, in eight letters."""
    values = dataclasses.asdict(plan) | {"prior": PRIOR}
    values.pop("n_seeds")
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


Values = dict[tuple[str, int, str], list[float]]  # by strategy, step and figure: one value for each seed


def _publish(out: Path, plan: Plan, rows: list[dict[str, str]], task: TrainingTask) -> Path:
    values: Values = {}
    for row in rows:
        for name in ("seconds", *FIGURES):
            values.setdefault((row["strategy"], int(row["step"]), name), []).append(float(row[name]))
    steps, last = plan.snapshots, plan.snapshots[-1]
    write_csv(
        out / "chigac-inference.csv",
        ("strategy", "step", "figure", "mean", "sd", "n_seeds"),
        (
            (NAMES[strategy], step, name, f"{np.mean(of):.6g}", f"{_spread(of):.3g}", len(of))
            for strategy in STRATEGIES
            for step in steps
            for name in ("seconds", *FIGURES)
            if (of := values.get((strategy, step, name)))
        ),
    )
    pictures = [out / "chigac-inference.png", out / "chigac-inference-2.png"]
    with whole_or_nothing(pictures[0]) as temporary:
        draw_likelihoods(
            {NAMES[s]: np.array([values[s, step, "log-likelihood"] for step in steps]) for s in STRATEGIES},
            steps,
            temporary,
        )
    shown = _shown(task)
    path = {
        int(row["step"]): np.array(row["labels"].split(), dtype=np.int64)
        for row in rows
        if row["strategy"] == "ergodic" and row["seed"] == "0"
    }
    with whole_or_nothing(pictures[1]) as temporary:
        draw_generation(
            task.points[shown].numpy(),
            task.labels[shown].numpy(),
            {step: path[step] for step in steps},
            temporary,
        )
    page = out / "chigac-inference.md"
    with whole_or_nothing(page) as temporary:
        temporary.write_text(_page(plan, values, last), encoding="utf-8")
    return page


def _spread(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")


def _cell(values: list[float], digits: int) -> str:
    mean = f"{np.mean(values):.{digits}f}".replace("-", "−")
    return f"{mean} ± {_spread(values):.{digits}f}" if len(values) > 1 else mean


def _page(plan: Plan, values: Values, last: int) -> str:
    digits = {"log-likelihood": 2, "ELBO": 2, "reconstruction": 2, "seconds": 0}
    names = [*FIGURES, "seconds"]
    table = markdown_table(
        ["strategy", *names],
        [
            [NAMES[s], *(_cell(values[s, last, name], digits.get(name, 3)) for name in names)]
            for s in STRATEGIES
        ],
    )
    first = values["amortized", last, "log-likelihood"]
    rows = []
    for strategy in STRATEGIES[1:]:
        gains = np.array(values[strategy, last, "log-likelihood"]) - first
        gain = describe(gains)
        rows.append(
            [NAMES[strategy], plus_minus(gain, 2, signed=True), f"{(gains > 0).sum()} of {len(gains)}"]
        )
    differences = markdown_table(["strategy", "log-likelihood minus AI's", "seeds better"], rows)
    introduction = HOW_TO_READ.format(
        n_seeds=len(first),
        last=last,
        plan=plan,
        effort=plan.effort,
        k_max=PRIOR["k_max"],
    )
    parts = [
        f"# {TITLE}",
        introduction,
        table,
        "Compared within each seed, which takes the differences between seeds out:",
        differences,
        "Log-likelihood over optimizer steps (Figure 6 of the paper), a line for each seed and the mean:",
        f"![{TITLE}](chigac-inference.png)",
        "A held-out data set in the course of training with EAI (Figure 3); colours and numbers are "
        "the clusters found after so many steps.",
        "![Generation over steps](chigac-inference-2.png)",
    ]
    return "\n\n".join(parts) + "\n"
