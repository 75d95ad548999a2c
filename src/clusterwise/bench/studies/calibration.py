"""Are ``k_posterior_`` and ``membership_`` honest? Over many data sets whose truth is known.

For P(K) the decision is "K is the most probable k", one per data set; for memberships it is a point's
label, right if its cluster is matched to the point's true one (a cluster without a partner is wrong).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.benchmarks import crp, mog
from clusterwise.bench.calibration_metrics import membership_brier_score
from clusterwise.bench.methods.amortized import weights_identity
from clusterwise.bench.progress import Progress
from clusterwise.bench.registry import BenchmarkError, Study, register
from clusterwise.bench.reliability import N_BINS, Figure, Record, bin_sums, figures, k_sums, pooled_curve
from clusterwise.bench.reliability_display import ReliabilityDisplay, wilson_errors
from clusterwise.bench.rows import RowFile, write_csv
from clusterwise.bench.synthetic import Word, generator_of
from clusterwise.bench.table import markdown_table
from clusterwise.bench.worker import one_line
from clusterwise.metrics import matched_points
from clusterwise.plotting.palette import BASE
from clusterwise.priors.base import LabelledSet

__all__ = ["FAMILIES", "METHODS", "SETTINGS", "Candidate", "draw", "run"]

TITLE = "Calibration of the number of clusters and of memberships"
N_SETS, QUICK_N_SETS = 100, 10
# Bins with fewer data sets than this say nothing and are left out of the picture.
FEWEST_SETS = 3

Draw = Callable[[np.random.Generator], LabelledSet]


def _mog(n_max: int, k_max: int) -> Draw:
    return lambda rng: mog.draw_mixture(rng, n_max, k_max)


def _crp(n: int, k: int, scale: str) -> Draw:
    return lambda rng: crp.draw_mixture(rng, n, k, scale)


SETTINGS: dict[str, Draw] = {
    **{f"mog {name}": _mog(*options) for name, options in mog.SETTINGS.items()},
    # Clusters of the printed scale are hopeless: nobody's probabilities mean much there.
    **{f"crp {name}": _crp(*options) for name, options in crp.SETTINGS.items() if "printed" not in name},
}
FAMILIES = {"mog": "mixtures of Gaussians", "crp": "CRP mixtures"}  # by the first word of a setting

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


@dataclass(frozen=True)
class Candidate:
    """An estimator with a posterior over k, and the shipped weights that it takes by default, if any."""

    name: str
    estimator: str
    weights: str | None
    options: dict[str, Any] = field(default_factory=dict)

    def is_there(self) -> bool:
        """Whether this build has the estimator and its weights."""
        import clusterwise

        return self.weights is None or self.weights in clusterwise.list_weights()

    def identity(self) -> str:
        """What its figures depend on besides the data."""
        import clusterwise

        if self.weights is None:
            return f"clusterwise {clusterwise.__version__}"
        return weights_identity(self.weights)

    def build(self, seed: int) -> Any:
        """Return the estimator, not fitted."""
        import clusterwise

        return getattr(clusterwise, self.estimator)(**self.options, random_state=seed)


METHODS = (
    Candidate("AMCP", "AMCP", "amcp-2d"),
    Candidate("CHiGac", "CHiGac", "chigac-2d"),
    Candidate("DAC (anchored)", "DAC", "dac-anchored-2d", {"filtering": "anchored"}),
    Candidate("ACT-ST", "ACTST", "act-st-2d"),
    Candidate("GaussianSearch", "GaussianSearch", None),
)

COLUMNS = (
    "setting", "index", "method", "weights", "status", "seconds", "n_points", "true_k", "n_clusters",
    "k_posterior", "membership_brier", "bin_counts", "bin_confidence", "bin_right",
)  # fmt: skip


def draw(setting: str, index: int) -> LabelledSet:
    """Draw test set ``index`` of a setting."""
    rng = generator_of(Word.CALIBRATION, list(SETTINGS).index(setting), index)
    return SETTINGS[setting](rng)


def _joined(values: np.ndarray) -> str:
    return " ".join(f"{value:.10g}" for value in values)


def _measure(candidate: Candidate, drawn: LabelledSet, index: int) -> dict[str, object]:
    """Cells of one method on one data set; an error is a status."""
    row: dict[str, object] = dict.fromkeys(COLUMNS, "")
    row |= {"n_points": len(drawn.points), "true_k": drawn.n_clusters}
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimator = candidate.build(index).fit(drawn.points)
            posterior = estimator.k_posterior_
        seconds = time.perf_counter() - begin
        right = matched_points(drawn.labels, estimator.labels_)
        sums = bin_sums(estimator.probabilities_, right)
        return row | {
            "status": "ok",
            "seconds": f"{seconds:.4g}",
            "n_clusters": estimator.n_clusters_,
            "k_posterior": " ".join(f"{k}:{p!r}" for k, p in posterior.items()),
            "membership_brier": repr(membership_brier_score(drawn.labels, estimator.membership_)),
            **dict(zip(("bin_counts", "bin_confidence", "bin_right"), map(_joined, sums), strict=True)),
        }
    except Exception as error:  # whatever a method raises is its result
        return row | {"status": one_line(error), "seconds": f"{time.perf_counter() - begin:.4g}"}


def _record(row: dict[str, str]) -> Record:
    pairs = (pair.split(":") for pair in row["k_posterior"].split())
    sums = [np.array(row[name].split(), dtype=np.float64) for name in COLUMNS[-3:]]
    return Record(
        int(row["true_k"]),
        {int(k): float(p) for k, p in pairs},
        float(row["membership_brier"]),
        np.stack(sums).reshape(3, N_BINS),
    )


def run(
    out: Path, quick: bool, write: Callable[[str], object], methods: Sequence[Candidate] = METHODS
) -> Path:
    """Measure, then write ``calibration.csv``, ``.md`` and ``.png`` from ``calibration.raw.csv``."""
    present = [method for method in methods if method.is_there()]
    for method in methods:
        if method not in present:
            write(f"calibration: no {method.name}, its weights {method.weights} are not shipped")
    if not present:
        raise BenchmarkError("No method with a posterior over k has its weights in this build; train some.")
    identities = {method.name: method.identity() for method in present}

    def is_current(row: dict[str, str]) -> bool:
        return row["status"] == "ok" and identities.get(row["method"], row["weights"]) == row["weights"]

    rows = RowFile(out / "calibration.raw.csv", COLUMNS, 3, is_current)
    if rows.n_dropped:
        write(f"calibration: {rows.n_dropped} rows of other weights or with errors are measured again")
    n_sets = QUICK_N_SETS if quick else N_SETS
    progress = Progress("calibration", n_sets * len(SETTINGS), write)
    for done, (index, setting) in enumerate(((i, s) for i in range(n_sets) for s in SETTINGS), start=1):
        missing = [method for method in present if (setting, index, method.name) not in rows]
        drawn = draw(setting, index) if missing else None
        for method in missing:
            assert drawn is not None
            key = {"setting": setting, "index": index, "method": method.name}
            row = _measure(method, drawn, index) | key | {"weights": identities[method.name]}
            rows.add(row)
            if row["status"] != "ok":
                write(f"calibration: {method.name}, {setting}, {index}: {row['status']}")
        progress.step(done, bool(missing))
    page = _publish(out, rows.finish(), [method.name for method in methods])
    write(f"calibration: raw rows in {rows.path}, page in {page}, picture in {page.with_suffix('.png')}")
    return page


Records = dict[tuple[str, str], list[Record]]  # by setting and method


def _publish(out: Path, rows: Sequence[dict[str, str]], methods: Sequence[str]) -> Path:
    records: Records = {}
    for row in rows:
        if row["status"] == "ok":
            records.setdefault((row["setting"], row["method"]), []).append(_record(row))
    pairs = [(setting, method) for setting in SETTINGS for method in methods if (setting, method) in records]
    if not pairs:
        raise BenchmarkError("Every method failed on every data set; see the statuses above.")
    table = {pair: figures(records[pair]) for pair in pairs}
    write_csv(
        out / "calibration.csv",
        ("setting", "method", "figure", "value", "standard_error", "n_sets"),
        (
            (*pair, name, f"{figure.value:.6g}", f"{figure.standard_error:.3g}", len(records[pair]))
            for pair in pairs
            for name, figure in table[pair].items()
        ),
    )
    picture, page = out / "calibration.png", out / "calibration.md"
    with whole_or_nothing(picture) as temporary:
        _draw_picture(records, [m for m in methods if any(m == method for _, method in pairs)], temporary)
    with whole_or_nothing(page) as temporary:
        temporary.write_text(_page(table, records, rows), encoding="utf-8")
    return page


def _cell(figure: Figure) -> str:
    value = f"{figure.value:.3f}".replace("-", "−")
    return value if np.isnan(figure.standard_error) else f"{value} ± {figure.standard_error:.3f}"


def _page(
    table: dict[tuple[str, str], dict[str, Figure]], records: Records, rows: Sequence[dict[str, str]]
) -> str:
    def part(subject: str) -> str:
        every = next(iter(table.values()))
        names = [name for name in every if name.startswith("membership") == (subject == "membership")]
        header = ["setting", "method", "sets", *(name.removeprefix(f"{subject} ") for name in names)]
        return markdown_table(
            header,
            (
                [*pair, str(len(records[pair])), *(_cell(values[name]) for name in names)]
                for pair, values in table.items()
            ),
        )

    weights = sorted({f"{row['method']}: {row['weights']}" for row in rows})
    parts = [f"# {TITLE}", HOW_TO_READ, f"![{TITLE}](calibration.png)"]
    parts += ["## Number of clusters", part("k"), "## Memberships", part("membership")]
    parts += ["## Weights", "\n".join(f"- {line}" for line in weights)]
    return "\n\n".join(parts) + "\n"


def _draw_picture(records: Records, methods: Sequence[str], path: Path) -> None:
    """A column for each method, P(K) above memberships, a colour for each family of data sets."""
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(0.6 + 2.7 * len(methods), 5.8), layout="constrained")
    axes = canvas.subplots(2, len(methods), squeeze=False, sharex=True, sharey=True)
    for column, method in enumerate(methods):
        for (family, name), colour in zip(FAMILIES.items(), BASE, strict=False):
            chosen = [
                record
                for (setting, other), of_pair in records.items()
                if other == method and setting.startswith(family)
                for record in of_pair
            ]
            if not chosen:
                continue
            _draw_curve(axes[0, column], k_sums(chosen), colour, name, one_per_set=True)
            membership = np.stack([record.membership_sums for record in chosen])
            _draw_curve(axes[1, column], membership, colour, name, one_per_set=False)
        axes[0, column].set_title(method, fontsize=10)
    for ax in axes.flat:
        ax.label_outer()
    axes[0, 0].set_ylabel("k: how often it was so")
    axes[1, 0].set_ylabel("memberships: how often it was so")
    handles, names = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=9)
    for ax in axes.flat:
        if (legend := ax.get_legend()) is not None:  # one for all
            legend.remove()
    canvas.savefig(path, dpi=150)


def _draw_curve(ax: Any, sums: np.ndarray, colour: str, name: str, one_per_set: bool) -> None:
    many = (sums[:, 0] > 0).sum(axis=0) >= FEWEST_SETS
    if not many.any():
        return
    curve, spread = pooled_curve(np.where(many, sums, 0.0))
    if one_per_set:
        errors = wilson_errors(curve.accuracy, curve.counts)
    else:  # no farther than from 0 to 1
        errors = np.minimum(1.96 * spread, [curve.accuracy, 1 - curve.accuracy])
    ReliabilityDisplay(curve, errors=errors, name=name).plot(ax, colour=colour)


register(Study("calibration", TITLE, run))
