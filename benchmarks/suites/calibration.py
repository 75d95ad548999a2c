"""Are ``k_posterior_`` and ``membership_`` honest? Over many data sets whose truth is known.

For P(K) the decision is "K is the most probable k", one per data set; for memberships it is a point's label,
right if its cluster is matched to the point's true one (a cluster without a partner is wrong). What one
data set contributes are sums over bins of equal width, which add up; standard errors come from leaving out
one data set at a time, since the points of a data set are right or wrong together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.ours import weights_identity
from benchmarks.page import markdown_table
from benchmarks.pictures import plain_axes, save
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.suites.mixtures import CRP, MOG, draw_crp, draw_mog
from benchmarks.summary import Rows, describe
from benchmarks.synthetic import Word, case_of, generator_of
from clusterwise.metrics import matched_points
from clusterwise.partition import canonical_labels
from clusterwise.plotting.palette import BASE, QUIET
from clusterwise.priors.base import LabelledSet

__all__ = ["METHODS", "SETTINGS", "SUITES", "Figure", "Record", "figures", "record_of"]

N_BINS = 10
N_DRAWS = 1000  # of the calibrated forecaster that the error of a real one is compared with
NORMAL_95 = 1.96
FEWEST_SETS = 3  # bins with fewer data sets say nothing and are left out of the picture
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


# -- one data set --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One method on one data set."""

    true_k: int
    k_posterior: dict[int, float]
    membership_brier: float
    membership_sums: np.ndarray  # (3, N_BINS), see ``bin_sums``

    @property
    def top_k(self) -> int:
        """The most probable number of clusters; of equally probable ones the smallest."""
        return min(self.k_posterior, key=lambda k: (-self.k_posterior[k], k))

    @property
    def k_is_right(self) -> bool:
        """Whether the true number of clusters has the top probability."""
        return self.top_k == self.true_k


def bin_sums(confidence: ArrayLike, right: ArrayLike) -> np.ndarray:
    """Return number of decisions, sum of confidences and number right per bin of equal width, (3, N_BINS)."""
    stated = np.clip(np.asarray(confidence, dtype=np.float64), 0.0, 1.0)
    bins = np.minimum((stated * N_BINS).astype(np.int64), N_BINS - 1)
    columns = (np.ones_like(stated), stated, np.asarray(right, dtype=np.float64))
    return np.stack([np.bincount(bins, weights=column, minlength=N_BINS) for column in columns])


def membership_brier_score(y: ArrayLike, membership: ArrayLike) -> float:
    """Return the Brier score of memberships (n, K), clusters matched to the classes y (n,) one to one.

    What is given to a cluster without a partner is wrong, and so is everything that is said about the points
    of a class without a partner. From 0 (sure and right) to 2 (sure and wrong).

    >>> membership_brier_score([0, 0, 1], [[0.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    0.16666666666666666
    """
    stated, true = np.asarray(membership, dtype=np.float64), canonical_labels(y)
    winners = stated.argmax(axis=1)
    found = canonical_labels(winners)  # the order of columns must not decide between equal matchings
    partners = np.full(stated.shape[1], -1, dtype=np.int64)  # a cluster that wins no point has none
    points = matched_points(true, found)  # every cluster with a partner has some
    partners[winners[points]] = true[points]
    right = partners == true[:, None]  # (n, K), at most one True in a row
    without_partner = ~right.any(axis=1)
    return float((np.square(stated - right).sum(axis=1) + without_partner).mean())


def k_brier_score(k_posterior: Mapping[int, float], k: int) -> float:
    """Return the Brier score of P(K) for one data set whose number of clusters is ``k``, from 0 to 2.

    >>> k_brier_score({3: 0.5, 4: 0.5}, 3), k_brier_score({3: 0.5, 4: 0.5}, 7)
    (0.5, 1.5)
    """
    values = {k: 0.0, **k_posterior}
    return sum((probability - (number == k)) ** 2 for number, probability in values.items())


# -- many data sets ------------------------------------------------------------------------------------


class Figure(NamedTuple):
    """A figure over data sets and its standard error."""

    value: float
    standard_error: float

    @property
    def cell(self) -> str:
        """As it is printed."""
        value = f"{self.value:.3f}".replace("-", "−")
        return value if np.isnan(self.standard_error) else f"{value} ± {self.standard_error:.3f}"


def k_sums(records: Sequence[Record]) -> np.ndarray:
    """Bin sums (S, 3, N_BINS) of the events "K is the most probable k", one decision per data set."""
    return np.stack([bin_sums([r.k_posterior[r.top_k]], [r.k_is_right]) for r in records])


def calibration_error(sums: np.ndarray) -> np.ndarray:
    """Expected calibration error of bin sums (..., 3, N_BINS)."""
    counts, confidence, right = np.moveaxis(sums, -2, 0)
    return np.abs(confidence - right).sum(axis=-1) / counts.sum(axis=-1)


def _overconfidence(sums: np.ndarray) -> np.ndarray:
    counts, confidence, right = np.moveaxis(sums, -2, 0)
    return (confidence - right).sum(axis=-1) / counts.sum(axis=-1)


def pooled_curve(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean confidence, share right, count, and standard error of the share, of each bin in use, (bins,).

    A bin's accuracy is a ratio of sums over data sets (S, 3, N_BINS); its error is that of its linearization.
    """
    counts, confidence, right = sums.sum(axis=0)
    used = np.flatnonzero(counts)
    accuracy = right[used] / counts[used]
    residuals = sums[:, 2, used] - accuracy * sums[:, 0, used]
    errors = np.sqrt(np.square(residuals).sum(axis=0)) / counts[used]
    return confidence[used] / counts[used], accuracy, counts[used], errors


def wilson_errors(accuracy: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """95 % interval of each frequency (bins,) of independent decisions, as lengths down and up, (2, bins)."""
    z2 = NORMAL_95**2 / counts
    centre = (accuracy + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * (accuracy * (1 - accuracy) + z2 / 4)) / (1 + z2)
    return np.maximum([accuracy - (centre - half), centre + half - accuracy], 0.0)


def _with_jackknife(sums: np.ndarray, statistic: Callable[[np.ndarray], np.ndarray]) -> Figure:
    """Figure of the pooled sums (S, 3, N_BINS), its error by leaving out one data set at a time."""
    total, n_sets = sums.sum(axis=0), len(sums)
    error = np.sqrt((n_sets - 1) * statistic(total - sums).var()) if n_sets > 1 else np.nan
    return Figure(float(statistic(total)), float(error))


def _error_if_calibrated(sums: np.ndarray) -> Figure:
    """Mean and spread of the error of a calibrated forecaster that states the same confidences."""
    stated = sums[:, 1].sum(axis=1)  # one decision per data set
    right = np.random.default_rng(0).random((N_DRAWS, len(sums), 1)) < stated[:, None]
    counts, confidence = sums[:, 0].sum(axis=0), sums[:, 1].sum(axis=0)
    drawn = (right * sums[:, 0]).sum(axis=1)  # (N_DRAWS, N_BINS)
    errors = np.abs(confidence - drawn).sum(axis=1) / counts.sum()
    return Figure(float(errors.mean()), float(errors.std()))


def _mean(values: Sequence[float]) -> Figure:
    statistic = describe(values)
    return Figure(statistic.mean, statistic.standard_error)


def figures(records: Sequence[Record]) -> dict[str, Figure]:
    """All figures of one method over some data sets, at least one."""
    number = k_sums(records)
    membership = np.stack([r.membership_sums for r in records])
    return {
        "true k on top": _mean([float(r.k_is_right) for r in records]),
        "P(true k)": _mean([r.k_posterior.get(r.true_k, 0.0) for r in records]),
        "k ECE": _with_jackknife(number, calibration_error),
        "k ECE if calibrated": _error_if_calibrated(number),
        "k overconfidence": _with_jackknife(number, _overconfidence),
        "k Brier": _mean([k_brier_score(r.k_posterior, r.true_k) for r in records]),
        "membership ECE": _with_jackknife(membership, calibration_error),
        "membership overconfidence": _with_jackknife(membership, _overconfidence),
        "membership Brier": _mean([r.membership_brier for r in records]),
    }


# -- rows ----------------------------------------------------------------------------------------------

SUMS = ("bin_counts", "bin_confidence", "bin_right")
KINDS = {"mog": "mixtures of Gaussians", "crp": "CRP mixtures"}  # by the first word of a setting
SETTINGS: dict[str, Callable[[np.random.Generator], LabelledSet]] = {
    **{f"mog {name}": partial(draw_mog, n_max=n, k_max=k) for name, (n, k) in MOG.items()},
    # Clusters of the printed scale are hopeless: no probabilities mean much there.
    **{
        f"crp {name}": partial(draw_crp, n=n, k=k, scale=scale)
        for name, (n, k, scale) in CRP.items()
        if "printed" not in name
    },
}


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
            found = {"k": model.k_posterior_, "top": model.probabilities_}
        return Outcome(model.labels_, more=lambda: {**found, "membership": model.membership_})

    return run


def _method(name: str, estimator: str, weights: str | None, **options: Any) -> Method:
    identity = None if weights is None else partial(weights_identity, weights)
    build = partial(with_probabilities, estimator, **options)
    return Method(name, build, kind="ours", identity=identity, group="ours")


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
    posterior = {int(k): float(p) for k, p in pairs}
    sums = np.stack([np.array(row[name].split(), dtype=np.float64) for name in SUMS])
    return Record(int(float(row["true k"])), posterior, float(row["membership_brier"]), sums)


# -- the page ------------------------------------------------------------------------------------------


def report(rows: Rows, page: Path) -> list[str]:
    """Figures of P(K) and of memberships, and the reliability diagrams."""
    records = {
        (data, method): of
        for data in SETTINGS
        for method in rows.names("method")
        if (of := [record_of(row) for row in rows.of(method, data).good])
    }
    found = {pair: figures(of) for pair, of in records.items()}

    def part(subject: str) -> str:
        every = next(iter(found.values()), {})
        names = [name for name in every if name.startswith("membership") == (subject == "membership")]
        header = ["setting", "method", "sets", *(name.removeprefix(f"{subject} ") for name in names)]
        lines = [
            [*pair, str(len(records[pair])), *(of[name].cell for name in names)] for pair, of in found.items()
        ]
        return markdown_table(header, lines)

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
    x, y, counts, spread = pooled_curve(np.where(many, sums, 0.0))
    # Intervals of memberships reach no farther than from 0 to 1.
    errors = wilson_errors(y, counts) if one_per_set else np.minimum(NORMAL_95 * spread, [y, 1 - y])
    ax.errorbar(x, y, errors, fmt="none", ecolor=colour, elinewidth=1.2, alpha=0.5)
    ax.plot(x, y, color=colour, linewidth=1.2, label=name)
    ax.scatter(x, y, s=8 + 52 * counts / counts.sum(), color=colour, linewidths=0, zorder=3)


def calibration(quick: bool) -> Suite:
    """The suite."""
    data = [Data(setting, partial(_draw, setting), 5 if quick else 100) for setting in SETTINGS]
    return Suite(
        "Calibration of the number of clusters and of memberships", data, METHODS, report, ("k", "true k"),
        ("k_posterior", "membership_brier", *SUMS), _cells,
    )  # fmt: skip


SUITES = {"calibration": calibration}
