"""Unseen classes, after training on labelled examples of others: images, features of images, tables, cells.

Networks are trained on the training classes by ``benchmarks.labelled_weights``, and everything that was
chosen, was chosen on some of these that were held out. No method sees a label of a test class; those marked
"true k" are told how many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.labelled_weights import labelled_rows, weights_of
from benchmarks.ours import ours
from benchmarks.page import Cell, by_data, mean, median, sets, share
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows

__all__ = ["SUITES", "alphabet", "odd_digits", "test_classes"]

METRICS = ("NMI (arithmetic)", "ARI", "accuracy", "k error", "right k", "k")
FIGURES: dict[str, Cell] = {
    "sets": sets,
    "NMI": mean("NMI (arithmetic)", 3),
    "ARI": mean("ARI", 3),
    "ACC": mean("accuracy", 3),
    "error of k": mean("k error", 1),
    "right k": share("right k"),
    "seconds": median("cpu_seconds"),
}
HOW = """\
Mean ± standard error over data sets of classes that no network was trained on; NMI is normalized by the
arithmetic mean, ACC is Hungarian matching, time is that of one thread, encoding included. *Encoded* are the
features that the encoder before AMCP's network makes; *metric* those of the same encoder trained by the
metric loss alone, without a clustering network. Rows with "true k" are told the number of classes."""


# -- data ----------------------------------------------------------------------------------------------


def _case(rows: np.ndarray, y: np.ndarray, seed: int) -> Case:
    return Case(rows.astype(np.float64), seed, (np.unique(y, return_inverse=True)[1].reshape(-1),))


def alphabet(index: int) -> Case:
    """All images of one of Omniglot's 20 evaluation alphabets."""
    table = labelled_rows("omniglot", "test")
    assert table.groups is not None
    kept = table.groups == np.unique(table.groups)[index]
    return _case(table.rows[kept], table.y[kept], index)


def all_characters(index: int) -> Case:
    """All 13,180 images of the 659 evaluation characters."""
    table = labelled_rows("omniglot", "test")
    return _case(table.rows, table.y, index)


def odd_digits(index: int) -> Case:
    """Up to 1,000 images of one to five of the odd digits, sizes by a Dirichlet distribution."""
    return test_classes("mnist", 1000, (1, 5), index)


def test_classes(name: str, n: int, k: tuple[int, int], index: int) -> Case:
    """``n`` rows of test classes, as many as are drawn from the range ``k``, at most all there are."""
    table = labelled_rows(name, "test")
    rng = np.random.default_rng([161, index])
    classes = np.unique(table.y)
    n_classes = int(rng.integers(k[0], min(k[1], len(classes)) + 1))
    chosen = rng.permutation(classes)[:n_classes]
    shares = rng.dirichlet(np.full(n_classes, 5.0))
    rows = []
    for part, label in zip(shares, chosen, strict=True):
        own = np.flatnonzero(table.y == label)
        rows.append(rng.choice(own, min(len(own), max(2, round(part * n))), replace=False))
    index_of_rows = rng.permutation(np.concatenate(rows))
    return _case(table.rows[index_of_rows], table.y[index_of_rows], index)


# -- methods -------------------------------------------------------------------------------------------


def trained_estimator(name: str, weights: str, trained: bool = True, **options: Any) -> Run:
    """One of our estimators with weights of a run, or with its network and encoder untrained."""
    import warnings

    import clusterwise
    from clusterwise.pretrained.registry import untrained, weights_path

    found: Any = weights_of(weights)
    if not trained:
        from benchmarks.labelled_weights import path_of

        found = untrained(path_of(weights) if path_of(weights).exists() else weights_path(weights))
    model = getattr(clusterwise, name)(weights=found, **options)

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(random_state=case.seed).fit(case.points)
        return Outcome(model.labels_)

    return run


def on_encoded(build: Callable[[], Run], weights: str) -> Run:
    """Any method on what the encoder of some weights makes of the rows."""
    from clusterwise.models.encoded import EncodedModel
    from clusterwise.pipeline.encoded import EncodedSpace

    model = weights_of(weights).model
    assert isinstance(model, EncodedModel)
    space, run = EncodedSpace(model.encoder), build()
    return lambda case: run(replace(case, points=space.apply(case.points)))


def encoded(method: Method, weights: str, word: str = "encoded") -> Method:
    """The same method on encoded rows."""
    name = f"{method.name}, {word}"
    return replace(method, name=name, build=partial(on_encoded, method.build, weights), group=None)


def network_rows(weights: str, dac: str | None) -> list[Method]:
    """Our rows: as ``fit`` does it by default, the network alone, controls without training, DAC."""
    amcp = partial(trained_estimator, "AMCP", weights)
    rows = [
        Method("AMCP", amcp, kind="ours"),
        Method("AMCP, network alone", partial(amcp, refine=None), kind="ours"),
        Method("AMCP, untrained", partial(amcp, False), kind="control"),
        Method("AMCP, untrained network alone", partial(amcp, False, refine=None), kind="control"),
    ]
    if dac is not None:
        other = partial(trained_estimator, "DAC", dac)
        rows += [
            Method("DAC", other, kind="ours"),
            Method("DAC, network alone", partial(other, refine=None), kind="ours"),
        ]
    search = ours("GaussianSearch, spherical", "GaussianSearch", covariance_type="spherical")
    return [*rows, replace(encoded(search, weights), kind="control")]


def peers(weights: str, metric: str | None, mixtures: bool) -> list[Method]:
    """Peers on raw and on encoded rows; mixtures where there are few features."""
    given = [REFERENCES["k-means (true k)"], REFERENCES["spectral clustering (true k)"]]
    free = [PEERS["HDBSCAN, defaults"]]
    if mixtures:
        free += [PEERS["GMM + BIC"], replace(ours("DPMixture"), kind="peer", max_sets=5)]
    rows = [*given, *free, *(encoded(method, weights) for method in (*given, *free))]
    if metric is not None:
        rivals = [REFERENCES["k-means (true k)"], REFERENCES["Ward (true k)"], PEERS["HDBSCAN, defaults"]]
        search = ours("GaussianSearch, spherical", "GaussianSearch", covariance_type="spherical")
        rows += [replace(encoded(method, metric, "metric"), kind="peer") for method in (*rivals, search)]
    return rows


# -- suites --------------------------------------------------------------------------------------------


def _suite(title: str, data: list[Data], methods: list[Method], notes: dict[str, str]) -> Suite:
    def report(rows: Rows, page: Path) -> list[str]:
        return [HOW, *by_data(rows, FIGURES, notes)]

    together = [replace(method, group="labelled") for method in methods]
    return Suite(title, data, together, report, METRICS, time_limit=300.0)


def characters(quick: bool) -> Suite:
    """Omniglot: alphabets that were not trained on."""
    methods = network_rows("amcp-characters", "omniglot-dac")
    methods += peers("amcp-characters", "omniglot-metric", False)
    data = [Data("20 alphabets", alphabet, 2 if quick else 20)]
    notes = {
        "20 alphabets": "All images of one alphabet each: 20 to 47 characters by 20 people. Printed for DAC: "
        "NMI .829, error of k 4.6; the best other method with k unknown there has .893 and 5.1."
    }
    return _suite("Handwritten characters of unseen alphabets", data, methods, notes)


def all_at_once(quick: bool) -> Suite:
    """Omniglot: all evaluation characters in one data set, more clusters than any network was trained on."""
    amcp = partial(trained_estimator, "AMCP", "amcp-characters", max_clusters=1000)
    methods = [
        Method("AMCP", amcp, kind="ours"),
        Method("AMCP, network alone", partial(amcp, refine=None), kind="ours"),
        Method("AMCP, untrained", partial(amcp, False), kind="control"),
        *(
            encoded(method, "amcp-characters")
            for method in (REFERENCES["k-means (true k)"], PEERS["HDBSCAN, defaults"])
        ),
    ]
    title = "659 characters at once"
    note = "All 13,180 images of the evaluation alphabets; at most 1,000 clusters."
    return _suite(title, [Data(title, all_characters, 1)], methods, {title: note})


def unseen(
    name: str, title: str, draw: Callable[[int], Case], note: str, mixtures: bool, metric: bool
) -> Any:
    """A suite on one data set whose classes are divided."""

    def suite(quick: bool) -> Suite:
        methods = network_rows(f"{name}-amcp", f"{name}-dac" if name in WITH_DAC else None)
        methods += peers(f"{name}-amcp", f"{name}-metric" if metric else None, mixtures)
        return _suite(
            title, [Data(title, draw, 2 if quick else N_SETS.get(name, 12))], methods, {title: note}
        )

    return suite


N_SETS = {"mnist": 20, "tiny-imagenet": 30}
WITH_DAC = ("mnist", "tiny-imagenet", "letter")
SUITES = {
    "characters": characters,
    "all-characters": all_at_once,
    "odd-digits": unseen(
        "mnist", "MNIST, odd digits", odd_digits,
        "Trained on even digits only. Up to 1,000 rows, one to five digits.", False, True,
    ),
    "unseen-objects": unseen(
        "tiny-imagenet", "Tiny-ImageNet features, (300, 12)",
        partial(test_classes, "tiny-imagenet", 300, (12, 12)),
        "128 features of an ImageNet network, which saw the labels of all classes; trained on 100 of them, "
        "the test is on the other 100.", False, True,
    ),
    "unseen-letters": unseen(
        "letter", "Letters of a table", partial(test_classes, "letter", 600, (2, 6)),
        "16 features; 5,000 rows of 20 letters for training, the other six for the test.", True, False,
    ),
    "unseen-cells": unseen(
        "kidney", "Cells of the human kidney", partial(test_classes, "kidney", 600, (2, 4)),
        "50 principal components; trained on three quarters of the cell types, tested on the others.",
        True, False,
    ),
}  # fmt: skip
