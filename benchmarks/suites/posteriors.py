"""NCP's posterior over partitions compared with that of a Markov chain, on small CRP mixtures.

The data come from NCP's own generative model. A DPMixture that is told the model (alpha, the spread of the
means, the width of the clusters) samples the true posterior, up to Monte-Carlo error. NCP does not know the
scale of the data, and neither does a DPMixture that infers its hyper-parameters: it stands beside NCP.
"""

from __future__ import annotations

import base64
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ours import weights_identity
from benchmarks.page import markdown_table, plus_minus, significant
from benchmarks.pictures import save
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows, describe
from benchmarks.synthetic import Word, case_of, generator_of
from clusterwise.plotting.palette import BASE, QUIET
from clusterwise.priors.crp import ChineseRestaurantMixture

__all__ = ["SIZES", "SUITES", "Compared", "Forecast", "figures_of", "packed", "total_variation", "unpacked"]

SIZES = (10, 20, 30, 50)
ALPHA, MEAN_SD, SD = 0.7, 10.0, 1.0
N_WARM_UP, N_DRAWS, N_PARTITIONS = 60, 300, 600
# The chains run one by one, so that the two halves of the true posterior can be compared.
CHAINS = ("known model, first chain", "known model, second chain")
INFERRED, NCP = "inferred", "NCP"
NAMES = {"known": "DPMixture, told the model", INFERRED: "DPMixture, defaults", NCP: "NCP"}
COLOURS = {INFERRED: BASE[1], NCP: BASE[0]}
HOW_TO_READ = f"""\
Data from NCP's own model in the plane: CRP with alpha = {ALPHA}, means with standard deviation {MEAN_SD:.0f},
round clusters with standard deviation {SD:.0f}. Mean ± standard error over data sets.

- *DPMixture, told the model* has round clusters and all hyper-parameters fixed at the truth, two chains of
  {N_DRAWS} draws after {N_WARM_UP} steps: the true posterior, up to Monte-Carlo error.
- *DPMixture, defaults* has round clusters and infers everything else, as many draws.
- *NCP*: {N_PARTITIONS} partitions, each in an order of its own. Like the second it does not know the scale of
  the data: its input is brought to unit spread.
- *TV*: total variation distance of P(K) from the true posterior's, from 0 to 1. *Pairs*: mean absolute
  difference of the probability that two points share a cluster. *Chain to chain* is the same between the two
  halves of the true posterior: what lies below it is noise.
- *P(true K)*: probability of the number of clusters that the data were drawn with. *Brier of pairs*: mean
  square of the probability that two points share a cluster minus whether they do. Nobody can be better than
  the true posterior on average, in either.

In the picture: all pairs of points, and mean numbers of clusters, one dot for each data set."""


def _draw(n: int, index: int) -> Case:
    prior = ChineseRestaurantMixture(alpha=ALPHA, mean_sd=MEAN_SD, sd=SD)
    return case_of(prior.draw_set(generator_of(Word.POSTERIORS, n, index), n), index)


# -- measuring -----------------------------------------------------------------------------------------


def _more(k_posterior: Mapping[int, float], partitions: Any, n: int) -> dict[str, Any]:
    together = np.round(partitions.coclustering()[np.triu_indices(n, 1)] * partitions.n_samples)
    return {"k": dict(k_posterior), "n": partitions.n_samples, "together": together}


def chain(told: bool, n_chains: int, offset: int = 0) -> Run:
    """A DPMixture with round clusters, which may be told the model of the data."""
    from clusterwise.estimators import DPMixture

    truth: dict[str, Any] = {
        "alpha": ALPHA,
        "mean_prior": np.zeros(2),
        "mean_precision_prior": (SD / MEAN_SD) ** 2,
        "degrees_of_freedom_prior": 1e6,  # all clusters have the same width
        "covariance_prior": SD**2,
    }

    def run(case: Case) -> Outcome:
        model = DPMixture(
            covariance_type="spherical", n_chains=n_chains, n_warm_up=N_WARM_UP, n_draws=N_DRAWS,
            random_state=2 * case.seed + offset if told else case.seed, **(truth if told else {}),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(case.points)
        partitions = model.sample_partitions(200)
        return Outcome(model.labels_, more=lambda: _more(model.k_posterior_, partitions, len(case.points)))

    return run


def network(weights: str = "ncp-2d") -> Run:
    """NCP's own draws."""
    from clusterwise.estimators import NCP as Estimator

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Estimator(weights=weights, refine=None, random_state=case.seed).fit(case.points)
            partitions = model.sample_partitions(N_PARTITIONS)
        return Outcome(
            model.labels_, more=lambda: _more(partitions.k_posterior, partitions, len(case.points))
        )

    return run


def packed(counts: np.ndarray) -> str:
    """Small whole numbers as one cell: nearly all are 0 or the number of partitions."""
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode()


def unpacked(cell: str) -> np.ndarray:
    """The numbers in a cell."""
    return np.frombuffer(zlib.decompress(base64.b64decode(cell)), dtype="<u2").astype(np.float64)


def _cells(case: Case, labels: np.ndarray, more: Mapping[str, Any]) -> dict[str, object]:
    k_posterior = " ".join(f"{k}:{p:.6g}" for k, p in more["k"].items())
    return {"k_posterior": k_posterior, "n_partitions": more["n"], "pairs": packed(more["together"])}


# -- from rows to figures ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Forecast:
    """What one posterior says of one data set."""

    k_posterior: dict[int, float]
    pairs: np.ndarray  # (n (n - 1) / 2,) probability that two points share a cluster, upper triangle by rows
    seconds: float

    @property
    def mean_k(self) -> float:
        """Expected number of clusters."""
        return sum(k * p for k, p in self.k_posterior.items())


@dataclass(frozen=True)
class Compared:
    """All posteriors of one data set."""

    case: Case
    chains: tuple[Forecast, Forecast]  # the two halves of the true posterior
    forecasts: dict[str, Forecast]  # by the keys of NAMES

    @property
    def true_k(self) -> int:
        """Number of clusters that the data were drawn with."""
        return len(np.unique(self.case.references[0]))

    @property
    def together(self) -> np.ndarray:
        """Like ``Forecast.pairs``: whether two points share a cluster."""
        labels = self.case.references[0]
        return (labels[:, None] == labels)[np.triu_indices(len(labels), 1)]


def total_variation(first: Mapping[int, float], second: Mapping[int, float]) -> float:
    """Total variation distance of two distributions over k.

    >>> total_variation({1: 0.5, 2: 0.5}, {2: 0.5, 3: 0.5})
    0.5
    """
    return sum(abs(first.get(k, 0.0) - second.get(k, 0.0)) for k in first.keys() | second.keys()) / 2


def _forecast(row: Mapping[str, str]) -> Forecast:
    pairs = (pair.split(":") for pair in row["k_posterior"].split())
    together = unpacked(row["pairs"]) / int(row["n_partitions"])
    return Forecast({int(k): float(p) for k, p in pairs}, together, float(row["seconds"]))


def _mean_forecast(first: Forecast, second: Forecast) -> Forecast:
    """Two chains together."""
    ks = sorted(first.k_posterior.keys() | second.k_posterior.keys())
    k_posterior = {k: (first.k_posterior.get(k, 0.0) + second.k_posterior.get(k, 0.0)) / 2 for k in ks}
    return Forecast(k_posterior, (first.pairs + second.pairs) / 2, first.seconds + second.seconds)


def _compared(rows: Rows) -> list[Compared]:
    """All data sets that every posterior knows."""
    by_key = {(row["data"], int(row["index"]), row["method"]): row for row in rows.good}
    found = []
    for n in SIZES:
        for index in sorted({index for data, index, _ in by_key if data == f"N = {n}"}):
            of = [by_key.get((f"N = {n}", index, name)) for name in (*CHAINS, INFERRED, NCP)]
            if all(row is not None for row in of):
                first, second, inferred, network = (_forecast(row) for row in of if row is not None)
                forecasts = {"known": _mean_forecast(first, second), INFERRED: inferred, NCP: network}
                found.append(Compared(_draw(n, index), (first, second), forecasts))
    return found


def figures_of(compared: Compared) -> dict[str, float]:
    """All figures of one data set."""
    known = compared.forecasts["known"]
    others = {"floor": compared.chains}
    others |= {name: (known, compared.forecasts[name]) for name in (INFERRED, NCP)}
    figures: dict[str, float] = {"true_k": compared.true_k}
    for name, (a, b) in others.items():
        figures[f"tv_{name}"] = total_variation(a.k_posterior, b.k_posterior)
        figures[f"pairs_{name}"] = float(np.abs(a.pairs - b.pairs).mean())
    for name, forecast in compared.forecasts.items():
        figures[f"p_true_k_{name}"] = forecast.k_posterior.get(compared.true_k, 0.0)
        figures[f"brier_{name}"] = float(np.square(forecast.pairs - compared.together).mean())
        figures[f"mean_k_{name}"] = forecast.mean_k
        figures[f"seconds_{name}"] = forecast.seconds
    return figures


def report(rows: Rows, page: Path) -> list[str]:
    """Distances from the true posterior, and from the truth."""
    compared = _compared(rows)
    if not compared:
        return [HOW_TO_READ, "No data set has all its posteriors."]
    by_size: dict[int, list[dict[str, float]]] = {}
    for one in compared:
        by_size.setdefault(len(one.case.points), []).append(figures_of(one))

    def cell(n: int, name: str, digits: int = 3) -> str:
        return plus_minus(describe(of[name] for of in by_size[n]), digits)

    others = {"floor": "chain to chain", INFERRED: "DPMixture, defaults", NCP: "NCP"}
    header = ["N", "sets", *(f"{what}, {name}" for what in ("TV", "pairs") for name in others.values())]
    names = [f"{what}_{other}" for what in ("tv", "pairs") for other in others]
    distances = [[str(n), str(len(of)), *(cell(n, name) for name in names)] for n, of in by_size.items()]
    truths = [
        [str(n), name, cell(n, f"p_true_k_{key}"), cell(n, f"brier_{key}", 4), cell(n, "true_k", 2),
         cell(n, f"mean_k_{key}", 2), significant(describe(one[f"seconds_{key}"] for one in of).median)]
        for n, of in by_size.items()
        for key, name in NAMES.items()
    ]  # fmt: skip
    second = ["N", "posterior", "P(true K)", "Brier of pairs", "true K", "mean K", "seconds, median"]
    save(partial(_draw_posteriors, compared), page.with_suffix(".png"))
    parts = [HOW_TO_READ, f"![Posteriors]({page.stem}.png)"]
    parts += ["## Distance from the true posterior", markdown_table(header, distances)]
    return [*parts, "## Against the partition that the data were drawn from", markdown_table(second, truths)]


# -- the picture ---------------------------------------------------------------------------------------


def _draw_posteriors(compared: Sequence[Compared], path: Path) -> None:
    """All pairs of points, and mean numbers of clusters."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    pairs = {name: np.concatenate([one.forecasts[name].pairs for one in compared]) for name in ("known", NCP)}
    cells = left.hexbin(
        pairs["known"], pairs[NCP], gridsize=24, bins="log", mincnt=1, extent=(0, 1, 0, 1), cmap="Blues",
        linewidths=0.2,
    )  # fmt: skip
    left.plot([0, 1], [0, 1], color=BASE[5], linewidth=1)
    figure.colorbar(cells, ax=left, label="pairs of points", shrink=0.8)
    left.set(aspect="equal", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="true posterior", ylabel="NCP")
    left.set_title("Two points share a cluster", fontsize=10, loc="left")
    mean_k = {name: [one.forecasts[name].mean_k for one in compared] for name in NAMES}
    for name, marker in ((INFERRED, "^"), (NCP, "o")):
        right.plot(
            mean_k["known"], mean_k[name], marker, color=COLOURS[name], ms=4.5, alpha=0.7, label=NAMES[name]
        )
    top = max(map(max, mean_k.values())) + 0.5
    right.plot([0.7, top], [0.7, top], color=QUIET, linewidth=1.2, zorder=0.5)
    right.set(aspect="equal", xlabel="true posterior")
    right.set_title("Mean number of clusters", fontsize=10, loc="left")
    right.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(path, dpi=150, format="png")


def posteriors(quick: bool) -> Suite:
    """The suite."""
    methods = [
        *(
            Method(name, partial(chain, True, 1, place), kind="ours", group="chains")
            for place, name in enumerate(CHAINS)
        ),
        Method(INFERRED, partial(chain, False, 2), kind="ours", group="chains"),
        Method(NCP, network, kind="ours", identity=partial(weights_identity, "ncp-2d")),
    ]  # fmt: skip
    data = [Data(f"N = {n}", partial(_draw, n), 2 if quick else 16) for n in SIZES]
    return Suite(
        "NCP's posterior compared with that of a Markov chain", data, methods, report, ("k", "true k"),
        ("k_posterior", "n_partitions", "pairs"), _cells,
    )  # fmt: skip


SUITES = {"posteriors": posteriors}
