"""Training on labelled examples: unseen classes, or unseen rows of the same classes, with controls.

Whatever was chosen, was chosen on training classes that were held out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks.labelled_weights import RUNS, labelled_rows, weights_of
from benchmarks.ours import estimator, ours
from benchmarks.page import mean, median, sets, share
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.suite import Case, Data, Method, Run, Suite
from clusterwise.papers.encoded import EncodedModel, EncodedSpace

METRICS = ("NMI (arithmetic)", "ARI", "accuracy", "k error", "right k", "k")
FIGURES = {
    "sets": sets,
    "NMI": mean("NMI (arithmetic)", 3),
    "ARI": mean("ARI", 3),
    "ACC": mean("accuracy", 3),
    "error of k": mean("k error", 1),
    "right k": share("right k"),
    "seconds": median("cpu_seconds"),
}


def _case(data: str, index: int, rows: np.ndarray | slice) -> Case:
    table = labelled_rows(data, "test")
    labels = np.unique(table.y[rows], return_inverse=True)[1].reshape(-1)
    return Case(table.rows[rows].astype(np.float64), index, (labels,))


def alphabet(index: int) -> Case:
    """All images of one of Omniglot's 20 evaluation alphabets."""
    groups = labelled_rows("omniglot", "test").groups
    assert groups is not None
    return _case("omniglot", index, groups == np.unique(groups)[index])


def classes_of(name: str, n: int, fewest: int, most: int, index: int) -> Case:
    """About ``n`` test rows of some classes, shared out by a Dirichlet distribution."""
    y, rng = labelled_rows(name, "test").y, np.random.default_rng([161, index])
    classes = np.unique(y)
    k = int(rng.integers(fewest, min(most, len(classes)) + 1))
    chosen, rows = rng.permutation(classes)[:k], []
    for part, label in zip(rng.dirichlet(np.full(k, 5.0)), chosen, strict=True):
        own = np.flatnonzero(y == label)
        rows.append(rng.choice(own, min(len(own), max(2, round(part * n))), replace=False))
    return _case(name, index, rng.permutation(np.concatenate(rows)))


def on_encoded(build: Callable[[], Run], weights: str) -> Run:
    """Any method on what the encoder of some weights makes of the rows."""
    model = weights_of(weights).model
    assert isinstance(model, EncodedModel)
    space, run = EncodedSpace(model.encoder), build()
    return lambda case: run(replace(case, points=space.apply(case.points)))


def network(name: str, model: str, weights: str, controls: int = 1, **options: Any) -> list[Method]:
    """The answer of an encoder network, and the same without training."""
    build = partial(estimator, model, weights, density=False, **options)
    rows = [
        Method(name, build, "ours"),
        Method(f"{name}, untrained", partial(build, trained=False), "control"),
    ]
    return rows[: 1 + controls]


def judged(weights: str) -> Method:
    """The judges on the encodings."""
    return Method("Clusterer on the encodings", partial(with_encoder, weights), "ours")


def with_encoder(weights: str) -> Run:
    """``Clusterer`` with the encoder of some weights."""
    return estimator("Clusterer", density=False, encoder=weights_of(weights))


def encoded(method: Method, weights: str, word: str = "encoded") -> Method:
    return replace(method, name=f"{method.name}, {word}", build=partial(on_encoded, method.build, weights))


SEARCH = ours("GaussianSearch, spherical", "GaussianSearch", covariance_type="spherical")
TOLD = (REFERENCES["k-means (true k)"], REFERENCES["spectral clustering (true k)"])
FREE = (PEERS["HDBSCAN, defaults"],)
MIXTURES = (*FREE, PEERS["GMM + BIC"], replace(ours("DPMixture"), kind="peer", max_sets=5))
RIVALS = (TOLD[0], REFERENCES["Ward (true k)"], *FREE, replace(SEARCH, kind="peer"))


def amcp_and_dac(amcp: str, dac: str | None = None) -> list[Method]:
    """AMCP with its control, DAC, the judges, and the search without a network."""
    rows = network("AMCP", "AMCP", amcp) + (network("DAC", "DAC", dac, 0) if dac else [])
    return [*rows, judged(amcp), replace(encoded(SEARCH, amcp), kind="control")]


def peers(weights: str, metric: str | None = None, free: Sequence[Method] = FREE) -> list[Method]:
    """Peers on rows as they are, as encoded by the first network, and by the rival's encoder."""
    plain = (*TOLD, *free)
    rivals = [encoded(method, metric, "metric") for method in RIVALS] if metric else []
    return [*plain, *(encoded(method, weights) for method in plain), *rivals]


def _suite(
    data: Mapping[str, Callable[[int], Case]], n_sets: int, methods: Sequence[Method]
) -> Callable[[bool], Suite]:
    together = [replace(method, group="labelled") for method in methods]

    def suite(quick: bool) -> Suite:
        kinds = [Data(name, draw, min(n_sets, 2) if quick else n_sets) for name, draw in data.items()]
        return Suite(kinds, together, FIGURES, metrics=METRICS, time_limit=300.0)

    return suite


def _on_classes(
    title: str, data: str, sizes: tuple[int, int, int], n_sets: int, free: Sequence[Method] = FREE
) -> Callable[[bool], Suite]:
    """Some classes of data that networks were trained on."""
    own = {run.method: name for name, run in RUNS.items() if run.data == data}
    first = own.get("amcp") or own["chigac"]
    methods = (
        amcp_and_dac(first, own.get("dac"))
        if "amcp" in own
        else [*network("CHiGac", "CHiGac", first), judged(first)]
    )
    draws = {title: partial(classes_of, data, *sizes)}
    return _suite(draws, n_sets, methods + peers(first, own.get("metric"), free))


CHARACTERS = "amcp-characters"
SUITES = {
    "characters": _suite(
        {"20 alphabets": alphabet}, 20,
        amcp_and_dac(CHARACTERS, "omniglot-dac") + peers(CHARACTERS, "omniglot-metric"),
    ),
    "odd-digits": _on_classes("MNIST, odd digits", "mnist", (1000, 1, 5), 20),
    "unseen-objects": _on_classes("Tiny-ImageNet features, (300, 12)", "tiny-imagenet", (300, 12, 12), 30),
    "unseen-letters": _on_classes("Letters of a table", "letter", (600, 2, 6), 12, MIXTURES),
    "unseen-cells": _on_classes("Cells of the human kidney", "kidney", (600, 2, 4), 12, MIXTURES),
    "cifar": _on_classes("CIFAR-10 features, five classes to five", "cifar", (1000, 1, 5), 10),
    "topics": _on_classes("Reuters, four topics", "reuters", (1000, 4, 4), 10),
    "activities": _on_classes("Six activities by accelerometer", "activities", (1000, 6, 6), 10),
    "clothes": _suite(
        {"Fashion-MNIST, five classes to five": partial(classes_of, "clothes", 1000, 1, 4)}, 10,
        [
            *network("DAC", "DAC", "clothes-dac"), judged("clothes-dac"),
            *peers("clothes-dac", "clothes-metric"),
        ],
    ),
}  # fmt: skip
