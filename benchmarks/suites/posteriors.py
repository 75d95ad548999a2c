"""NCP's posterior over partitions compared with that of a Markov chain, on small CRP mixtures.

The data come from NCP's own generative model. A DPMixture that is told the model (alpha, the spread of the
means, the width of the clusters) samples the true posterior, up to Monte-Carlo error. NCP does not know the
scale of the data, and neither does a DPMixture that infers its hyper-parameters: it stands beside NCP.
"""

from __future__ import annotations

import base64
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
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

__all__ = [
    "SIZES",
    "SUITES",
    "Forecast",
    "figures_of",
    "forecast_of",
    "packed",
    "total_variation",
    "unpacked",
]

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


def packed(counts: np.ndarray) -> str:
    """Small whole numbers as one cell: nearly all are 0 or the number of partitions."""
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode()


def unpacked(cell: str) -> np.ndarray:
    """The numbers in a cell."""
    return np.frombuffer(zlib.decompress(base64.b64decode(cell)), dtype="<u2").astype(np.float64)


def _outcome(labels: np.ndarray, k_posterior: Mapping[int, float], partitions: Any) -> Outcome:
    def more() -> dict[str, Any]:
        together = partitions.coclustering()[np.triu_indices(len(labels), 1)]
        return {
            "k_posterior": " ".join(f"{k}:{p:.6g}" for k, p in k_posterior.items()),
            "n_partitions": partitions.n_samples,
            "pairs": packed(np.round(together * partitions.n_samples)),
        }

    return Outcome(labels, more=more)


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
        return _outcome(model.labels_, model.k_posterior_, model.sample_partitions(200))

    return run


def network(weights: str = "ncp-2d") -> Run:
    """NCP's own draws."""
    from clusterwise.estimators import NCP as Estimator

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Estimator(weights=weights, refine=None, random_state=case.seed).fit(case.points)
            partitions = model.sample_partitions(N_PARTITIONS)
        return _outcome(model.labels_, partitions.k_posterior, partitions)

    return run


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

    def merged(self, other: Forecast) -> Forecast:
        """Two chains together."""
        ks = sorted(self.k_posterior.keys() | other.k_posterior.keys())
        both = {k: (self.k_posterior.get(k, 0.0) + other.k_posterior.get(k, 0.0)) / 2 for k in ks}
        return Forecast(both, (self.pairs + other.pairs) / 2, self.seconds + other.seconds)


def forecast_of(row: Mapping[str, str]) -> Forecast:
    """What a row says of its data set."""
    pairs = (pair.split(":") for pair in row["k_posterior"].split())
    together = unpacked(row["pairs"]) / int(row["n_partitions"])
    return Forecast({int(k): float(p) for k, p in pairs}, together, float(row["seconds"]))


Compared = tuple[Case, dict[str, Forecast]]  # a data set, and all posteriors of it by method and by NAMES


def _compared(rows: Rows) -> Iterator[Compared]:
    """All data sets that every posterior knows."""
    for n in SIZES:
        of_size = rows.of(data=f"N = {n}").good
        for index in sorted(map(int, of_size.names("index"))):
            found = {row["method"]: forecast_of(row) for row in of_size.of(index=str(index))}
            if all(name in found for name in (*CHAINS, INFERRED, NCP)):
                found["known"] = found[CHAINS[0]].merged(found[CHAINS[1]])
                yield _draw(n, index), found


def total_variation(first: Mapping[int, float], second: Mapping[int, float]) -> float:
    """Total variation distance of two distributions over k.

    >>> total_variation({1: 0.5, 2: 0.5}, {2: 0.5, 3: 0.5})
    0.5
    """
    return sum(abs(first.get(k, 0.0) - second.get(k, 0.0)) for k in first.keys() | second.keys()) / 2


def figures_of(case: Case, forecasts: Mapping[str, Forecast]) -> dict[str, float]:
    """All figures of one data set."""
    (labels,) = case.references
    true_k, together = len(np.unique(labels)), (labels[:, None] == labels)[np.triu_indices(len(labels), 1)]
    figures: dict[str, float] = {"true_k": true_k}
    for name, pair in {"floor": CHAINS, INFERRED: ("known", INFERRED), NCP: ("known", NCP)}.items():
        a, b = (forecasts[one] for one in pair)
        figures[f"tv_{name}"] = total_variation(a.k_posterior, b.k_posterior)
        figures[f"pairs_{name}"] = float(np.abs(a.pairs - b.pairs).mean())
    for name in NAMES:
        forecast = forecasts[name]
        figures[f"p_true_k_{name}"] = forecast.k_posterior.get(true_k, 0.0)
        figures[f"brier_{name}"] = float(np.square(forecast.pairs - together).mean())
        figures[f"mean_k_{name}"] = forecast.mean_k
        figures[f"seconds_{name}"] = forecast.seconds
    return figures


def report(rows: Rows, page: Path) -> list[str]:
    """Distances from the true posterior, and from the truth."""
    compared = list(_compared(rows))
    if not compared:
        return [HOW_TO_READ, "No data set has all its posteriors."]
    by_size: dict[int, list[dict[str, float]]] = {}
    for case, forecasts in compared:
        by_size.setdefault(len(case.points), []).append(figures_of(case, forecasts))

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
    save(partial(_draw_posteriors, [forecasts for _, forecasts in compared]), page.with_suffix(".png"))
    parts = [HOW_TO_READ, f"![Posteriors]({page.stem}.png)"]
    parts += ["## Distance from the true posterior", markdown_table(header, distances)]
    return [*parts, "## Against the partition that the data were drawn from", markdown_table(second, truths)]


# -- the picture ---------------------------------------------------------------------------------------


def _draw_posteriors(compared: Sequence[Mapping[str, Forecast]], path: Path) -> None:
    """All pairs of points, and mean numbers of clusters."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    pairs = {name: np.concatenate([one[name].pairs for one in compared]) for name in ("known", NCP)}
    cells = left.hexbin(
        pairs["known"], pairs[NCP], gridsize=24, bins="log", mincnt=1, extent=(0, 1, 0, 1), cmap="Blues",
        linewidths=0.2,
    )  # fmt: skip
    left.plot([0, 1], [0, 1], color=BASE[5], linewidth=1)
    figure.colorbar(cells, ax=left, label="pairs of points", shrink=0.8)
    left.set(aspect="equal", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="true posterior", ylabel="NCP")
    left.set_title("Two points share a cluster", fontsize=10, loc="left")
    mean_k = {name: [one[name].mean_k for one in compared] for name in NAMES}
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
        ("k_posterior", "n_partitions", "pairs"),
    )  # fmt: skip


SUITES = {"posteriors": posteriors}
