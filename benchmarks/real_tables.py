"""Real tables with classes that no judge has seen.

``python -m benchmarks.real_tables development`` or ``test``. The judge of partitions that is shipped has
seen the development sets, so there each set is clustered with one that was trained by the same recipe
without it (``left out: group``) or without its whole family (``left out: family``); ``train`` makes these
first, and ``--folds`` names their folder. The test sets, which chose nothing, are clustered with what is
shipped. No method knows k. Classes need not be clusters: tier C, whose classes nearest neighbours cannot
tell apart either, stands alone.
"""

import argparse
import csv
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import adjusted_rand_score

import clusterwise
from benchmarks.data import data_directory
from benchmarks.page import markdown_table
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.suite import Case
from clusterwise.affine import fit_scaling
from clusterwise.pretrained import untrained
from clusterwise.training import read_recipe, train
from clusterwise.training.real_tables import RealSet, real_sets

RECIPE = Path(__file__).parents[1] / "recipes" / "partition-judge.toml"
N_FOLDS, MAX_ROWS = 4, 4_000
GIVEN_K = "k-means (true k)"
WITHOUT_K = ("k-means + silhouette", "HDBSCAN, defaults", "Leiden, resolution 0.3", "Leiden, resolution 1")


@dataclass(frozen=True)
class Table:
    """A data set of one part, with its tier."""

    name: str
    tier: str
    rows: Any  # (n, d) as a user has them
    numbers: np.ndarray  # (n, d) for methods that take nothing else
    labels: np.ndarray  # (n,)


def fold_of(one: RealSet, by: str) -> int:
    """The fold that a data set belongs to, by its group or its family."""
    names = sorted({getattr(other, by) for other in real_sets()})
    if by == "family":
        return names.index(one.family) % N_FOLDS
    return zlib.crc32(one.group.encode()) % N_FOLDS


def fold_name(by: str, fold: int) -> str:
    return f"partition-judge-without-{by}-{fold}"


def train_folds(folder: Path) -> None:
    """One judge for each fold; the tables of all of them are made once."""
    torch.set_num_threads(1)
    recipe = read_recipe(RECIPE)
    for by in ("group", "family"):
        for fold in range(N_FOLDS):
            name = fold_name(by, fold)
            if (folder / f"{name}.safetensors").exists():
                continue
            out = tuple(sorted({one.name for one in real_sets() if fold_of(one, by) == fold}))
            train(replace(recipe, name=name, real=replace(recipe.real, without=out)), folder, resume=True)


def tables(part: str) -> Iterator[Table]:
    """The data sets of ``development`` or ``test``, at most ``MAX_ROWS`` rows of each."""
    folder = data_directory() / "real"
    with (folder / "sets.csv").open(encoding="utf-8") as file:
        listed = [row for row in csv.DictReader(file) if row["part"] == part]
    for row in listed:
        path = folder / part / f"{row['domain']}__{row['name']}.npz"
        with np.load(path, allow_pickle=False) as arrays:
            numbers, labels = arrays["X"].astype(float), arrays["y"]
        rows: Any = numbers
        if path.with_suffix(".csv").exists():
            rows = pd.read_csv(path.with_suffix(".csv"))
            labels = pd.factorize(rows.pop("label"))[0]
        if len(labels) > MAX_ROWS:
            kept = np.sort(np.random.default_rng(0).choice(len(labels), MAX_ROWS, replace=False))
            rows = rows.iloc[kept] if rows is not numbers else rows[kept]
            numbers, labels = numbers[kept], labels[kept]
        filled = np.where(np.isnan(numbers), np.nanmedian(numbers, axis=0), numbers)
        scaled = fit_scaling(filled, per_feature=True).apply(filled)
        yield Table(row["name"], row["tier"], rows, scaled, labels)


def _clusterer(judge: Any, table: Table) -> dict[str, float]:
    model = clusterwise.Clusterer(judges=("node-judge", judge), random_state=0).fit(table.rows)
    rows = model._rows.order[model._chosen.context.judged]
    best = max(adjusted_rand_score(table.labels[rows], found) for found in model._chosen.candidates)
    ari = adjusted_rand_score(table.labels, model.labels_)
    return {"ARI": ari, "expected": model.expected_ari_, "best": max(best, ari), "k": model.n_clusters_}


def _peer(name: str, table: Table) -> dict[str, float]:
    method = {**PEERS, **REFERENCES}[name]
    references = (table.labels,) if method.sees_truth else ()
    found = method.build()(Case(table.numbers, 0, references)).labels
    return {"ARI": adjusted_rand_score(table.labels, found), "k": len(np.unique(found[found >= 0]))}


def methods(part: str, folder: Path | None) -> dict[str, Callable[[Table], dict[str, float]]]:
    """What is measured: the judges by what they have not seen, the control, and peers."""
    found: dict[str, Callable[[Table], dict[str, float]]] = {}
    if part == "test":
        found["Clusterer"] = partial(_clusterer, "partition-judge")
    elif folder is not None:
        known = {one.name: one for one in real_sets()}

        def without(by: str, table: Table) -> dict[str, float]:
            one = known.get(table.name)  # a set that no judge has seen: any will do
            fold = 0 if one is None else fold_of(one, by)
            return _clusterer(str(folder / f"{fold_name(by, fold)}.safetensors"), table)

        found |= {f"Clusterer, left out: {by}": partial(without, by) for by in ("group", "family")}
    found["Clusterer, partition judge untrained"] = partial(_clusterer, untrained("partition-judge"))
    return found | {name: partial(_peer, name) for name in (*WITHOUT_K, GIVEN_K)}


def measure(part: str, folder: Path | None, only: str = "") -> list[dict[str, Any]]:
    """A row for each data set and method whose name has ``only`` in it; what fails counts as one cluster."""
    found = []
    wanted = {name: run for name, run in methods(part, folder).items() if only in name}
    for table in tables(part):
        for name, run in wanted.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    cells = run(table)
                except Exception as error:
                    cells = {"ARI": 0.0, "k": 1}
                    print(f"{name} on {table.name}: {error!r}", file=sys.stderr)
            found.append({"data": table.name, "tier": table.tier, "method": name, **cells})
        print(table.name, file=sys.stderr, flush=True)
    return found


def report(rows: list[dict[str, Any]]) -> str:
    """Mean ARI by tier, how far it is from the expected one, and what is lost against the best candidate."""
    frame = pd.DataFrame(rows)
    lines = []
    for name, of in frame.groupby("method", sort=False):
        means = [f"{of.ARI[of.tier == tier].mean():.3f}" for tier in "ABC"]
        both = of[of.tier.isin(["A", "B"])]
        error = both.ARI.std() / np.sqrt(len(both))
        own = ["", ""]
        if "expected" in of:
            figures = (of.expected - of.ARI).abs().mean(), (of.best - of.ARI).mean()
            own = [f"{value:.3f}" if np.isfinite(value) else "" for value in figures]
        lines.append(
            [str(name), *means, f"{both.ARI.mean():.3f} ± {error:.3f}", f"{of.ARI.mean():.3f}", *own]
        )
    header = ["method", "tier A", "tier B", "tier C", "A and B", "all", "expected − true", "regret"]
    return markdown_table(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["train", "development", "test"])
    parser.add_argument("--folds", type=Path, help="folder of the judges that left a part out")
    parser.add_argument("--out", type=Path, help="csv file for the figures of each data set")
    parser.add_argument("--only", default="", help="part of the names of the methods to measure")
    options = parser.parse_args()
    if options.what == "train":
        train_folds(options.folds or Path("trained"))
        return
    rows = measure(options.what, options.folds, options.only)
    if options.out is not None:
        pd.DataFrame(rows).to_csv(options.out, index=False, float_format="%.4f")
    print(report(rows))


if __name__ == "__main__":
    main()
