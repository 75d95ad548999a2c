"""How the cost of every public operation grows with rows, columns, clusters, levels, gaps, draws and sets."""

import io
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import clusterwise as cw
from benchmarks.page import NOTHING, markdown_table, significant
from benchmarks.processes import peak_memory_mb
from benchmarks.suite import Case, Data, Method, Outcome, Run, Suite
from benchmarks.summary import Rows
from benchmarks.synthetic import Word, generator_of

# Exponents above this are too steep; GaussianSearch with full covariances has quadratically many numbers.
LIMIT = 1.1
COLUMNS = ("size", "cpu", "megabytes")
Call = Callable[[], object]


class Operation(NamedTuple):
    """One operation at several sizes of one thing."""

    call: str  # as a user types it
    prepare: Callable[[int], Call]  # not timed
    sizes: Sequence[int]
    limit: float = LIMIT


# -- data --------------------------------------------------------------------------------------------


def _rng(purpose: int, *numbers: int) -> np.random.Generator:
    """A generator for each purpose and each size."""
    return generator_of(Word.GROWTH, purpose, *numbers)


def points(n: int, d: int, k: int = 10) -> np.ndarray:
    """Rows (n, d) of k Gaussian clusters."""
    rng = _rng(1, n, d, k)
    centres = 4 * rng.standard_normal((k, d))
    return centres[rng.integers(0, k, n)] + rng.standard_normal((n, d))


def with_gaps(n: int, d: int, share: float) -> np.ndarray:
    """The same with a share of missing values."""
    X = points(n, d)
    X[_rng(2, n, d).random(X.shape) < share] = np.nan
    return X


def frame(n: int, d: int) -> Any:
    import pandas as pd

    return pd.DataFrame(points(n, d), columns=[f"c{j}" for j in range(d)])


def categories(n: int, d: int, levels: int) -> Any:
    """A data frame of d categories that follow three clusters, more or less."""
    import pandas as pd

    rng = _rng(3, n, d, levels)
    of_cluster = rng.integers(0, 3, n)[:, None] * levels // 3
    codes = (of_cluster + rng.integers(0, max(1, levels // 2), (n, d))) % levels
    words = pd.DataFrame(np.char.add("w", codes.astype(str)), columns=[f"c{j}" for j in range(d)])
    return words.astype("category")  # so that columns of many levels take part


def few_values(n: int, d: int) -> np.ndarray:
    """Rows of whole numbers from 0 to 7 that follow three clusters; one gap, so that they are prepared."""
    rng = _rng(4, n, d, 8)
    X = np.minimum(rng.integers(0, 3, n)[:, None] * 2 + rng.integers(0, 4, (n, d)), 7).astype(float)
    X[0, 0] = np.nan
    return X


def apart(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) in k clusters that lie apart, and their labels."""
    rng = _rng(5, n, d, k, 1)
    labels = np.arange(n) % k
    return 100 * rng.random((k, d))[labels] + rng.standard_normal((n, d)), labels


def mixture(k: int, d: int = 8) -> Any:
    """A fitted ``GaussianSearch`` with k clusters."""
    from clusterwise.gaussian.mixture import clusters_of_labels

    X, labels = apart(max(1_000, 20 * k), d, k)
    model = cw.GaussianSearch(max_clusters=k).fit(X[:200])
    found = model._found
    density = clusters_of_labels(model._space.apply(X), labels)
    model._found = type(found)(density, density)
    model.n_clusters_ = k
    return model


# -- operations ----------------------------------------------------------------------------------------


def fit(make: Callable[[], Any], X: Any) -> Call:
    return lambda: make().fit(X)


def fitted_call(model: Any, X: Any, name: str) -> Call:
    return lambda: getattr(model, name)(X)


def after_fit(name: str, make: Callable[[], Any], fit_to: Any, X: Any) -> Call:
    return fitted_call(make().fit(fit_to), X, name)


def report(X: Any, labels: np.ndarray | None = None) -> Call:
    """The report of a fit; with labels as if these had been found."""
    model = cw.Clusterer(max_clusters=200).fit(X)
    if labels is not None:
        model.labels_, model.n_clusters_ = labels, int(labels.max()) + 1
        model.membership_ = np.eye(model.n_clusters_)[labels]
    path = Path(tempfile.gettempdir()) / "clusterwise-growth.html"
    return lambda: cw.report.write_report(model, X, path)


def labels_at(k: int) -> Call:
    model = cw.Clusterer().fit(points(5_000, 8))
    return lambda: model.labels_at(k)


def sampled(n_draws: int, n: int = 2_000) -> Any:
    """A posterior of that many different partitions."""
    rng = _rng(6, n_draws, n)
    labels = np.repeat(np.arange(10), n // 10)[None].repeat(n_draws, axis=0)
    moved = rng.random(labels.shape) < 0.1
    labels[moved] = rng.integers(0, 10, int(moved.sum()))
    return cw.PartitionPosterior(labels)


def draws(name: str, n_draws: int) -> Call:
    posterior = sampled(n_draws)
    return lambda: getattr(posterior, name)()


def sample_partitions(n_draws: int) -> Call:
    model = cw.Clusterer().fit(points(2_000, 8))
    return lambda: model.sample_partitions(n_draws)


def many_sets(make: Callable[[], Any], d: int, n_sets: int) -> Call:
    sets = [points(200, d, 4) for _ in range(n_sets)]
    return lambda: make().fit_predict_many(sets)


def dumped(n: int) -> Call:
    model = cw.Clusterer().fit(points(n, 16))
    return lambda: pickle.dump(model, io.BytesIO())


def projected(d: int) -> Call:
    from clusterwise.plotting.plane import project

    X = points(100, d)
    return lambda: project(X)


def named_columns(d: int) -> Call:
    make = partial(cw.TablePreparation, columns=[f"c{j}" for j in range(d)])
    return fit(make, frame(50, d))


CLUSTERER = partial(cw.Clusterer, random_state=0)
SEARCH = partial(cw.GaussianSearch, random_state=0)
AMCP = partial(cw.AMCP, random_state=0)
ROWS = (4_000, 16_000, 64_000, 256_000)
WIDE = (1_250, 2_500, 5_000, 10_000, 20_000)

OPERATIONS: Mapping[str, Sequence[Operation]] = {
    "rows": [
        Operation("Clusterer().fit(array)", lambda n: fit(CLUSTERER, points(n, 16)), ROWS),
        Operation("Clusterer().fit(data frame)", lambda n: fit(CLUSTERER, frame(n, 16)), ROWS),
        Operation("Clusterer().fit(10 % gaps)", lambda n: fit(CLUSTERER, with_gaps(n, 20, 0.1)), ROWS),
        Operation("Clusterer().fit(categories)", lambda n: fit(CLUSTERER, categories(n, 8, 8)), ROWS[:3]),
        Operation(
            "Clusterer().predict",
            lambda n: after_fit("predict", CLUSTERER, points(4_000, 8), points(n, 8)),
            ROWS,
        ),
        Operation(
            "Clusterer().score_outliers",
            lambda n: after_fit("score_outliers", CLUSTERER, points(4_000, 8), points(n, 8)),
            ROWS,
        ),
        Operation("pickle.dump(Clusterer)", dumped, ROWS),
        Operation("report of Clusterer", lambda n: report(points(n, 16)), ROWS[:3]),
        Operation("GaussianSearch().fit", lambda n: fit(SEARCH, points(n, 8)), ROWS),
        Operation("AMCP().fit", lambda n: fit(AMCP, points(n, 2)), ROWS),
    ],
    "columns": [
        Operation("Clusterer().fit(array)", lambda d: fit(CLUSTERER, points(100, d, 3)), WIDE),
        Operation("Clusterer().fit(data frame)", lambda d: fit(CLUSTERER, frame(100, d)), WIDE[:4]),
        Operation("Clusterer().fit(10 % gaps)", lambda d: fit(CLUSTERER, with_gaps(100, d, 0.1)), WIDE[:4]),
        Operation(
            "Clusterer().fit(categories)",
            lambda d: fit(CLUSTERER, categories(200, d, 4)),
            (150, 300, 600, 1_200),
        ),
        Operation(
            "Clusterer().fit(few values)", lambda d: fit(CLUSTERER, few_values(5_000, d)), (25, 50, 100, 200)
        ),
        Operation(
            "TablePreparation(columns=...)",
            named_columns,
            WIDE,
        ),
        Operation(
            "GaussianSearch().fit", lambda d: fit(SEARCH, points(300, d, 4)), (125, 250, 500, 1_000), 2.0
        ),
        Operation("report of Clusterer", lambda d: report(points(2_000, d)), (50, 100, 200, 400)),
        Operation("projection of pictures", projected, WIDE),
    ],
    "clusters": [
        Operation(
            "score_samples",
            lambda k: fitted_call(mixture(k), points(50_000, 8), "score_samples"),
            (25, 50, 100, 200),
        ),
        Operation(
            "predict", lambda k: fitted_call(mixture(k), points(50_000, 8), "predict"), (25, 50, 100, 200)
        ),
        Operation("Clusterer().labels_at", labels_at, (250, 500, 1_000, 2_000)),
        Operation("report of Clusterer", lambda k: report(*apart(5_000, 30, k)), (5, 10, 20, 40)),
    ],
    "levels": [
        Operation(
            "Clusterer().fit(categories)",
            lambda v: fit(CLUSTERER, categories(3_000, 5, v)),
            (25, 50, 100, 200),
        ),
        Operation("report of Clusterer", lambda v: report(categories(4_000, 3, v)), (50, 100, 200, 400)),
    ],
    "share of gaps": [
        Operation(
            "Clusterer().fit(gaps)", lambda p: fit(CLUSTERER, with_gaps(20_000, 20, p / 100)), (2, 5, 10, 20)
        ),
    ],
    "draws": [
        Operation("PartitionPosterior.consensus", partial(draws, "consensus"), (125, 250, 500, 1_000)),
        Operation("PartitionPosterior.coclustering", partial(draws, "coclustering"), (50, 100, 200)),
        Operation("Clusterer().sample_partitions", sample_partitions, (500, 1_000, 2_000, 4_000)),
    ],
    "sets": [
        Operation("Clusterer().fit_predict_many", partial(many_sets, CLUSTERER, 8), (10, 20, 40)),
        Operation("AMCP().fit_predict_many", partial(many_sets, AMCP, 2), (50, 100, 200, 400)),
    ],
}


# -- measuring and showing ---------------------------------------------------------------------------


def measured(grows: str, place: int) -> Run:
    """One operation; the seed of a case says at which of its sizes."""
    operation = OPERATIONS[grows][place]

    def run(case: Case) -> Outcome:
        call = operation.prepare(operation.sizes[case.seed])
        before = peak_memory_mb(reset=True)
        started = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            call()
        cells = {
            "size": operation.sizes[case.seed],
            "cpu": time.process_time() - started,
            "megabytes": peak_memory_mb() - before,
        }
        return Outcome(np.zeros(1, dtype=np.int64), more=lambda case: cells)

    return run


def at_size(index: int) -> Case:
    """A case that says nothing but which of the sizes it is."""
    return Case(np.zeros((1, 1)), index)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds over log size in the upper half of the sizes, where small costs are gone."""
    upper = slice((len(sizes) - 1) // 2, None)
    return float(np.polyfit(np.log(sizes[upper]), np.log(np.maximum(seconds[upper], 1e-6)), 1)[0])


def _curve(rows: Rows) -> tuple[list[float], list[float], list[float]]:
    """Sizes, seconds and megabytes of one operation."""
    columns = (list(rows.values(name).values()) for name in COLUMNS)
    sizes, seconds, megabytes = columns
    return sizes, seconds, megabytes


def _report(rows: Rows, path: Path) -> list[str]:
    parts = [f"![CPU seconds over sizes]({path.stem}.png)"]
    curves: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for grows, operations in OPERATIONS.items():
        lines = []
        for one in operations:
            sizes, seconds, megabytes = _curve(rows.of(data=grows, method=f"{one.call}, {grows}"))
            if len(sizes) < 2:
                continue
            curves.setdefault(grows, {})[one.call] = sizes, seconds
            slope = exponent(sizes, seconds)
            mark = " !" if slope > one.limit and seconds[-1] > 0.1 else ""
            lines.append(
                [
                    one.call,
                    f"{sizes[0]:,.0f} to {sizes[-1]:,.0f}",
                    significant(seconds[0], 2),
                    significant(seconds[-1], 2),
                    f"{slope:.2f}{mark}".replace("-", "−"),
                    significant(max(megabytes), 2) if max(megabytes) > 1 else NOTHING,
                ]
            )
        header = ["operation", grows, "seconds, least", "seconds, most", "exponent", "most MB"]
        parts += [f"## {grows.capitalize()}", markdown_table(header, lines)] if lines else []
    _draw(curves, path.with_suffix(".png"))
    return parts


def _draw(curves: Mapping[str, Mapping[str, tuple[list[float], list[float]]]], path: Path) -> None:
    """A panel for each thing that grows: CPU seconds over its size, both as logarithms."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    n_rows = -(-len(curves) // 2)
    figure = Figure(figsize=(11, 3.6 * n_rows), layout="constrained")
    for place, (grows, of_operation) in enumerate(curves.items()):
        ax = figure.add_subplot(n_rows, 2, place + 1)
        for name, (sizes, seconds) in of_operation.items():
            ax.plot(sizes, seconds, "o-", label=f"{name}: {exponent(sizes, seconds):.2f}")
        low = min(seconds[0] for _, seconds in of_operation.values())
        span = np.array(
            [min(s[0] for s, _ in of_operation.values()), max(s[-1] for s, _ in of_operation.values())]
        )
        ax.plot(span, low * span / span[0], ":", color="gray", label="linear")
        ax.set(xscale="log", yscale="log", xlabel=grows, ylabel="CPU seconds")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_formatter(NullFormatter())
        ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, dpi=110)


def growth(quick: bool) -> Suite:
    methods, data = [], []
    for grows, operations in OPERATIONS.items():
        names = []
        for place, one in enumerate(operations):
            n_sizes = 2 if quick else len(one.sizes)
            name = f"{one.call}, {grows}"
            names.append(name)
            build = partial(measured, grows, place)
            methods.append(Method(name, build, "ours", group="growth", max_sets=n_sizes))
        most = max(len(one.sizes) for one in operations)
        data.append(Data(grows, at_size, most, tuple(names)))
    return Suite(data, methods, report=_report, metrics=(), columns=COLUMNS, time_limit=120.0, patience=1)


SUITES = {"growth": growth}
