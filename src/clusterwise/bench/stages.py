"""Where the time of a call goes, by stages, without a hook in the code that is measured.

A stage is a name and the functions whose time it gets. Entering one starts its clock and stops that of the
stage around it; what runs in no stage is "other".
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any

__all__ = ["OTHER", "code_of", "stage_seconds"]

OTHER = "other"


def code_of(name: str) -> CodeType | None:
    """Return the code of ``module:function`` or ``module:Class.method``; None if there is no such thing."""
    module, _, path = name.partition(":")
    try:
        found: Any = functools.reduce(getattr, path.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return None
    code = getattr(inspect.unwrap(found), "__code__", None)
    return code if isinstance(code, CodeType) else None


def stage_seconds(run: Callable[[], object], stages: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Call ``run`` and return the seconds that each stage took, "other" last; they sum to the whole.

    Functions that do not exist are passed over: their time is that of the stage around them.
    """
    stage_of = {
        code: stage
        for stage, names in stages.items()
        for name in names
        if (code := code_of(name)) is not None
    }
    seconds = dict.fromkeys([*stages, OTHER], 0.0)
    stack = [OTHER]
    since = time.perf_counter()

    def switch() -> None:
        nonlocal since
        now = time.perf_counter()
        seconds[stack[-1]] += now - since
        since = now

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "return") and (stage := stage_of.get(frame.f_code)) is not None:
            switch()
            if event == "call":
                stack.append(stage)
            else:
                stack.pop()

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(before)
    switch()
    return seconds
