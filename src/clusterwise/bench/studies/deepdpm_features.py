"""DeepDPM on raw pixels: an autoencoder that takes turns with the clustering."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from clusterwise.bench.methods.deep_dpm import deep_dpm
from clusterwise.bench.methods.references import k_means
from clusterwise.bench.registry import Case, Outcome, Study, register
from clusterwise.bench.repeats import Run, mean_and_sd, measure, spread_table, write_page

__all__ = ["run", "runs"]

TITLE = "DeepDPM on raw images, with feature learning"
FILE = "images/mnist"
ROWS, SEEDS = 10_000, 5
QUICK_ROWS, QUICK_SEEDS = 1_000, 1
LIMIT = 1200.0
INTRODUCTION = """\
{rows:,} random images of MNIST for each of {seeds} seeds, 784 pixels each; mean ± standard deviation, one
thread. Pixels are scaled together. *Variants* tells feature learning that rows are images, which stay what
they are when they are moved a little (`clusterwise.ImageVariants`). Without feature learning the covariances
are diagonal. k-means is told the true number of clusters."""


def deep_dpm_of_images() -> Callable[[Case], Outcome]:
    """DeepDPM that learns features of images of 28 x 28 pixels."""
    import clusterwise as cw

    return deep_dpm(feature_learning="mlp", scaling="joint", variants=cw.ImageVariants(28, 28))


def runs(quick: bool) -> list[Run]:
    """All runs, each seed with images of its own."""
    n, seeds = (QUICK_ROWS, QUICK_SEEDS) if quick else (ROWS, SEEDS)
    learned = partial(deep_dpm, feature_learning="mlp", scaling="joint")
    pixels = partial(deep_dpm, covariance_type="diag", scaling="joint")
    methods: list[tuple[str, Callable[[], Callable[[Case], Outcome]], bool]] = [
        ("DeepDPM, learned features, variants", deep_dpm_of_images, False),
        ("DeepDPM, learned features", learned, False),
        ("DeepDPM, no feature learning", pixels, False),
        ("k-means (true k)", k_means, True),
    ]
    return [
        Run("MNIST, pixels", FILE, name, build, seed, n, sees_truth=sees_truth, limit=LIMIT)
        for name, build, sees_truth in methods
        for seed in range(seeds)
    ]


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``deepdpm-features.csv`` and ``.md``."""
    name = "deepdpm-features.quick" if quick else "deepdpm-features"
    spreads = mean_and_sd(measure(runs(quick), out / f"{name}.csv", write))
    introduction = INTRODUCTION.format(
        rows=QUICK_ROWS if quick else ROWS, seeds=QUICK_SEEDS if quick else SEEDS
    )
    return write_page(out / f"{name}.md", [f"# {TITLE}", introduction, spread_table(spreads)])


register(Study("deepdpm-features", TITLE, run))
