"""``python -m tests.fuzz --inputs 20000 --seed 0``: what is wrong with how they end, by kind."""

from __future__ import annotations

import argparse
import importlib
import re
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.inputs import make_input
from tests.fuzz.runner import Sandbox

EVERY = 20  # so many inputs are one that goes the whole way, with the fit
PRELOADED = (
    "clusterwise.cli.app", "clusterwise.cli.clustering", "clusterwise.cli.training", "pyarrow.parquet",
    "pyarrow.feather", "pyarrow.csv",
    "pyarrow.dataset", "pyarrow.compute", "openpyxl", "h5py", "pandas", "torch",
    "clusterwise.papers.amcp.network", "clusterwise.pretrained.weights_file",
    "clusterwise.tables.preparation", "clusterwise.report.contents",
)  # fmt: skip


def preload() -> None:
    """Import what inputs need, so that their processes begin with it."""
    for module in PRELOADED:
        importlib.import_module(module)
    import numpy as np

    import clusterwise

    clusterwise.Clusterer(random_state=0).fit(np.random.default_rng(0).normal(size=(40, 2)))


def main() -> None:
    """Run inputs until there were enough or the time is over; exit code 1 if any ended badly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10**9)
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--keep", type=Path, help="folder for the inputs that end badly")
    asked = parser.parse_args()
    preload()
    sandbox, started, done = Sandbox(), time.monotonic(), 0
    faults: Counter[str] = Counter()
    endings: Counter[str] = Counter()
    slowest, largest = 0.0, 0
    try:
        for number in range(asked.start, asked.start + asked.inputs):
            if time.monotonic() - started > 60 * asked.minutes:
                break
            made = make_input(asked.seed, number)
            outcome = sandbox.run(made, whole=number % EVERY == 0)
            done += 1
            slowest, largest = max(slowest, outcome.seconds), max(largest, outcome.n_bytes)
            endings[("error: " in outcome.output and "sentence") or "answer"] += 1
            if outcome.fault is None:
                continue
            kind = re.sub(r"\d+", "#", outcome.fault)[:90]
            faults[kind] += 1
            if faults[kind] <= 3:
                print(f"{number} {made.name} ({made.origin}): {outcome.fault}", flush=True)
                if asked.keep is not None:
                    asked.keep.mkdir(parents=True, exist_ok=True)
                    (asked.keep / f"{number}-{made.name}").write_bytes(made.data)
                    (asked.keep / f"{number}.log").write_text(outcome.output, errors="replace")
    finally:
        sandbox.close()
    minutes, n_bad = (time.monotonic() - started) / 60, sum(faults.values())
    print(f"{done} inputs in {minutes:.1f} min, seed {asked.seed}: {dict(endings)}, {n_bad} bad endings;")
    print(f"slowest {slowest:.1f} s of the processor, most memory {largest / 1e9:.2f} GB")
    for kind, count in faults.most_common():
        print(f"{count:6} {kind}")
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
