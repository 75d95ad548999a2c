"""Progress is printed now and then, and only if it is asked for."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import clusterwise as cw
from clusterwise.deepdpm.method import History
from clusterwise.exceptions import InvalidDataError
from clusterwise.fitting import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still unless ``now`` is set."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_a_chain_says_every_few_seconds_how_far_it_is(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    loud, silent = progress.chain_progress("chain 1", 1, 10), progress.chain_progress("chain 2", 0, 10)
    for seconds, n_clusters in [(0.5, 3), (2.5, 4), (3.0, 5), (4.4, 6), (4.6, 7)]:
        clock.now = 100.0 + seconds
        loud(n_clusters)
        silent(n_clusters)
    assert capsys.readouterr().out == (
        "chain 1 [####................] step 2 of at most 10, 4 clusters\n"
        "chain 1 [##########..........] step 5 of at most 10, 7 clusters\n"
    )


def test_epochs(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    loud, silent = progress.epoch_progress(1, 4), progress.epoch_progress(0, 4)
    history = History()
    for n_clusters in (1, 2):
        history.add_epoch(n_clusters, 0.25 * n_clusters)
        history.add_moves(splits=n_clusters, merges=1)
        clock.now += 1.5
        loud(history)
        silent(history)
    assert capsys.readouterr().out == (
        "DeepDPM [##########..........] epoch 2 of at most 4, 2 clusters, loss 0.5000, 3 splits "
        "and 2 merges\n"
    )


def test_stages_are_named_while_they_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN", 0.01)
    with progress.stage_progress("AMCP", 1, 4) as begin:
        begin("preparing")
        begin("proposing clusters")
        deadline = time.perf_counter() + 10
        printed = ""
        while "proposing" not in printed and time.perf_counter() < deadline:
            time.sleep(0.02)
            printed += capsys.readouterr().out
    assert "AMCP [#####...............] proposing clusters, " in printed
    capsys.readouterr()
    with progress.stage_progress("AMCP", 0, 4) as begin:
        begin("preparing")
        time.sleep(0.05)
    assert capsys.readouterr().out == ""


def test_a_fit_that_fails_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(InvalidDataError):
        cw.GaussianSearch(verbose=1).fit([[np.nan, 1.0]])
    assert set(threading.enumerate()) <= before  # threads of other tests may end meanwhile
