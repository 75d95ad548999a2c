"""Are ``k_posterior_`` and ``membership_`` honest? Over many data sets whose truth is known.

For P(K) the decision is "K is the most probable k", one per data set; for memberships it is a point's label,
right if its cluster is matched to the point's true one (a cluster without a partner is wrong).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration import (
    N_BINS,
    NORMAL_95,
    Figure,
    Record,
    bin_sums,
    figures,
    k_sums,
    membership_brier_score,
    pooled_curve,
    wilson_errors,
)  # fmt: skip
from benchmarks.ours import weights_identity
from benchmarks.page import markdown_table
from benchmarks.pictures import plain_axes, save
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.mixtures import CRP, MOG, draw_crp, draw_mog
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, case_of, generator_of
from clusterwise.metrics import matched_points
from clusterwise.plotting.palette import BASE, QUIET
from clusterwise.priors.base import LabelledSet

__all__ = ["METHODS", "SETTINGS", "SUITES", "record_of"]

FEWEST_SETS = 3  # bins with fewer data sets say nothing and are left out of the picture
SETTINGS: dict[str, Callable[[np.random.Generator], LabelledSet]] = {
    **{f"mog {name}": partial(draw_mog, n_max=n, k_max=k) for name, (n, k) in MOG.items()},
    # Clusters of the printed scale are hopeless: nobody's probabilities mean much there.
    **{
        f"crp {name}": partial(draw_crp, n=n, k=k, scale=scale)
        for name, (n, k, scale) in CRP.items()
        if "printed" not in name
    },
}
KINDS = {"mog": "mixtures of Gaussians", "crp": "CRP mixtures"}  # by the first word of a setting
HOW_TO_READ = f"""\
Figures are means over data sets, or over all their decisions together, ± one standard error over data sets.

- *True k on top*: how often the true number of clusters has the largest probability.
- *ECE*: expected calibration error, {N_BINS} bins of equal width. The decisions are "K is the most probable
  k", one per data set, and the label of each point, right if its cluster is matched to the point's true one.
- *ECE if calibrated*: what a calibrated forecaster that states the same probabilities would score on as
  many data sets, on average and ± its spread. With few data sets it is far from zero.
- *Overconfidence*: mean probability minus share right.
- *Brier*: from 0 (sure and right) to 2 (sure and wrong).

In the picture a dot's area tells the share of decisions in its bin; bars are 95 % intervals over data sets;
bins that fewer than {FEWEST_SETS} data sets reach are left out."""
SUMS = ("bin_counts", "bin_confidence", "bin_right")


def _draw(setting: str, index: int) -> Case:
    rng = generator_of(Word.CALIBRATION, list(SETTINGS).index(setting), index)
    return case_of(SETTINGS[setting](rng), index)


def with_probabilities(name: str, **options: Any) -> Run:
    """An estimator whose ``more`` are its probabilities."""
    import clusterwise

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = getattr(clusterwise, name)(random_state=case.seed, **options).fit(case.points)
            posterior = model.k_posterior_

        def more() -> dict[str, Any]:
            return {"k": posterior, "top": model.probabilities_, "membership": model.membership_}

        return Outcome(model.labels_, more=more)

    return run


def _method(name: str, estimator: str, weights: str | None, **options: Any) -> Method:
    identity = None if weights is None else partial(weights_identity, weights)
    return Method(
        name, partial(with_probabilities, estimator, **options), kind="ours", identity=identity, group="ours"
    )


METHODS = (
    _method("AMCP", "AMCP", "amcp-2d"),
    _method("CHiGac", "CHiGac", "chigac-2d"),
    _method("DAC (anchored)", "DAC", "dac-anchored-2d", filtering="anchored"),
    _method("ACT-ST", "ACTST", "act-st-2d"),
    _method("GaussianSearch", "GaussianSearch", None),
)


def _cells(case: Case, labels: np.ndarray, more: Mapping[str, Any]) -> dict[str, object]:
    (true,) = case.references
    sums = bin_sums(more["top"], matched_points(true, labels))
    return {
        "k_posterior": " ".join(f"{k}:{p!r}" for k, p in more["k"].items()),
        "membership_brier": repr(membership_brier_score(true, more["membership"])),
        **{name: " ".join(f"{v:.10g}" for v in of) for name, of in zip(SUMS, sums, strict=True)},
    }


def record_of(row: Mapping[str, str]) -> Record:
    """What a row says of its data set."""
    pairs = (pair.split(":") for pair in row["k_posterior"].split())
    sums = np.stack([np.array(row[name].split(), dtype=np.float64) for name in SUMS])
    return Record(
        int(float(row["true k"])), {int(k): float(p) for k, p in pairs}, float(row["membership_brier"]), sums
    )


def _cell(figure: Figure) -> str:
    value = f"{figure.value:.3f}".replace("-", "−")
    return value if np.isnan(figure.standard_error) else f"{value} ± {figure.standard_error:.3f}"


def report(rows: Rows, page: Path) -> list[str]:
    """Figures of P(K) and of memberships, and the reliability diagrams."""
    records = {
        (data, method): [record_of(row) for row in rows.of(method, data).good]
        for data in SETTINGS
        for method in rows.names("method")
    }
    records = {pair: of for pair, of in records.items() if of}
    found = {pair: figures(of) for pair, of in records.items()}

    def part(subject: str) -> str:
        every = next(iter(found.values()), {})
        names = [name for name in every if name.startswith("membership") == (subject == "membership")]
        header = ["setting", "method", "sets", *(name.removeprefix(f"{subject} ") for name in names)]
        return markdown_table(
            header,
            [
                [*pair, str(len(records[pair])), *(_cell(values[name]) for name in names)]
                for pair, values in found.items()
            ],
        )

    save(partial(_draw_picture, records), page.with_suffix(".png"))
    parts = [HOW_TO_READ, f"![Reliability]({page.stem}.png)"]
    return [*parts, "## Number of clusters", part("k"), "## Memberships", part("membership")]


def _draw_picture(records: Mapping[tuple[str, str], Sequence[Record]], path: Path) -> None:
    """A column for each method, P(K) above memberships, a colour for each family of data sets."""
    from matplotlib.figure import Figure as Canvas

    methods = list(dict.fromkeys(method for _, method in records))
    canvas = Canvas(figsize=(0.6 + 2.7 * len(methods), 5.8), layout="constrained")
    axes = canvas.subplots(2, len(methods), squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat:
        ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1.2, zorder=0.5)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", xlabel="stated probability")
        plain_axes(ax)
    for column, method in enumerate(methods):
        for (kind, name), colour in zip(KINDS.items(), BASE, strict=False):
            chosen = [
                record
                for (setting, other), of in records.items()
                if other == method and setting.startswith(kind)
                for record in of
            ]
            if chosen:
                _draw_curve(axes[0, column], k_sums(chosen), colour, name, one_per_set=True)
                membership = np.stack([record.membership_sums for record in chosen])
                _draw_curve(axes[1, column], membership, colour, name, one_per_set=False)
        axes[0, column].set_title(method, fontsize=10)
    for ax in axes.flat:
        ax.label_outer()
    axes[0, 0].set_ylabel("k: how often it was so")
    axes[1, 0].set_ylabel("memberships: how often it was so")
    handles, names = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    canvas.savefig(path, dpi=150, format="png")


def _draw_curve(ax: Any, sums: np.ndarray, colour: str, name: str, one_per_set: bool) -> None:
    many = (sums[:, 0] > 0).sum(axis=0) >= FEWEST_SETS
    if not many.any():
        return
    curve, spread = pooled_curve(np.where(many, sums, 0.0))
    if one_per_set:
        errors = wilson_errors(curve.accuracy, curve.counts)
    else:  # no farther than from 0 to 1
        errors = np.minimum(NORMAL_95 * spread, [curve.accuracy, 1 - curve.accuracy])
    x, y = curve.confidence, curve.accuracy
    ax.errorbar(x, y, errors, fmt="none", ecolor=colour, elinewidth=1.2, alpha=0.5)
    ax.plot(x, y, color=colour, linewidth=1.2, label=name)
    ax.scatter(x, y, s=8 + 52 * curve.counts / curve.counts.sum(), color=colour, linewidths=0, zorder=3)


def calibration(quick: bool) -> Suite:
    """The suite."""
    data = [Data(setting, partial(_draw, setting), 5 if quick else 100) for setting in SETTINGS]
    return Suite(
        "Calibration of the number of clusters and of memberships", data, METHODS, report, ("k", "true k"),
        ("k_posterior", "membership_brier", *SUMS), _cells,
    )  # fmt: skip


SUITES = {"calibration": calibration}
