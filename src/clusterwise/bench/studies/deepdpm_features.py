"""DeepDPM on raw pixels: an autoencoder that takes turns with the clustering."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from clusterwise.bench.methods.deep_dpm import deep_dpm
from clusterwise.bench.methods.references import k_means
from clusterwise.bench.registry import Study, register
from clusterwise.bench.repeats import Run, mean_and_sd, measure, spread_table, write_page

__all__ = ["run", "runs"]

TITLE = "DeepDPM on raw images, with feature learning"
FILE = "images/mnist"
ROWS, QUICK_ROWS = 10_000, 1_000
LIMIT = 1200.0


def runs(quick: bool) -> list[Run]:
    """All runs, on one subset of the images."""
    n = QUICK_ROWS if quick else ROWS
    learned = partial(deep_dpm, feature_learning="mlp")
    pixels = partial(deep_dpm, covariance_type="diag")
    return [
        Run("MNIST, pixels", FILE, "DeepDPM, learned features", learned, 0, n, limit=LIMIT),
        Run("MNIST, pixels", FILE, "DeepDPM, no feature learning", pixels, 0, n, limit=LIMIT),
        Run("MNIST, pixels", FILE, "k-means (true k)", k_means, 0, n, sees_truth=True, limit=LIMIT),
    ]


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``deepdpm-features.csv`` and ``.md``."""
    name = "deepdpm-features.quick" if quick else "deepdpm-features"
    spreads = mean_and_sd(measure(runs(quick), out / f"{name}.csv", write))
    introduction = (
        f"{QUICK_ROWS if quick else ROWS:,} random images of MNIST, 784 pixels each, one thread. Without "
        "feature learning the covariances are diagonal."
    )
    return write_page(out / f"{name}.md", [f"# {TITLE}", introduction, spread_table(spreads)])


register(Study("deepdpm-features", TITLE, run))
