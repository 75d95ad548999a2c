"""Cluster four data sets without saying how many clusters there are; ``make demo`` runs this.

The first ships with the package: 1,500 made-up positions on a map, in metres, of seven colonies. The second
has two bent clusters. The others are real: thirteen measurements, in as many units, of 178 wines from
three cultivars; and 1,797 handwritten digits of 64 pixels. One estimator with its default settings does all.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine, make_moons
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.exceptions import ClusterwiseError
from clusterwise.plotting import ClusterDisplay
from clusterwise.report import write_report

FOLDER = Path(__file__).resolve().parents[1] / "demo"


class Case(NamedTuple):
    """A data set with known classes, which the estimator does not see, and how to cluster it."""

    title: str
    points: np.ndarray
    classes: np.ndarray
    column_names: list[str]
    estimator: cw.Clusterer


class Outcome(NamedTuple):
    """What came out of one case."""

    seconds: float
    warned: list[Warning | str]


def make_cases() -> list[Case]:
    """Return the data sets of the demonstration."""
    positions, colonies = cw.datasets.load_demo()
    moons, sides = make_moons(600, noise=0.07, random_state=0)
    wine, digits = load_wine(), load_digits()
    tables = [
        ("colonies", positions, colonies, ["easting (m)", "northing (m)"]),
        ("moons", moons, sides, ["x", "y"]),
        ("wine", wine.data, wine.target, wine.feature_names),
        ("digits", digits.data, digits.target, digits.feature_names),
    ]
    return [Case(*table, cw.Clusterer(random_state=0)) for table in tables]


def run(case: Case) -> Outcome:
    """Fit the case's estimator and time it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        started = time.perf_counter()
        case.estimator.fit(case.points)
        seconds = time.perf_counter() - started
    return Outcome(seconds, [warning.message for warning in caught])


def print_table(cases: list[Case], outcomes: list[Outcome]) -> None:
    """Print one line per data set: what was found, how it agrees with the classes, how long it took."""
    print(f"{'data':<10}{'rows':>7}{'columns':>9}{'classes':>9}{'k found':>9}", end="")
    print(f"{'ARI':>8}{'accuracy':>10}{'confidence':>12}{'seconds':>9}")
    for case, outcome in zip(cases, outcomes, strict=True):
        found = case.estimator
        ari = adjusted_rand_score(case.classes, found.labels_)
        accuracy = cw.metrics.matched_accuracy(case.classes, found.labels_)
        rows, columns = case.points.shape
        print(f"{case.title:<10}{rows:>7,}{columns:>9}{len(np.unique(case.classes)):>9}", end="")
        print(f"{found.n_clusters_:>9}{ari:>8.3f}{accuracy:>10.3f}", end="")
        print(f"{found.probabilities_.mean():>12.3f}{outcome.seconds:>9.2f}")
        for warning in outcome.warned:
            print(f"{'':<10}warning: {warning}")
    print("ARI and accuracy compare with the known classes, which were used for nothing else.")


def draw(cases: list[Case], path: Path) -> None:
    """Draw the partitions side by side."""
    figure, axes = plt.subplots(2, 2, figsize=(13, 10), layout="constrained")
    for case, ax in zip(cases, axes.flat, strict=True):
        ClusterDisplay.from_estimator(case.estimator, case.points, ax=ax, column_names=case.column_names)
        n_classes = len(np.unique(case.classes))
        ax.set_title(f"{case.title}: {case.estimator.n_clusters_} clusters found, {n_classes} classes")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Run everything and say where the results are."""
    cases = make_cases()
    print("The first fit on a machine compiles its inner loops, which takes up to half a minute.", flush=True)
    run(make_cases()[0])  # so that the times below are those of every later fit
    try:
        outcomes = [run(case) for case in cases]
    except ClusterwiseError as error:
        sys.exit(f"error: {error}")
    print_table(cases, outcomes)
    FOLDER.mkdir(exist_ok=True)
    picture, report = FOLDER / "demo.png", FOLDER / "report.html"
    draw(cases, picture)
    first, outcome = cases[0], outcomes[0]
    write_report(
        first.estimator,
        first.points,
        report,
        title="Nests of seven colonies",
        column_names=first.column_names,
        y=first.classes,
        seconds=outcome.seconds,
        warned=outcome.warned,
    )
    print(f"picture: {os.path.relpath(picture)}")
    print(f"report:  {os.path.relpath(report)}")


if __name__ == "__main__":
    plt.switch_backend("Agg")
    main()
