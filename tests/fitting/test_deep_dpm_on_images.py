"""DeepDPM on real images, where they are at hand."""

from __future__ import annotations

import os

import pytest
from sklearn.metrics import normalized_mutual_info_score

import clusterwise as cw
from benchmarks.data import DIRECTORY, load_case

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get(DIRECTORY), reason=f"{DIRECTORY} does not name a directory with images/mnist.npz"
    ),
]


def test_variants_help_on_raw_images() -> None:
    """Telling feature learning that rows are images does more than anything else can."""
    case = load_case("images/mnist", 3000, seed=11)

    def nmi(variants: cw.ImageVariants | None) -> float:
        estimator = cw.DeepDPM(
            feature_learning="mlp", scaling="joint", variants=variants, random_state=0
        ).fit(case.points)
        assert (estimator.predict(case.points) == estimator.labels_).mean() > 0.999
        return float(normalized_mutual_info_score(case.references[0], estimator.labels_))

    assert nmi(cw.ImageVariants(28, 28)) > nmi(None) + 0.05
