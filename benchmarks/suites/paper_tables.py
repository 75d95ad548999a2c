"""The other tables of the papers on real data: AMCP's CIFAR-10, CHiGac's Reuters and HAR, DAC's images.

The same controls and peers as in ``labelled``. What the papers print is in the notes, for orientation: their
features, networks and training are others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.labelled_weights import labelled_rows, path_of, weights_of
from benchmarks.page import Cell, by_data, mean
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.labelled import (
    FIGURES,
    METRICS,
    network_rows,
    peers,
    test_classes,
    trained_estimator,
)
from benchmarks.summary import Rows

__all__ = ["SUITES", "some_characters"]

N_SETS = 10
LIKELIHOOD, OF_ALL = "LL per pixel", "LL per pixel, one context"
OF_LIKELIHOODS = """\
*LL per pixel* is a lower bound of the log-likelihood in nats, given the contexts of the clusters that were
found, and given one context of all images together. Printed for DAC on EMNIST, which is not to be had: -.193
with up to 4 classes (n 1,000), -.199 with up to 12; its test classes were those of training."""

HOW = """\
Mean ± standard error over data sets of rows that no network was trained on; NMI is normalized by the
arithmetic mean, ACC is Hungarian matching, time is that of one thread, encoding included. *Encoded* are the
features that the encoder before the first network of the table makes; *metric* those of the same encoder
trained by the metric loss alone, without a clustering network. Rows with "true k" are told the number of
classes."""


# -- data ----------------------------------------------------------------------------------------------


def some_characters(k_max: int, index: int) -> Case:
    """All 20 images each of 1 + Binomial(k_max - 1, 1/2) evaluation characters of Omniglot."""
    table = labelled_rows("omniglot", "test")
    rng = np.random.default_rng([162, k_max, index])
    chosen = rng.choice(np.unique(table.y), 1 + rng.binomial(k_max - 1, 0.5), replace=False)
    rows = rng.permutation(np.flatnonzero(np.isin(table.y, chosen)))
    labels = np.unique(table.y[rows], return_inverse=True)[1].reshape(-1)
    return Case(table.rows[rows].astype(np.float64), index, (labels,))


# -- methods -------------------------------------------------------------------------------------------


def drawing_estimator(weights: str, trained: bool = True, **options: Any) -> Run:
    """DAC with a decoder: also how likely its clusters make the images, and how likely one context does."""
    import warnings

    import clusterwise
    from clusterwise.pipeline.images import image_clusters
    from clusterwise.pretrained.registry import untrained

    found: Any = weights_of(weights)
    network = found.model.network
    if not trained:
        found = untrained(path_of(weights))
        network = found.model.network
    model = clusterwise.DAC(weights=found, **options)

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(random_state=case.seed).fit(case.points)

        def likelihoods() -> Mapping[str, float]:
            features = model._prepared.features
            one = replace(
                image_clusters(
                    network, features, np.zeros(len(features), int), model._clusters.select(np.zeros(1, int))
                ),
                proportions=np.ones(1),
            )
            n_pixels = case.points.shape[1]
            return {
                LIKELIHOOD: model.score(case.points) / n_pixels,
                OF_ALL: float(one.log_density(case.points).mean()) / n_pixels,
            }

        return Outcome(model.labels_, more=likelihoods)

    return run


def chigac_rows(data: str) -> list[Method]:
    """CHiGac as ``fit`` does it, its network alone, and controls without training."""
    chigac = partial(trained_estimator, "CHiGac", f"{data}-chigac")
    return [
        Method("CHiGac", chigac, kind="ours"),
        Method("CHiGac, network alone", partial(chigac, refine=None), kind="ours"),
        Method("CHiGac, untrained", partial(chigac, False), kind="control"),
        Method("CHiGac, untrained network alone", partial(chigac, False, refine=None), kind="control"),
    ]


def drawing_rows(weights: str) -> list[Method]:
    """DAC with a decoder, its network alone, and both untrained."""
    dac = partial(drawing_estimator, weights)
    return [
        Method("DAC with a decoder", dac, kind="ours"),
        Method("DAC with a decoder, network alone", partial(dac, refine=None), kind="ours"),
        Method("DAC with a decoder, untrained", partial(dac, False), kind="control"),
    ]


# -- suites --------------------------------------------------------------------------------------------


def _suite(title: str, data: list[Data], methods: list[Method], note: str, columns: tuple[str, ...]) -> Suite:
    figures: dict[str, Cell] = {**FIGURES, **{name: mean(name, 3) for name in columns}}

    def report(rows: Rows, page: Path) -> list[str]:
        return [HOW, note, *by_data(rows, figures)]

    together = [replace(method, group="labelled") for method in methods]
    return Suite(title, data, together, report, METRICS, columns, time_limit=300.0)


def features(quick: bool) -> Suite:
    """AMCP's CIFAR-10: five classes for training, sets of one to five of the others for the test."""
    title = "CIFAR-10 features, five classes to five"
    kinds = [Data(title, partial(test_classes, "cifar", 1000, (1, 5)), 2 if quick else N_SETS)]
    note = (
        "128 principal components of the features of an ImageNet network. Trained on airplanes, birds, deer, "
        "frogs and ships, tested on up to 1,000 rows of one to five of the other classes. Printed, on "
        "features of another network: AMCP ACC .902 and NMI .804, DAC .884 and .787, NCP .764 and .743."
    )
    methods = network_rows("cifar-amcp", "cifar-dac") + peers("cifar-amcp", "cifar-metric", False)
    return _suite(title, kinds, methods, note, ())


def clothes(quick: bool) -> Suite:
    """Fashion-MNIST in place of EMNIST, but with other classes in the test."""
    title = "Fashion-MNIST, five classes to five"
    kinds = [Data(title, partial(test_classes, "clothes", 1000, (1, 4)), 2 if quick else N_SETS)]
    note = (
        "Trained on T-shirts, pullovers, coats, shirts and bags, tested on up to 1,000 images of one to four "
        f"of the other classes: trousers, dresses and three kinds of shoes. {OF_LIKELIHOODS}"
    )
    methods = drawing_rows("clothes-dac") + peers("clothes-dac", "clothes-metric", False)
    return _suite(title, kinds, methods, note, (LIKELIHOOD, OF_ALL))


def same_classes(data: str, n_classes: int, title: str, note: str) -> Callable[[bool], Suite]:
    """Sets of all classes, of rows that were not trained on."""

    def suite(quick: bool) -> Suite:
        draw = partial(test_classes, data, 1000, (n_classes, n_classes))
        kinds = [Data(title, draw, 2 if quick else N_SETS)]
        methods = chigac_rows(data) + peers(f"{data}-chigac", f"{data}-metric", False)
        return _suite(title, kinds, methods, note, ())

    return suite


def statistician(quick: bool) -> Suite:
    """DAC's mixture of neural statisticians, on characters that were not trained on."""
    weights = "omniglot-statistician"
    sizes = {"up to 4 characters": 4, "up to 12 characters": 12}
    kinds = [Data(name, partial(some_characters, k), 2 if quick else 2 * N_SETS) for name, k in sizes.items()]
    note = f"All 20 images each of some characters of Omniglot's evaluation alphabets. {OF_LIKELIHOODS}"
    methods = drawing_rows(weights) + peers(weights, None, False)
    title = "Images of unseen characters, and how likely they are"
    return _suite(title, kinds, methods, note, (LIKELIHOOD, OF_ALL))


SUITES = {
    "cifar": features,
    "clothes": clothes,
    "topics": same_classes(
        "reuters", 4, "Reuters, four topics",
        "2,000 words by TF-IDF; trained on 10,000 documents, tested on 1,000 others of the same four topics, "
        "in shares of a Dirichlet distribution. Printed for all rows: CHiGac ACC .829, NCP .807, DAC .803.",
    ),
    "activities": same_classes(
        "activities", 6, "Six activities by accelerometer",
        "343 features of a smartphone's accelerometer; trained on 21 people, tested on 1,000 rows of nine "
        "others. Training holds out two of the six activities, which decide about refining. Printed for "
        "HHAR, other phones and features: CHiGac ACC .908, DAC .845, NCP .844.",
    ),
    "statistician": statistician,
}  # fmt: skip
