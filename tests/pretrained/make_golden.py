"""Write down what trained weights say about the demo data; run again when weights change.

    python tests/pretrained/make_golden.py [NAME ...]

Without names all weights of the package are written, each to ``golden/<name>.json`` beside this file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import clusterwise as cw
from clusterwise.papers.estimator import AmortizedClusterer
from clusterwise.papers.methods import JUDGES
from clusterwise.pretrained import get_weights, weights_path
from clusterwise.pretrained.lookup import read_header

FOLDER = Path(__file__).parent / "golden"
# Every fifth row of the demo data, which comes with the package: no random numbers are involved.
EVERY = 5


def scribbles(
    n_kinds: int = 8, each: int = 15, seed: int = 0, jitter: float = 0.6
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 784) of strokes through a few points, a little different each time, and their kinds."""
    rng = np.random.default_rng(seed)
    kinds = np.repeat(np.arange(n_kinds), each)
    corners = rng.uniform(5, 23, size=(n_kinds, 4, 2))[kinds] + rng.normal(0, jitter, size=(len(kinds), 4, 2))
    along = np.linspace(0, 1, 40)[:, None]
    strokes = np.concatenate(
        [
            a + along * (b - a)
            for a, b in zip(
                corners.swapaxes(0, 1)[:-1, :, None], corners.swapaxes(0, 1)[1:, :, None], strict=True
            )
        ],
        axis=1,
    )  # (n, 120, 2)
    places = np.stack(np.meshgrid(np.arange(28), np.arange(28), indexing="ij"), axis=-1).reshape(-1, 2)
    nearest = np.sqrt(np.square(strokes[:, None] - places[:, None]).sum(-1).min(axis=2))
    return np.round(255 * np.clip(1.6 - nearest, 0, 1)), kinds


def estimator_for(weights: str, **options: Any) -> AmortizedClusterer:
    """Return the estimator that weights are made for."""
    model = get_weights(weights).model
    if model.method == "amcp":
        return cw.AMCP(weights=weights, random_state=0, **options)
    if model.method == "chigac":
        return cw.CHiGac(weights=weights, random_state=0, **options)
    if model.method == "ncp":
        return cw.NCP(weights=weights, random_state=0, **options)
    if model.method == "act-st":
        return cw.ACTST(weights=weights, random_state=0, **options)
    return cw.DAC(model.config.filtering, weights=weights, random_state=0, **options)


def digest(weights: str) -> str:
    """What the tensors of weights are known by."""
    found: str = read_header(weights_path(weights))[0]["digest"]
    return found


def outcome(weights: str) -> dict[str, Any]:
    """Cluster the demo data with these weights."""
    points: np.ndarray = cw.datasets.load_demo()[0][::EVERY]
    if "encoder" in get_weights(weights).recipe:
        points = scribbles()[0]
    if get_weights(weights).model.method in JUDGES:
        return outcome_of_judges(weights, points)
    estimator = estimator_for(weights).fit(points)
    return {
        "digest": digest(weights),
        "labels": estimator.labels_.tolist(),
        "log_likelihood": round(estimator.score(points), 6),
    }


def outcome_of_judges(weights: str, points: np.ndarray) -> dict[str, Any]:
    """Cluster the demo data by both judges; this one is among them."""
    pair = {name: name for name in JUDGES} | {get_weights(weights).model.method: weights}
    estimator = cw.Clusterer(judges=tuple(pair.values()), random_state=0).fit(points)
    return {
        "digest": digest(weights),
        "labels": estimator.labels_.tolist(),
        "five": estimator.labels_at(5).tolist(),
        "log_likelihood": round(estimator.score(points), 6),
        "log_expected_ari": round(float(np.log(estimator.expected_ari_)), 6),
    }


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in names or cw.list_weights():
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(outcome(name)) + "\n")
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
