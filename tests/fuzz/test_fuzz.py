"""New inputs for some seconds, and those that once ended badly, each in a process of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.__main__ import preload
from tests.fuzz.inputs import MAKERS, Input, make_input
from tests.fuzz.runner import Sandbox

SECONDS = float(os.environ.get("FUZZ_SECONDS", "12"))
CORPUS = sorted(Path(__file__).with_name("corpus").iterdir())
USES = {".safetensors": "weights", ".toml": "recipe"}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    preload()
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_files_that_once_ended_badly(sandbox: Sandbox, path: Path) -> None:
    data = path.read_bytes()
    name = path.name.partition("-")[2]
    assert sandbox.run(Input(name, data, USES.get(path.suffix, "table"), "corpus")).fault is None


def test_new_inputs(sandbox: Sandbox) -> None:
    seed, started, number = int(time.time()), time.monotonic(), 0
    while number < 20 or time.monotonic() - started < SECONDS:
        outcome = sandbox.run(make_input(seed, number))
        assert outcome.fault is None, f"python -m tests.fuzz --seed {seed} --start {number} --inputs 1"
        number += 1


def test_a_fault_is_seen(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    from clusterwise.tables import readers

    def crash(*_: object) -> None:
        os.abort()

    def leak(*_: object) -> None:
        Path("secret/secret.bin").read_bytes()
        raise ZeroDivisionError

    good = Input("data.npy", make_input(0, 0).data or b"x", "table", "good")
    for misdeed, fault in ((crash, "signal SIGABRT"), (leak, "traceback: ")):
        monkeypatch.setattr(readers, "read_numpy", misdeed)
        assert str(sandbox.run(good).fault).startswith(fault)


def test_every_maker_makes_the_same_again() -> None:
    assert make_input(3, 5) == make_input(3, 5)
    assert len({make_input(0, number).origin.split()[0] for number in range(150)}) > len(MAKERS)
