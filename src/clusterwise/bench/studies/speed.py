"""Time per data set, one by one and in batches of 100, every method on the same sets in the same process.

Run it on a machine that does nothing else: the judge's own times come from runs of hours.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from clusterwise._files import whole_or_nothing
from clusterwise.bench.benchmarks import chigac, mog
from clusterwise.bench.registry import METHODS, Case, Outcome, Study, register
from clusterwise.bench.rows import write_csv

__all__ = ["run"]

TITLE = "Time per data set"
REFERENCE = "BayesianGaussianMixture"
ONE_BY_ONE = ("AMCP", "CHiGac", "DAC (minimum-loss)", "DAC (anchored)", "ACT-ST", REFERENCE, "HDBSCAN")
# DAC's test sets, and the smaller ones of CHiGac.
DRAW_CASE = dict.fromkeys(mog.SETTINGS, mog.draw_case) | {"(200, 4)": chigac.draw_case}
N_SETS, QUICK_N_SETS, N_WARM_UP = 100, 10, 3
INTRODUCTION = """\
One thread. Seconds are wall times on one machine and mean little elsewhere; ratios are to
BayesianGaussianMixture (20 diagonal components, at most 1000 iterations) on the same data sets. Its time
has a long tail, so both the ratio of the sums and the median of the ratios per data set are given. *In one
batch* means `fit_predict_many` on all sets of the setting."""


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _measure_one_by_one(cases: list[Case]) -> dict[str, np.ndarray]:
    """Seconds of every method on every data set; methods take turns, so that all see the same machine."""
    runners: dict[str, Callable[[Case], Outcome]] = {name: METHODS[name].build() for name in ONE_BY_ONE}
    for case in cases[:N_WARM_UP]:
        for runner in runners.values():
            runner(case)
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for case in cases:
        for name, runner in runners.items():
            seconds[name].append(_seconds(partial(runner, case)))
    return {name: np.array(values) for name, values in seconds.items()}


def _measure_batches(cases: list[Case]) -> dict[str, float]:
    """Seconds per data set of each estimator on all data sets at once, the best of three runs."""
    import clusterwise as cw

    estimators = {
        "AMCP": cw.AMCP(random_state=0),
        "CHiGac": cw.CHiGac(random_state=0),
        "DAC (minimum-loss)": cw.DAC(random_state=0),
        "DAC (anchored)": cw.DAC("anchored", random_state=0),
        "ACT-ST": cw.ACTST(random_state=0),
    }
    sets = [case.points for case in cases]
    return {
        name: min(_seconds(partial(estimator.fit_predict_many, sets)) for _ in range(3)) / len(sets)
        for name, estimator in estimators.items()
    }


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Measure; write ``speed.csv`` and ``speed.md``."""
    raw: list[tuple[object, ...]] = []
    lines = [f"# {TITLE}", "", INTRODUCTION, ""]
    with _one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for setting, draw_case in DRAW_CASE.items():
            write(f"speed: {setting}")
            cases = [draw_case(setting, i).blind() for i in range(QUICK_N_SETS if quick else N_SETS)]
            single, batched = _measure_one_by_one(cases), _measure_batches(cases)
            raw += [(setting, name, i, s) for name, of in single.items() for i, s in enumerate(of)]
            raw += [(setting, f"{name}, in one batch", -1, s) for name, s in batched.items()]
            lines += _table(setting, single, batched)
    write_csv(out / "speed.csv", ("setting", "method", "index", "seconds"), raw)
    page = out / "speed.md"
    with whole_or_nothing(page) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def _table(setting: str, single: dict[str, np.ndarray], batched: dict[str, float]) -> list[str]:
    reference = single[REFERENCE]
    lines = [f"## {setting}, {len(reference)} data sets", ""]
    lines += [
        "| method | mean ms | median ms | times less, by sums | times less, median |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, seconds in single.items():
        ratios = f"{reference.sum() / seconds.sum():.2f} | {np.median(reference / seconds):.2f}"
        lines.append(f"| {name} | {1e3 * seconds.mean():.1f} | {1e3 * np.median(seconds):.1f} | {ratios} |")
    for name, mean in batched.items():
        lines.append(f"| {name}, in one batch | {1e3 * mean:.1f} | | {reference.mean() / mean:.2f} | |")
    return [*lines, ""]


register(Study("speed", TITLE, run))
