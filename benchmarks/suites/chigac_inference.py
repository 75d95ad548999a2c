"""Five ways of inference in CHiGac: Tables 3 and 4 of its paper, and its Figures 3 and 6.

Small networks are trained from several seeds with each strategy, on the same data for the same number of
optimizer steps, by the bound alone (no term that scores draws of the prior). On the way and at the end all
are measured on the same held-out data sets.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.page import markdown_table, plus_minus
from benchmarks.pictures import draw_curves, save
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows, describe
from benchmarks.synthetic import Word, generator_of
from clusterwise.plotting.clusters import ClusterDisplay

if TYPE_CHECKING:
    from clusterwise.models.base import TrainingTask

__all__ = ["MODEL", "NAMES", "SUITES", "Plan", "suite_of", "trained"]

NAMES = {
    "amortized": "AI",
    "semi-amortized": "Semi-AI",
    "iterative": "IAI",
    "svi": "SVI-AI",
    "ergodic": "EAI",
}
FIGURES = ("log-likelihood", "ELBO", "reconstruction", "accuracy", "ARI", "k error", "DBI (cosine)")
PRIOR: dict[str, Any] = {"name": "mixture-of-gaussians", "n_features": 2, "k_max": 6, "k_law": "uniform"}
MODEL: dict[str, Any] = {
    "n_features": 2, "width": 32, "n_heads": 4, "n_inducing": 8, "n_encoder_blocks": 3, "n_wavelengths": 6,
    "n_coordinates": 32, "n_hidden": 16, "n_summaries": 4, "n_inner_steps": 5, "inner_rate": 0.1,
    "n_states": 3, "hybrid": False,
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """How much is trained and measured."""

    n_seeds: int = 4
    snapshots: tuple[int, ...] = (50, 200, 500, 1000, 2000)  # steps after which a network is measured
    n_points: int = 100
    points_per_batch: int = 1200
    n_sets: int = 60  # held out
    effort: dict[str, int] = field(default_factory=dict)  # of ``benchmarks.inference.Effort``
    model: dict[str, Any] = field(default_factory=lambda: dict(MODEL))


QUICK = Plan(1, (20, 60), n_sets=10, effort={"n_samples": 10, "n_proposal_steps": 5, "n_noise": 2})
HOW_TO_READ = """\
Mean ± standard deviation over seeds, after {last} optimizer steps of {plan.points_per_batch} points each, on
{plan.n_sets} held-out mixtures of up to {k_max} Gaussians with {plan.n_points} points, the same for all.
Strategies of one seed see the same data.

- *Log-likelihood*, *ELBO* and *reconstruction* (error) are nats per cluster. The first is an
  importance-weighted estimate, with a proposal found by the same number of steps of SVI for every strategy.
  The other two are taken at the variational parameters that the strategy itself infers.
- *Accuracy*, *ARI*, *k error* and *DBI* (median) are those of the network's own partitions, nothing refined.
- *Seconds* are those of training on one machine, measuring left out."""


def held_out(plan: Plan) -> TrainingTask:
    """The data sets that all networks are measured on."""
    from clusterwise.priors import make_prior
    from clusterwise.training.tasks import draw_task

    return draw_task(make_prior(**PRIOR), generator_of(Word.CHIGAC_INFERENCE), plan.n_sets, plan.n_points)


def shown_case(plan: Plan, index: int) -> Case:
    """The held-out data set that the picture shows, the first with four clusters, if any; index is a seed."""
    task = held_out(plan)
    place = int(np.argmax(task.n_clusters.numpy() == 4))
    return Case(task.points[place].numpy().astype(np.float64), index, (task.labels[place].numpy(),))


def _recipe(plan: Plan, strategy: str, seed: int) -> dict[str, Any]:
    steps = plan.snapshots[-1]
    return {
        "name": f"{strategy}-{seed}",
        "method": "chigac",
        "seed": 100 + seed,
        "model": {**plan.model, "inference": strategy},
        "prior": PRIOR,
        "sizes": {"n_points": [plan.n_points], "points_per_batch": plan.points_per_batch},
        "optimizer": {
            "steps": steps, "learning_rate": 2e-3, "warm_up": 50, "clip": 1.0, "average_decay": 0.99,
        },
        "validation": {"every": steps, "n_sets": 1, "n_points": plan.n_points},
    }  # fmt: skip


def trained(plan: Plan, strategy: str) -> Run:
    """Train a network with the seed of a case; its labels of the case, and figures after every snapshot."""
    import torch

    from benchmarks.inference import Effort, figures_of, partition_of
    from clusterwise.models.chigac import CHiGac
    from clusterwise.training import train
    from clusterwise.training.callbacks import Callback
    from clusterwise.training.checkpoint import TrainingState
    from clusterwise.training.recipe import recipe_from_dict

    task = held_out(plan)

    def run(case: Case) -> Outcome:
        snapshots: list[dict[str, Any]] = []

        class Snapshots(Callback):
            """Measures the averaged weights after some steps; that is not training time."""

            def after_step(self, state: TrainingState) -> bool:
                if state.step in plan.snapshots:
                    model = state.averaged
                    assert isinstance(model, CHiGac)
                    labels = partition_of(model, torch.as_tensor(case.points, dtype=torch.float32))
                    figures = figures_of(model, task, Effort(**plan.effort))
                    snapshots.append({**figures, "labels": labels, "seconds": state.seconds})
                return False

        recipe = recipe_from_dict(_recipe(plan, strategy, case.seed))
        with tempfile.TemporaryDirectory() as directory:
            train(recipe, directory, callbacks=[Snapshots()], verbose=False)
        last = snapshots[-1]
        return Outcome(last["labels"], more=lambda: {"snapshots": snapshots}, seconds=last["seconds"])

    return run


def _cells(case: Case, labels: np.ndarray, more: Mapping[str, Any]) -> dict[str, object]:
    """A cell for each figure, with a value for each snapshot, and the labels found on the way."""
    snapshots: Sequence[Mapping[str, Any]] = more["snapshots"]
    cells: dict[str, object] = {
        f"{name}, by step": " ".join(f"{one[name]:.8g}" for one in snapshots) for name in FIGURES
    }
    return cells | {"labels, by step": ";".join(" ".join(map(str, one["labels"])) for one in snapshots)}


def _values(rows: Rows, name: str) -> np.ndarray:
    """Values (n_seeds, n_snapshots) of a figure."""
    return np.array([[float(v) for v in row[f"{name}, by step"].split()] for row in rows.good])


def _report(plan: Plan, rows: Rows, page: Path) -> list[str]:
    last = plan.snapshots[-1]
    present = [name for name in NAMES.values() if len(rows.of(method=name).good)]
    digits = {"log-likelihood": 2, "ELBO": 2, "reconstruction": 2, "seconds": 0}
    lines = []
    for name in present:
        of = rows.of(method=name)
        figures = {figure: describe(_values(of, figure)[:, -1]) for figure in FIGURES}
        figures["seconds"] = of.describe("seconds")
        cells = [plus_minus(value, digits.get(figure, 3), spread="sd") for figure, value in figures.items()]
        lines.append([name, *cells])
    gains = []
    likelihood = {name: _values(rows.of(method=name), "log-likelihood") for name in present}
    for name in present[1:]:
        both = min(len(likelihood[name]), len(likelihood[present[0]]))
        gain = likelihood[name][:both, -1] - likelihood[present[0]][:both, -1]
        gains.append([name, plus_minus(describe(gain), 2, signed=True), f"{(gain > 0).sum()} of {len(gain)}"])
    curves = {
        name: [
            (step, float(of.mean()), float(of.min()), float(of.max()))
            for step, of in zip(plan.snapshots, values.T, strict=True)
        ]
        for name, values in likelihood.items()
    }
    draw_curves(
        {"log-likelihood of a cluster": curves},
        page.with_suffix(".png"),
        ["optimizer steps"],
        ["nats"],
        "linear",
    )
    second = page.parent / f"{page.stem}-2.png"
    save(partial(_draw_generation, plan, rows), second)
    return [
        HOW_TO_READ.format(last=last, plan=plan, k_max=PRIOR["k_max"]),
        markdown_table(["strategy", *FIGURES, "seconds"], lines),
        "Compared within each seed, which takes the differences between seeds out:",
        markdown_table(["strategy", "log-likelihood minus AI's", "seeds better"], gains),
        "Log-likelihood over optimizer steps (Figure 6 of the paper), mean and range over seeds:",
        f"![Likelihood over steps]({page.stem}.png)",
        "A held-out data set in the course of training with EAI (Figure 3); colours and numbers are the "
        "clusters found after the given number of steps.",
        f"![Generation over steps]({second.name})",
    ]


def _draw_generation(plan: Plan, rows: Rows, path: Path) -> None:
    """The true partition of a data set, and the one found after each number of steps."""
    from matplotlib.figure import Figure

    case = shown_case(plan, 0)
    panels = {"truth": case.references[0]}
    for row in rows.of(method=NAMES["ergodic"], index="0").good:
        for step, cell in zip(plan.snapshots, row["labels, by step"].split(";"), strict=True):
            panels[f"{step} steps"] = np.array(cell.split(), dtype=np.int64)
    figure = Figure(figsize=(2.3 * len(panels), 2.5), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, labels) in zip(axes, panels.items(), strict=True):
        ClusterDisplay(case.points, labels).plot(ax)
        ax.set_title(f"{title}: {len(np.unique(labels))} clusters", fontsize=9)
        ax.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=150, format="png")


def suite_of(plan: Plan) -> Suite:
    """The suite of a plan."""
    methods = [
        Method(name, partial(trained, plan, strategy), kind="ours", warm_up=False)
        for strategy, name in NAMES.items()
    ]
    columns = (*(f"{name}, by step" for name in FIGURES), "labels, by step")
    return Suite(
        title="Inference of CHiGac: five strategies, same network, data and steps",
        data=[Data("held-out mixtures", partial(shown_case, plan), plan.n_seeds)],
        methods=methods,
        report=partial(_report, plan),
        metrics=("ARI",),
        columns=columns,
        score=_cells,
        time_limit=3600.0,
    )


def chigac_inference(quick: bool) -> Suite:
    """About 40 minutes, or one if ``quick``."""
    return suite_of(QUICK if quick else Plan())


SUITES = {"chigac-inference": chigac_inference}
