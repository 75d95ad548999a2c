"""One thread inside, the user's own setting outside, whatever happens in between."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from clusterwise._threads import in_threads, n_threads, one_thread, use_threads


def threads() -> list[int]:
    """Threads of torch and of every library, as threadpoolctl sees them afresh."""
    return [torch.get_num_threads(), *(library["num_threads"] for library in threadpool_info())]


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    """Let every library have two threads, even on a machine with one core."""
    before = torch.get_num_threads()
    with threadpool_limits(2):
        torch.set_num_threads(2)
        yield
    torch.set_num_threads(before)


def test_one_inside_and_as_before_outside() -> None:
    before = threads()
    assert set(before) == {2}
    with one_thread():
        assert set(threads()) == {1}
        np.ones((50, 50)) @ np.ones((50, 50))
        assert set(threads()) == {1}
    assert threads() == before


def test_each_library_gets_its_own_number_back() -> None:
    with threadpool_limits(3, user_api="blas"):
        torch.set_num_threads(4)
        before = threads()
        assert {3, 4} <= set(before)
        with one_thread():
            assert set(threads()) == {1}
        assert threads() == before


def test_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), one_thread():
        1 / 0  # noqa: B018
    assert set(threads()) == {2}


def test_one_in_another() -> None:
    with one_thread():
        with one_thread():
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert set(threads()) == {2}


def test_who_asked_for_one_keeps_one() -> None:
    with threadpool_limits(1):
        torch.set_num_threads(1)
        with one_thread():
            pass
        assert set(threads()) == {1}


@one_thread()
def _countdown(n: int) -> list[int]:
    """Threads at the bottom of n + 1 calls, one in another."""
    return threads() if n == 0 else _countdown(n - 1)


def test_as_a_decorator() -> None:
    assert set(_countdown(3)) == {1}
    assert set(threads()) == {2}
    assert _countdown.__name__ == "_countdown"


WITHOUT_TORCH = """
import sys
from threadpoolctl import threadpool_info, threadpool_limits
import numpy as np
from clusterwise._threads import in_threads, n_threads, one_thread, use_threads

def threads():
    return {library["num_threads"] for library in threadpool_info()}

threadpool_limits(2)
with one_thread():
    np.ones((50, 50)) @ np.ones((50, 50))
    assert threads() == {1}, threads()
assert threads() == {2}, threads()
assert "torch" not in sys.modules

import torch  # its threads are found from now on
torch.set_num_threads(2)
with one_thread():
    assert torch.get_num_threads() == 1
    assert threads() == {1}, threads()
assert torch.get_num_threads() == 2
"""


def test_without_torch_and_with_torch_later() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True)


def test_pieces_are_shared_out_and_come_back_in_order() -> None:
    both = threading.Barrier(2, timeout=60)  # passed only by two threads at a time

    def piece(number: int) -> tuple[int, int]:
        both.wait()
        return number, n_threads()

    with use_threads(2):
        assert n_threads() == 2
        found = in_threads(piece, range(6))
    assert found == [(number, 1) for number in range(6)]  # a piece is not shared out again
    assert n_threads() == 1


def test_n_jobs_counts_as_in_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for n_jobs, expected in ((None, 1), (3, 3), (-1, 4), (-2, 3), (-9, 1)):
        with use_threads(n_jobs):
            assert n_threads() == expected


def test_an_error_in_a_piece_is_raised() -> None:
    with use_threads(2), pytest.raises(ZeroDivisionError):
        in_threads(lambda number: 1 / number, (1, 0, 2))
