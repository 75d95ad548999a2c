"""``clusterwise cluster``: from a file to labels, a few lines of text, and a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import typer

from clusterwise.cli.messages import one_line_warnings
from clusterwise.datasets import format_of, read_table, write_labels
from clusterwise.exceptions import ClusterwiseError

__all__ = ["ClusterOptions", "Filtering", "Method", "Projection", "Scaling", "cluster_file", "summary_lines"]

MAX_LINES = 30


class Method(StrEnum):
    """Estimators that the command line offers."""

    AMCP = "amcp"
    DAC = "dac"
    ACT_ST = "act-st"
    NCP = "ncp"
    CHIGAC = "chigac"


class Filtering(StrEnum):
    """How a pass of DAC chooses its cluster."""

    MINIMUM_LOSS = "minimum-loss"
    ANCHORED = "anchored"


class Projection(StrEnum):
    """What to do with other numbers of columns than the weights take."""

    PCA = "pca"


class Scaling(StrEnum):
    """One scale for all columns, or one for each."""

    JOINT = "joint"
    FEATURE = "feature"


@dataclass(frozen=True)
class ClusterOptions:
    """What to cluster and how, and where the results go."""

    file: Path
    out: Path
    report: Path | None
    method: Method
    filtering: Filtering | None
    weights: str | None
    columns: tuple[str, ...] | None
    projection: Projection | None
    scaling: Scaling
    seed: int

    def check(self) -> None:
        """Raise an error for what would go wrong only after the work, or would destroy the input."""
        if self.filtering is not None and self.method is not Method.DAC:
            raise ClusterwiseError("--filtering is an option of DAC; add --method dac or leave it out.")
        format_of(self.out)
        if self.report is not None and self.report.suffix.lower() not in (".html", ".htm"):
            raise ClusterwiseError(f"the report {self.report} must end in .html; it is an HTML page.")
        for option, path in (("--out", self.out), ("--report", self.report)):
            if path is not None and path.exists() and path.samefile(self.file):
                raise ClusterwiseError(
                    f"{option} would overwrite the data in {self.file}; choose another name."
                )


def _make_estimator(options: ClusterOptions) -> Any:
    from clusterwise.estimators import ACTST, AMCP, DAC, NCP, CHiGac  # torch: only when it is needed

    shared: dict[str, Any] = {
        "weights": options.weights,
        "projection": options.projection and str(options.projection),
        "scaling": str(options.scaling),
        "random_state": options.seed,
    }
    if options.filtering is not None:
        shared["filtering"] = str(options.filtering)
    estimators: dict[Method, Callable[..., Any]] = {
        Method.AMCP: AMCP,
        Method.DAC: DAC,
        Method.ACT_ST: ACTST,
        Method.NCP: NCP,
        Method.CHIGAC: CHiGac,
    }
    return estimators[options.method](**shared)


def summary_lines(estimator: Any, seconds: float) -> Iterator[str]:
    """Yield what is printed about a fitted estimator; P(K) comes last, since it may take a while."""
    from clusterwise.report.contents import weights_name

    n_clusters, n_rows = int(estimator.n_clusters_), len(estimator.labels_)
    sizes = np.bincount(estimator.labels_, minlength=n_clusters)
    yield (
        f"{n_clusters} cluster{'s' * (n_clusters != 1)} in {n_rows:,} row{'s' * (n_rows != 1)} "
        f"({type(estimator).__name__}, {weights_name(estimator)}, {seconds:.1f} s)"
    )
    yield f"{'cluster':>9}{'rows':>11}{'share':>9}{'confidence':>12}"
    for label in range(min(n_clusters, MAX_LINES)):
        confidence = estimator.probabilities_[estimator.labels_ == label].mean()
        yield f"{label:>9}{sizes[label]:>11,}{100 * sizes[label] / n_rows:>7.1f} %{confidence:>12.3f}"
    if n_clusters > MAX_LINES:
        yield f"{'...':>9} and {n_clusters - MAX_LINES} more"
    yield f"mean confidence {estimator.probabilities_.mean():.3f}"
    k_posterior: dict[int, float] | None = getattr(estimator, "k_posterior_", None)
    if k_posterior is not None:
        likely = sorted(k_posterior.items(), key=lambda item: -item[1])[:5]
        shown = ", ".join(f"{probability:.2f} for {k}" for k, probability in likely if probability >= 0.005)
        yield f"probability of k: {shown}"


def cluster_file(options: ClusterOptions) -> None:
    """Read, cluster, print, write."""
    options.check()
    table = read_table(options.file, options.columns)
    with one_line_warnings() as heard:
        estimator = _make_estimator(options)
        started = time.perf_counter()
        estimator.fit(table.values)
        seconds = time.perf_counter() - started
        write_labels(options.out, estimator.labels_, estimator.probabilities_, estimator.outlier_scores_)
        for line in summary_lines(estimator, seconds):
            typer.echo(line)
        typer.echo(f"labels: {options.out}")
        if options.report is not None:
            from clusterwise.report import write_report

            write_report(
                estimator,
                table.values,
                options.report,
                title=f"Clusters in {options.file.name}",
                column_names=table.column_names,
                seconds=seconds,
                warned=list(heard),
            )
            typer.echo(f"report: {options.report}")
