"""What happens on a cluster when workers die, lack the package, or get strange partitions."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.exceptions import InvalidDataError, MissingDependencyError
from clusterwise.rows import as_source

distributed = pytest.importorskip("distributed")
arrays = pytest.importorskip("dask.array")

pytestmark = [
    pytest.mark.slow,
    # Warnings of the cluster itself, when its processes come and go.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::UserWarning:distributed"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def mixture(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(3, size=(n, 1)) * np.array([10.0, -10.0]) + rng.normal(size=(n, 2))


@pytest.fixture
def cluster() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as running,
        distributed.Client(running),
    ):
        yield running


def slowly(block: np.ndarray) -> np.ndarray:
    """So that there is time to kill somebody."""
    time.sleep(0.2)
    return block


def kill_one_soon(cluster: Any) -> threading.Timer:
    """End the process of one worker while it works."""
    worker = next(iter(cluster.workers.values()))
    timer = threading.Timer(1.5, lambda: os.kill(worker.process.process.pid, 9))
    timer.start()
    return timer


def test_a_worker_that_dies_changes_nothing(cluster: Any) -> None:
    X = mixture(60_000)
    expected = cw.GaussianSearch(random_state=0).fit(as_source(X, always=True)).labels_
    spread = arrays.from_array(X, chunks=(3000, 2)).map_blocks(slowly, dtype=float)
    timer = kill_one_soon(cluster)
    estimator = cw.GaussianSearch(random_state=0).fit(spread)
    timer.join()
    timer = kill_one_soon(cluster)
    labels = estimator.predict(spread).compute()
    timer.join()
    np.testing.assert_array_equal(labels, expected)


def test_nan_in_one_partition_is_named_from_the_cluster(cluster: Any) -> None:
    X = mixture(3000)
    X[1234, 0] = np.nan
    with pytest.raises(InvalidDataError, match="partition 1 contains NaN at row 234 column 0"):
        cw.GaussianSearch().fit(arrays.from_array(X, chunks=(1000, 2)))


def test_a_worker_without_the_package(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'clusterwise':\n"
        "            raise ModuleNotFoundError(f\"No module named '{name}'\", name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as scheduler:
        command = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            scheduler.scheduler_address,
            "--no-nanny",
        ]
        worker = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, stderr=subprocess.DEVNULL
        )
        try:
            with distributed.Client(scheduler) as client:
                client.wait_for_workers(1, timeout=120)
                with pytest.raises(MissingDependencyError, match="install the same version"):
                    cw.GaussianSearch().fit(arrays.from_array(mixture(300), chunks=(100, 2)))
        finally:
            worker.terminate()
            worker.wait()
