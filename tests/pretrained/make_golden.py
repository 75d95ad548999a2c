"""Write down what trained weights say about the demo data; run again when weights change.

    python tests/pretrained/make_golden.py [NAME ...]

Without names all weights of the package and of ``benchmarks/weights`` are written, each to
``golden/<name>.json`` beside this file.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import clusterwise as cw
from clusterwise.estimators.amortized import AmortizedClusterer
from clusterwise.models.registry import JUDGES
from clusterwise.pretrained import get_weights, weights_path

FOLDER = Path(__file__).parent / "golden"
# Every fifth row of the demo data, which comes with the package: no random numbers are involved.
EVERY = 5
# Weights that only benchmarks compare with are not part of the package.
COMPARED = Path(__file__).parents[2] / "benchmarks" / "weights"


def all_weights() -> dict[str, str]:
    """Return what ``weights=`` takes for each name: the name itself, or a path."""
    compared = {path.stem: str(path) for path in sorted(COMPARED.glob("*.safetensors"))}
    return {name: name for name in cw.list_weights()} | compared


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


def outcome(weights: str) -> dict[str, Any]:
    """Cluster the demo data with these weights, by the default way and by the network alone."""
    points: np.ndarray = cw.datasets.load_demo()[0][::EVERY]
    if weights in JUDGES:
        return outcome_of_judges(weights, points)
    estimator = estimator_for(weights).fit(points)
    alone = estimator_for(weights, refine=None, max_network_points=len(points)).fit(points)
    result = {
        "sha256": hashlib.sha256(weights_path(weights).read_bytes()).hexdigest(),
        "labels": estimator.labels_.tolist(),
        "network_labels": alone.network_labels_.tolist(),
    }
    if hasattr(estimator, "score"):
        result["log_likelihood"] = round(estimator.score(points), 6)
        result["network_log_likelihood"] = round(alone.score(points), 6)
    return result


def outcome_of_judges(weights: str, points: np.ndarray) -> dict[str, Any]:
    """Cluster the demo data by both judges; this one is among them."""
    estimator = cw.Clusterer(random_state=0).fit(points)
    return {
        "sha256": hashlib.sha256(weights_path(weights).read_bytes()).hexdigest(),
        "labels": estimator.labels_.tolist(),
        "network_labels": estimator.network_labels_.tolist(),
        "log_likelihood": round(estimator.score(points), 6),
        "network_log_likelihood": round(float(np.log(estimator.expected_ari_)), 6),
    }


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    weights = all_weights()
    for name in names or weights:
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(outcome(weights[name])) + "\n")
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
