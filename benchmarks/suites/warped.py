"""Bent clusters: the warped Gaussians of DAC's App. D, and DAC with a flow as the density of a cluster."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.comparison import Comparison
from benchmarks.ours import Family, alone, ours, untrained_alone
from benchmarks.page import markdown_table
from benchmarks.peers import PEERS, REFERENCES
from benchmarks.suite import Case, Data, Suite
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, case_of, generator_of
from clusterwise.priors.warped import WarpedGaussians

__all__ = ["SETTINGS", "SUITES", "warped_case"]

METRICS = ("ARI", "NMI (geometric)", "NMI (arithmetic)", "k error", "log-likelihood")
SETTINGS = {"(1000, 4)": (1000, 4), "(3000, 12)": (3000, 12)}  # n_max, k_max
FLOWS = Family("DAC with flows", "DAC", "dac-warped-2d")
# Table 6 of the paper, as far as it can be read: log-likelihood, ARI, NMI, error in k.
PRINTED = {
    "(1000, 4)": {"spectral": ("–", "–", "0.889", "–"), "DAC": ("−1.275", "–", "0.970", "–")},
    "(3000, 12)": {"spectral": ("–", "0.592", "–", "–"), "DAC": ("−2.436", "0.923", "–", "1.345")},
}
TABLE_6 = "## Printed in the paper"
ABOUT_TABLE_6 = """\
For orientation; the paper's network was trained on k up to 4, on a GPU, for 20,000 steps, and its data sets
are others of the same kind. Spectral clustering was told the number of clusters, here as there."""


def warped_case(setting: str, index: int) -> Case:
    """Test set ``index``: n is uniform between 0.3 n_max and n_max."""
    n_max, k_max = SETTINGS[setting]
    rng = generator_of(Word.WARPED, n_max, k_max, index)
    n = int(rng.integers(math.ceil(0.3 * n_max), n_max, endpoint=True))
    return case_of(WarpedGaussians(k_max=k_max).draw_set(rng, n), index)


def warped(quick: bool) -> Suite:
    """The test sets of DAC's Table 6."""
    title = "Warped Gaussians, test sets of DAC by (n_max, k_max)"
    data = [Data(name, partial(warped_case, name), 3 if quick else 100) for name in SETTINGS]
    methods = [
        REFERENCES["oracle"],
        ours(FLOWS.name, "DAC", weights=FLOWS.weights),
        FLOWS.entry(alone(FLOWS.name), None),
        replace(FLOWS.entry(untrained_alone(FLOWS.name), None, trained=False), max_sets=5),
        replace(ours("DAC, Gaussians + search", "DAC"), max_sets=12),  # it takes long to cut arcs to pieces
        ours("Clusterer"),
        PEERS["HDBSCAN"],
        PEERS["HDBSCAN, noise to nearest"],
        REFERENCES["spectral clustering (true k)"],
        REFERENCES["k-means (true k)"],
    ]
    comparison = Comparison(methods, METRICS, reference="spectral clustering (true k)")

    def report(rows: Rows, page: Path) -> list[str]:
        lines = [
            [setting, method, *figures] for setting, of in PRINTED.items() for method, figures in of.items()
        ]
        header = ["setting", "method", "log-likelihood", "ARI", "NMI", "error in k"]
        return [*comparison(rows, page), TABLE_6, ABOUT_TABLE_6, markdown_table(header, lines)]

    return Suite(title, data, methods, report, METRICS)


SUITES = {"warped": warped}
