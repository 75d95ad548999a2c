"""Full disks, read-only places, damaged caches, and two runs at once: an answer or one sentence."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import clusterwise
from clusterwise._files import whole_or_nothing, write_tables

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="needs locks, signals and limits of Linux"
    ),
]

SOURCE = Path(clusterwise.__file__).parents[1]
FIT = "import numpy as np, clusterwise as cw; print(cw.{}().fit(np.random.rand(30, 2)).n_clusters_ > 0)"


def environment(**places: object) -> dict[str, str]:
    """The environment of a process that finds this package."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), **{name: str(value) for name, value in places.items()}}


def command(*arguments: object, **options: object) -> list[str]:
    return [sys.executable, "-m", "clusterwise", *map(str, arguments)]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    np.savetxt(tmp_path / "data.csv", rng.normal(size=(4000, 3)), delimiter=",", header="a,b,c", comments="")
    return tmp_path / "data.csv"


@pytest.mark.parametrize("moment", range(6))
def test_killed_while_it_works(data: Path, moment: int) -> None:
    """The output is whole or not there, and the next run leaves nothing else behind."""
    out = data.with_name("out.csv")
    arguments = command("cluster", data, "--out", out, "--append", "--method", "gaussian-search")
    running = subprocess.Popen(
        arguments, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    time.sleep(1.5 + 0.5 * moment)
    running.send_signal(signal.SIGKILL)
    running.wait()
    assert not out.exists() or len(out.read_text().splitlines()) == 4001
    subprocess.run(arguments, env=environment(), check=True, capture_output=True)
    assert sorted(path.name for path in data.parent.iterdir()) == ["data.csv", "out.csv"]


def test_what_a_killed_run_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom clusterwise._files import whole_or_nothing\n"
        "with whole_or_nothing(sys.argv[1]) as path:\n"
        "    path.write_text('half'); print(path, flush=True); time.sleep(600)\n"
    )

    def start() -> tuple[subprocess.Popen[str], Path]:
        running = subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / "x.csv"],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert running.stdout is not None
        return running, Path(running.stdout.readline().strip())

    (killed, abandoned), (living, in_use) = start(), start()
    killed.kill()
    killed.communicate()
    with whole_or_nothing(tmp_path / "x.csv") as path:
        path.write_text("whole")
        assert not abandoned.exists() and in_use.exists()
    living.kill()
    living.communicate()


def test_a_full_disk(data: Path) -> None:
    """A limit of the size of files is felt as a full disk is."""
    import resource

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    arguments = command(
        "cluster", data, "--out", data.with_name("out.csv"), "--append", "--method", "gaussian-search"
    )
    ended = subprocess.run(arguments, env=environment(), capture_output=True, text=True, preexec_fn=limit)
    assert ended.returncode == 2
    assert [line.startswith("error:") for line in ended.stderr.splitlines() if "note:" not in line] == [True]
    assert [path.name for path in data.parent.iterdir()] == ["data.csv"]


@pytest.mark.parametrize("estimator", ["Clusterer", "GaussianSearch"])
def test_nowhere_to_write(tmp_path: Path, estimator: str) -> None:
    """Package, home and temporary folders are files: code is compiled anew, and pictures need no cache."""
    package = tmp_path / "lib" / "clusterwise"
    shutil.copytree(SOURCE / "clusterwise", package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    places = {
        "HOME": in_the_way,
        "XDG_CACHE_HOME": in_the_way,
        "XDG_CONFIG_HOME": in_the_way,
        "TMPDIR": in_the_way,
    }
    env = {**environment(**places), "PYTHONPATH": str(package.parent), "NUMBA_CACHE_DIR": ""}
    ended = subprocess.run(
        [sys.executable, "-B", "-c", FIT.format(estimator)],
        env=env,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert ended.stdout == "True\n", ended.stderr


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"no pickle"])
def test_damaged_caches_are_made_again(tmp_path: Path, content: bytes) -> None:
    fit = [sys.executable, "-c", FIT.format("GaussianSearch")]
    env = environment(NUMBA_CACHE_DIR=tmp_path)
    assert subprocess.run(fit, env=env, capture_output=True, text=True).stdout == "True\n"
    kept = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert kept
    for path in kept:
        path.write_bytes(content)
    again = subprocess.run(fit, env=env, capture_output=True, text=True)
    assert again.stdout == "True\n", again.stderr


def test_two_runs_on_one_output(data: Path) -> None:
    out = data.with_name("out.csv")
    arguments = command("cluster", data, "--out", out, "--method", "gaussian-search")
    runs = [subprocess.Popen(arguments, env=environment(), stderr=subprocess.DEVNULL) for _ in range(3)]
    assert [run.wait() for run in runs] == [0, 0, 0]
    assert len(out.read_text().splitlines()) == 4001
    assert sorted(path.name for path in data.parent.iterdir()) == ["data.csv", "out.csv"]


def test_writers_in_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa

    tables = [pa.table({"x": np.full(1000, number)}) for number in range(8)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda table: write_tables(tmp_path / "x.csv", [table], 1000), tables))
    assert len(set((tmp_path / "x.csv").read_text().splitlines()[1:])) == 1
    assert os.listdir(tmp_path) == ["x.csv"]
