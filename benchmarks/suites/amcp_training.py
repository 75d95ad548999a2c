"""AMCP as printed, with our changes one at a time, and without one of its ideas.

`amcp-ablations` changes the loop of one trained network. Here each entry has a small network of its own,
which was trained with the choice, for the same number of steps on the same data with the same seed.
"""

import tempfile
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison
from benchmarks.ours import estimator
from benchmarks.peers import REFERENCES
from benchmarks.suite import Data, Method, Run, Suite
from benchmarks.suites.mixtures import ABLATION_SETS, METRICS
from clusterwise.pretrained import Weights
from clusterwise.pretrained.weights_file import load_weights
from clusterwise.training import train
from clusterwise.training.recipe import recipe_from_dict

# Small enough for a minute or two of training each; all else as in recipes/amcp-2d.toml.
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


# From what the paper prints to what is shipped, one change after the other.
PRINTED = {
    "encoder": "none", "decoder": "mlp", "e_step": "sinkhorn", "proportions": "balanced", "merged_share": 0.0,
}  # fmt: skip
PRINTED_LOOP = {"first_cluster": "k-means", "update": False}
CLOSED = {**PRINTED, "proportions": "free", "encoder": "set", "decoder": "linear"}
REVISING = {**CLOSED, "e_step": "regular", "merged_share": 0.25, "revision": True}
FULL = "7. clusters split and merged: as shipped"
# Configuration of a network that is trained, and what is changed of it afterwards.
ENTRIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "0. as printed": (PRINTED, PRINTED_LOOP),
    "1. free columns": ({**PRINTED, "proportions": "free"}, PRINTED_LOOP),
    "2. an encoder": ({**CLOSED, "decoder": "mlp"}, PRINTED_LOOP),
    "3. M-step in closed form": (CLOSED, PRINTED_LOOP),
    "4. first cluster learned": (CLOSED, {"update": False}),
    "5. earlier clusters updated (AMCP*)": (CLOSED, {}),
    "6. regular E-step": ({**CLOSED, "e_step": "regular"}, {}),
    FULL: (REVISING, {}),
    "as shipped, but Sinkhorn": ({**REVISING, "e_step": "sinkhorn"}, {}),
    "as shipped, trained without InterCC": ({**REVISING, "coupling": False}, {}),
    "as shipped, InterCC taken out afterwards": (REVISING, {"coupling": False}),
    "as shipped, but no update": (REVISING, {"update": False}),
}


@lru_cache(maxsize=16)  # entries that differ in the loop alone share a network
def weights_of(steps: int, options: tuple[tuple[str, Any], ...]) -> Weights:
    recipe = {
        "name": "amcp-trained",
        "method": "amcp",
        "seed": 1,
        "model": {**MODEL, **dict(options)},
        "prior": PRIOR,
        "sizes": {"n_points": [128], "points_per_batch": 1024},
        "optimizer": {"steps": steps, **OPTIMIZER},
        "validation": {"every": steps, "n_sets": 20, "n_points": 128},
    }
    with tempfile.TemporaryDirectory() as directory:
        path = train(recipe_from_dict(recipe), directory, verbose=False)
        assert path is not None
        return load_weights(Path(path))


def trained(steps: int, name: str) -> Run:
    """Train the network of an entry, then cluster by it."""
    options, loop = ENTRIES[name]
    return estimator("AMCP", weights_of(steps, tuple(sorted(options.items()))), network=loop)


def amcp_training(quick: bool) -> Suite:
    steps = 30 if quick else 600
    own = partial(Method, kind="ours", identity=partial(str, f"{steps} steps"), group="amcp")
    methods = [REFERENCES["oracle"], *(own(name, partial(trained, steps, name)) for name in ENTRIES)]
    data = [Data(name, draw, 3 if quick else 50) for name, draw in ABLATION_SETS.items()]
    comparison = Comparison(methods, METRICS, reference=FULL)
    return Suite(data, methods, report=comparison, metrics=METRICS, time_limit=1200.0)


SUITES = {"amcp-training": amcp_training}
