"""NCP's posterior over partitions beside that of a Markov chain, on small CRP mixtures.

The data come from NCP's own generative model. A DPMixture that is told the model (alpha, the spread of the
means, the width of the clusters) samples the true posterior, up to Monte-Carlo error. NCP does not know the
scale of the data, and neither does a DPMixture that infers its hyper-parameters: it stands beside NCP.
"""

from __future__ import annotations

import base64
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.methods.amortized import weights_identity
from clusterwise.bench.posteriors_picture import Compared, Forecast, draw_posteriors
from clusterwise.bench.progress import Progress
from clusterwise.bench.registry import BenchmarkError, Study, register
from clusterwise.bench.rows import RowFile, write_csv
from clusterwise.bench.synthetic import Word, generator_of
from clusterwise.bench.table import markdown_table, significant
from clusterwise.bench.worker import one_line
from clusterwise.posterior import PartitionPosterior
from clusterwise.priors.base import LabelledSet
from clusterwise.priors.crp import ChineseRestaurantMixture

__all__ = ["SIZES", "Sampling", "draw", "figures_of", "run", "total_variation"]

TITLE = "NCP's posterior beside that of a Markov chain"
SIZES = (10, 20, 30, 50)
N_SETS, QUICK_N_SETS = 16, 4
WEIGHTS = "ncp-2d"
ALPHA, MEAN_SD, SD = 0.7, 10.0, 1.0


@dataclass(frozen=True)
class Sampling:
    """How long the samplers run; one chain of ``n_draws`` draws for each half of a posterior."""

    n_warm_up: int = 60
    n_draws: int = 300
    n_partitions: int = 600  # of NCP


# The chains run one by one, so that the two halves of the true posterior can be compared.
CHAINS = ("known model, first chain", "known model, second chain")
INFERRED, NCP = "inferred", "NCP"
NAMES = {"known": "DPMixture, told the model", "inferred": "DPMixture, defaults", "NCP": "NCP"}

HOW_TO_READ = f"""\
Data from NCP's own model in the plane: CRP with alpha = {ALPHA}, means with standard deviation {MEAN_SD:.0f},
round clusters with standard deviation {SD:.0f}. Mean ± standard error over data sets.

- *DPMixture, told the model* has round clusters and all hyper-parameters fixed at the truth, two chains of
  {Sampling.n_draws} draws after {Sampling.n_warm_up} steps: the true posterior, up to Monte-Carlo error.
- *DPMixture, defaults* has round clusters and infers everything else, as many draws.
- *NCP* has the weights below; {Sampling.n_partitions} partitions, each in an order of its own. Like the
  second it does not know the scale of the data: its input is brought to unit spread.
- *TV*: total variation distance of P(K) from the true posterior's, from 0 to 1. *Pairs*: mean absolute
  difference of the probability that two points share a cluster. *Chain to chain* is the same between the two
  halves of the true posterior: what lies below it is noise.
- *P(true K)*: probability of the number of clusters that the data were drawn with. *Brier of pairs*: mean
  square of the probability that two points share a cluster minus whether they do. Nobody can be better than
  the true posterior on average, in either.

In the picture: all pairs of points; mean numbers of clusters, one dot for each data set; and two data sets,
the one of whose K the true posterior is surest among those with three clusters or more, and the one of whose
K it is least sure, of {SIZES[-1]} points each."""

COLUMNS = (
    "n", "index", "posterior", "identity", "status", "seconds", "k_posterior", "n_partitions", "pairs",
)  # fmt: skip


def draw(n: int, index: int) -> LabelledSet:
    """Draw test set ``index`` of ``n`` points."""
    rng = generator_of(Word.POSTERIORS, n, index)
    return ChineseRestaurantMixture(alpha=ALPHA, mean_sd=MEAN_SD, sd=SD).draw_set(rng, n)


def total_variation(first: dict[int, float], second: dict[int, float]) -> float:
    """Total variation distance of two distributions over k.

    >>> total_variation({1: 0.5, 2: 0.5}, {2: 0.5, 3: 0.5})
    0.5
    """
    return sum(abs(first.get(k, 0.0) - second.get(k, 0.0)) for k in first.keys() | second.keys()) / 2


# -- measuring ---------------------------------------------------------------------------------------


def _dp_mixture(known: bool, n_chains: int, seed: int, sampling: Sampling) -> Any:
    from clusterwise.estimators import DPMixture

    told: dict[str, Any] = {}
    if known:
        told = {
            "alpha": ALPHA,
            "mean_prior": np.zeros(2),
            "mean_precision_prior": (SD / MEAN_SD) ** 2,
            "degrees_of_freedom_prior": 1e6,  # all clusters have the same width
            "covariance_prior": SD**2,
        }
    return DPMixture(
        covariance_type="spherical",
        n_chains=n_chains,
        n_warm_up=sampling.n_warm_up,
        n_draws=sampling.n_draws,
        random_state=seed,
        **told,
    )


def _sample(
    posterior: str, points: np.ndarray, index: int, weights: str | Path, sampling: Sampling
) -> tuple[dict[int, float], PartitionPosterior]:
    """P(K) and partitions of one posterior."""
    if posterior == NCP:
        from clusterwise.estimators import NCP as Estimator

        network = Estimator(weights=weights, refine=None, random_state=index).fit(points)
        partitions = network.sample_partitions(sampling.n_partitions)
        return partitions.k_posterior, partitions
    if posterior == INFERRED:
        mixture = _dp_mixture(False, 2, index, sampling)
    else:
        mixture = _dp_mixture(True, 1, 2 * index + CHAINS.index(posterior), sampling)
    mixture.fit(points)
    return mixture.k_posterior_, mixture.sample_partitions(200)


def _packed(counts: np.ndarray) -> str:
    """Small whole numbers as one cell: nearly all are 0 or the number of partitions."""
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode()


def _unpacked(cell: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(cell)), dtype="<u2").astype(np.float64)


def _pairs(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(n, 1)


def _measure(
    posterior: str, n: int, index: int, weights: str | Path, sampling: Sampling
) -> dict[str, object]:
    """Cells of one posterior on one data set; an error is a status."""
    row: dict[str, object] = dict.fromkeys(COLUMNS, "")
    row |= {"n": n, "index": index, "posterior": posterior}
    points = draw(n, index).points
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            k_posterior, partitions = _sample(posterior, points, index, weights, sampling)
    except Exception as error:  # whatever a method raises is its result
        return row | {"status": one_line(error)}
    seconds = time.perf_counter() - begin
    together = partitions.coclustering()[_pairs(n)] * partitions.n_samples
    return row | {
        "status": "ok",
        "seconds": f"{seconds:.4g}",
        "k_posterior": " ".join(f"{k}:{p:.6g}" for k, p in k_posterior.items()),
        "n_partitions": partitions.n_samples,
        "pairs": _packed(np.round(together)),
    }


def run(
    out: Path,
    quick: bool,
    write: Callable[[str], object],
    weights: str | Path = WEIGHTS,
    sampling: Sampling | None = None,
) -> Path:
    """Measure, then write ``posteriors.csv``, ``.md`` and ``.png`` from ``posteriors.raw.csv``."""
    import clusterwise

    chosen = Sampling() if sampling is None else sampling
    has_weights = Path(weights).is_file() or str(weights) in clusterwise.list_weights()
    by_chains = f"clusterwise {clusterwise.__version__}, {chosen.n_warm_up} + {chosen.n_draws} steps"
    identities = dict.fromkeys((*CHAINS, INFERRED), by_chains)
    if has_weights:
        identities[NCP] = f"{weights_identity(str(weights))}, {chosen.n_partitions} partitions"

    def is_current(row: dict[str, str]) -> bool:
        same = identities.get(row["posterior"], row["identity"]) == row["identity"]
        return same and row["status"] == "ok"

    rows = RowFile(out / "posteriors.raw.csv", COLUMNS, 3, is_current)
    if rows.n_dropped:
        write(f"posteriors: {rows.n_dropped} rows of other versions or with errors are measured again")
    n_sets = QUICK_N_SETS if quick else N_SETS
    keys = [(n, index) for index in range(n_sets) for n in SIZES]
    progress = Progress("posteriors", len(keys), write)
    for done, (n, index) in enumerate(keys, start=1):
        missing = [name for name in identities if (n, index, name) not in rows]
        for name in missing:
            row = _measure(name, n, index, weights, chosen) | {"identity": identities[name]}
            rows.add(row)
            if row["status"] != "ok":
                write(f"posteriors: {name}, N = {n}, set {index}: {row['status']}")
        progress.step(done, bool(missing))
    rows.finish()
    if not has_weights:
        raise BenchmarkError(
            f"The Markov chains are through, but the weights {weights} are not shipped; train them, then run "
            "this again: it goes on from here."
        )
    page = _publish(out, [_compared(rows, *key) for key in keys], identities)
    write(f"posteriors: raw rows in {rows.path}, page in {page}, picture in {page.with_suffix('.png')}")
    return page


# -- from rows to figures ----------------------------------------------------------------------------


def _forecast(row: dict[str, str]) -> Forecast:
    pairs = (pair.split(":") for pair in row["k_posterior"].split())
    return Forecast(
        {int(k): float(p) for k, p in pairs},
        _unpacked(row["pairs"]) / int(row["n_partitions"]),
        float(row["seconds"]),
    )


def _mean_forecast(first: Forecast, second: Forecast) -> Forecast:
    """Two chains together."""
    ks = sorted(first.k_posterior.keys() | second.k_posterior.keys())
    k_posterior = {k: (first.k_posterior.get(k, 0.0) + second.k_posterior.get(k, 0.0)) / 2 for k in ks}
    return Forecast(k_posterior, (first.pairs + second.pairs) / 2, first.seconds + second.seconds)


def _compared(rows: RowFile, n: int, index: int) -> Compared | None:
    """All posteriors of one data set, or nothing if one of them failed."""
    found = [rows.get((n, index, name)) for name in (*CHAINS, INFERRED, NCP)]
    good = [_forecast(row) for row in found if row is not None and row["status"] == "ok"]
    if len(good) < len(found):
        return None
    first, second, inferred, network = good
    drawn = draw(n, index)
    together = (drawn.labels[:, None] == drawn.labels)[_pairs(n)]
    forecasts = {"known": _mean_forecast(first, second), "inferred": inferred, "NCP": network}
    return Compared(n, index, drawn, together, (first, second), forecasts)


def figures_of(compared: Compared) -> dict[str, float]:
    """All figures of one data set."""
    known = compared.forecasts["known"]
    first, second = compared.chains
    others = {"floor": (first, second)}
    others |= {name: (known, compared.forecasts[name]) for name in ("inferred", "NCP")}
    figures: dict[str, float] = {"true_k": compared.drawn.n_clusters}
    for name, (a, b) in others.items():
        figures[f"tv_{name}"] = total_variation(a.k_posterior, b.k_posterior)
        figures[f"pairs_{name}"] = float(np.abs(a.pairs - b.pairs).mean())
    for name, forecast in compared.forecasts.items():
        figures[f"p_true_k_{name}"] = forecast.k_posterior.get(compared.drawn.n_clusters, 0.0)
        figures[f"brier_{name}"] = float(np.square(forecast.pairs - compared.together).mean())
        figures[f"mean_k_{name}"] = forecast.mean_k
        figures[f"seconds_{name}"] = forecast.seconds
    return figures


Figures = dict[tuple[int, int], dict[str, float]]  # by number of points and index


def _publish(out: Path, found: Sequence[Compared | None], identities: dict[str, str]) -> Path:
    compared = [one for one in found if one is not None]
    if not compared:
        raise BenchmarkError("No data set has all its posteriors; see the statuses above.")
    figures = {(one.n, one.index): figures_of(one) for one in compared}
    names = list(next(iter(figures.values())))
    write_csv(
        out / "posteriors.csv",
        ("n", "index", *names),
        ((*key, *(f"{values[name]:.6g}" for name in names)) for key, values in sorted(figures.items())),
    )
    picture, page = out / "posteriors.png", out / "posteriors.md"
    with whole_or_nothing(picture) as temporary:
        draw_posteriors(compared, NAMES, temporary)
    with whole_or_nothing(page) as temporary:
        temporary.write_text(_page(figures, identities), encoding="utf-8")
    return page


def _cell(figures: Figures, n: int, name: str, digits: int = 3) -> str:
    values = [of_set[name] for (size, _), of_set in figures.items() if size == n]
    mean = f"{np.mean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"


def _page(figures: Figures, identities: dict[str, str]) -> str:
    sizes = sorted({n for n, _ in figures})
    counts = {n: sum(size == n for size, _ in figures) for n in sizes}
    others = {"floor": "chain to chain", "inferred": "DPMixture, defaults", "NCP": "NCP"}
    header = ["N", "sets", *(f"{what}, {name}" for what in ("TV", "pairs") for name in others.values())]
    names = [f"{what}_{other}" for what in ("tv", "pairs") for other in others]
    distances = [[str(n), str(counts[n]), *(_cell(figures, n, name) for name in names)] for n in sizes]
    truths = []
    for n in sizes:
        for key, name in NAMES.items():
            seconds = np.median([of[f"seconds_{key}"] for (size, _), of in figures.items() if size == n])
            cells = [_cell(figures, n, f"p_true_k_{key}"), _cell(figures, n, f"brier_{key}", 4)]
            cells += [_cell(figures, n, "true_k", 2), _cell(figures, n, f"mean_k_{key}", 2)]
            truths.append([str(n), name, *cells, significant(float(seconds))])
    second = ["N", "posterior", "P(true K)", "Brier of pairs", "true K", "mean K", "seconds, median"]
    parts = [f"# {TITLE}", HOW_TO_READ, f"![{TITLE}](posteriors.png)"]
    parts += ["## Distance from the true posterior", markdown_table(header, distances)]
    parts += ["## Against the partition that the data were drawn from", markdown_table(second, truths)]
    parts += ["## Versions", "\n".join(f"- {name}: {text}" for name, text in identities.items())]
    return "\n\n".join(parts) + "\n"


register(Study("posteriors", TITLE, run))
