"""A seed keeps its meaning: weights are trained again from a recipe's seed, so draws must not move.

``python tests/priors/test_draws.py`` writes the fingerprints again; only do so if draws are meant to change.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusterwise.priors import make_prior
from clusterwise.priors.broad import BroadPrior
from clusterwise.priors.labelled_rows import LabelledOptions, LabelledRows

KNOWN = Path(__file__).with_name("draws.json")
Draw = Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]


def from_recipe(**prior: Any) -> Draw:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        batch = make_prior(**prior).draw(rng, 5, 60)
        return batch.points, batch.labels

    return draw


def from_broad(**options: float) -> Draw:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        table = BroadPrior(**options).draw_table(rng)  # type: ignore[arg-type]
        return table.points, table.labels

    return draw


def from_rows(**options: Any) -> Draw:
    def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(400) % 12
        prior = LabelledRows(np.arange(400.0)[:, None], y, y // 3, LabelledOptions(**options))
        drawn = prior.draw_rows(rng, 5, 60)
        return np.stack([drawn.index, drawn.turns, drawn.partners, drawn.seams]), drawn.labels

    return draw


PARTS = [
    {"name": "mixture-of-gaussians", "k_law": "uniform", "k_max": 16},
    {"name": "mixture-of-gaussians", "adjacent": 0.5, "share": 0.5},
    {"name": "crp-mixture"},
    {"name": "correlated-gaussians"},
]
CASES: dict[str, Draw] = {
    "binomial": from_recipe(name="mixture-of-gaussians", n_features=3),
    "crp": from_recipe(name="crp-mixture"),
    "crp given k": from_recipe(name="crp-mixture", k_exact=4),
    "warped": from_recipe(name="warped-gaussians", k_law="uniform", k_max=12),
    "blend": from_recipe(name="blend", parts=PARTS),
    "rows": from_rows(),
    "spliced rows": from_rows(turned_classes=True, spliced_sets=0.5, within_groups=0.0),
    "broad": from_broad(),
    "broad, all parts": from_broad(fields=0.35, uneven=0.2, plain=0.12, hierarchies=0.1),
}


def fingerprint(draw: Draw, seed: int) -> dict[str, Any]:
    points, labels = draw(np.random.default_rng(seed))
    weights = np.cos(np.arange(points.size)).reshape(points.shape)  # sees the order as well
    return {
        "shape": list(points.shape),
        "labels": zlib.crc32(labels.astype(np.int64).tobytes()),
        "sum": float((weights * points).sum()),
        "size": float(np.abs(points).sum()),
    }


@pytest.mark.parametrize("name", CASES)
def test_draws_are_those_of_before(name: str) -> None:
    known = json.loads(KNOWN.read_text(encoding="utf-8"))[name]
    for seed, before in enumerate(known):
        now = fingerprint(CASES[name], seed)
        assert (now["shape"], now["labels"]) == (before["shape"], before["labels"])
        assert now["size"] == pytest.approx(before["size"], rel=1e-6)
        assert now["sum"] == pytest.approx(before["sum"], abs=1e-6 * before["size"])


if __name__ == "__main__":
    found = {name: [fingerprint(draw, seed) for seed in range(10)] for name, draw in CASES.items()}
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in found.items())
    KNOWN.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
