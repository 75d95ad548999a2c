"""AMCP as printed, with our changes one at a time, and without one of its ideas: every entry is trained.

`amcp-ablations` changes the loop of one trained network. Here each entry has a network of its own, small and
trained for the same number of steps on the same data with the same seed, so that what is compared is what the
choice is worth to a network that was trained with it.
"""

import tempfile
import time
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import clusterwise
from benchmarks.comparison import Comparison
from benchmarks.peers import REFERENCES
from benchmarks.suite import Case, Data, Method, Outcome, Suite
from benchmarks.suites.mixtures import ABLATION_SETS, METRICS
from clusterwise.pretrained import Weights
from clusterwise.pretrained.weights_file import load_weights
from clusterwise.training import train
from clusterwise.training.recipe import recipe_from_dict

# Small enough for a minute of training each at most; all else as in recipes/amcp-2d.toml.
MODEL: dict[str, Any] = {
    "n_features": 2, "width": 32, "n_heads": 4, "n_inducing": 16, "n_encoder_blocks": 3, "n_wavelengths": 6,
    "n_coordinates": 16, "n_em_steps": 3, "n_states": 4,
}  # fmt: skip
OPTIMIZER = {"learning_rate": 2e-3, "warm_up": 100, "clip": 1.0, "average_decay": 0.99}
PRIOR: dict[str, Any] = {
    "name": "blend",
    "n_features": 2,
    "parts": [
        {"name": "mixture-of-gaussians", "share": 3.0, "k_max": 16, "k_law": "uniform"},
        {"name": "mixture-of-gaussians", "share": 1.0, "k_max": 4, "k_law": "uniform"},
        {"name": "crp-mixture", "share": 1.0},
    ],
}


class Plan(NamedTuple):
    """How long every network is trained."""

    steps: int = 600
    n_points: int = 128
    points_per_batch: int = 1024
    seed: int = 1


@dataclass(frozen=True)
class Entry:
    """Options of a network that is trained, and of its loop afterwards."""

    model: dict[str, Any]
    loop: dict[str, Any] = field(default_factory=dict)


# From what the paper prints to what is shipped, one change after the other.
PRINTED = {
    "encoder": "none", "decoder": "mlp", "e_step": "sinkhorn", "proportions": "balanced", "revising": 0.0,
}  # fmt: skip
PRINTED_LOOP = {"first_cluster": "k-means", "update": False, "revise": False}
CLOSED = {**PRINTED, "proportions": "free", "encoder": "set", "decoder": "linear"}
REVISING = {**CLOSED, "e_step": "regular", "revising": 0.25}
FULL = "7. clusters split and merged: as shipped"
ENTRIES: dict[str, Entry] = {
    "0. as printed": Entry(PRINTED, PRINTED_LOOP),
    "1. free columns": Entry({**PRINTED, "proportions": "free"}, PRINTED_LOOP),
    "2. an encoder": Entry({**CLOSED, "decoder": "mlp"}, PRINTED_LOOP),
    "3. M-step in closed form": Entry(CLOSED, PRINTED_LOOP),
    "4. first cluster learned": Entry(CLOSED, {"update": False, "revise": False}),
    "5. earlier clusters updated (AMCP*)": Entry(CLOSED, {"revise": False}),
    "6. regular E-step": Entry({**REVISING, "revising": 0.0}, {"revise": False}),
    FULL: Entry(REVISING),
    "as shipped, but Sinkhorn": Entry({**REVISING, "e_step": "sinkhorn"}),
    "as shipped, trained without InterCC": Entry({**REVISING, "coupling": False}),
    "as shipped, InterCC taken out afterwards": Entry(REVISING, {"coupling": False}),
    "as shipped, but no update": Entry(REVISING, {"update": False, "revise": False}),
}


@lru_cache(maxsize=16)
def _trained(plan: Plan, options: tuple[tuple[str, Any], ...]) -> Weights:
    recipe = {
        "name": "amcp-trained",
        "method": "amcp",
        "seed": plan.seed,
        "model": {**MODEL, **dict(options)},
        "prior": PRIOR,
        "sizes": {"n_points": [plan.n_points], "points_per_batch": plan.points_per_batch},
        "optimizer": {"steps": plan.steps, **OPTIMIZER},
        "validation": {"every": plan.steps, "n_sets": 20, "n_points": plan.n_points},
    }
    with tempfile.TemporaryDirectory() as directory:
        path = train(recipe_from_dict(recipe), directory, verbose=False)
        assert path is not None
        return load_weights(Path(path))


def weights_of(plan: Plan, entry: Entry) -> Weights:
    """The network of an entry; entries that differ in the loop alone share it."""
    return _trained(plan, tuple(sorted(entry.model.items())))


def trained(plan: Plan, name: str, case: Case) -> Outcome:
    """Train the network of an entry at its first data set, then cluster by it alone."""
    entry = ENTRIES[name]
    weights = weights_of(plan, entry)
    started = time.perf_counter()
    model = clusterwise.AMCP(weights=weights, refine=None, random_state=case.seed, **entry.loop)
    labels = model.fit_predict(case.points)
    seconds = time.perf_counter() - started
    return Outcome(labels, lambda: float(model.score(case.points)), seconds=seconds)


def amcp_training(quick: bool) -> Suite:
    plan = Plan(steps=30) if quick else Plan()
    own = partial(Method, kind="ours", identity=partial(repr, plan), group="amcp", warm_up=False)
    methods = [REFERENCES["oracle"], *(own(name, partial(partial, trained, plan, name)) for name in ENTRIES)]
    data = [Data(name, draw, 3 if quick else 50) for name, draw in ABLATION_SETS.items()]
    comparison = Comparison(methods, METRICS, reference=FULL)
    return Suite(data, methods, report=comparison, metrics=METRICS, time_limit=1200.0)


SUITES = {"amcp-training": amcp_training}
