"""Progress is printed now and then, and only if it is asked for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from clusterwise.deepdpm.history import History
from clusterwise.estimators import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that stands still unless ``now`` is set."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_a_chain_says_every_few_seconds_how_far_it_is(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    loud, silent = progress.chain_progress("chain 1", 1), progress.chain_progress("chain 2", 0)
    for seconds, n_clusters in [(0.5, 3), (2.5, 4), (3.0, 5), (4.4, 6), (4.6, 7)]:
        clock.now = 100.0 + seconds
        loud(n_clusters)
        silent(n_clusters)
    assert capsys.readouterr().out == "chain 1: step 2, 4 clusters\nchain 1: step 5, 7 clusters\n"


def test_epochs(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    loud, silent = progress.epoch_progress(1), progress.epoch_progress(0)
    history = History()
    for n_clusters in (1, 2):
        history.add_epoch(n_clusters, 0.25 * n_clusters)
        history.add_moves(splits=n_clusters, merges=1)
        clock.now += 1.5
        loud(history)
        silent(history)
    assert capsys.readouterr().out == "DeepDPM: epoch 2, 2 clusters, loss 0.5000, 3 splits and 2 merges\n"
