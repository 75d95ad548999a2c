"""Five ways of inference in CHiGac: Tables 3 and 4 of its paper, Figures 3 and 6; see ``inference_study``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from clusterwise.bench.registry import Study, register

__all__ = ["TITLE", "run"]

TITLE = "Inference of CHiGac: five strategies, same network, data and steps"


def run(out: Path, quick: bool, write: Callable[[str], object]) -> Path:
    """Train and measure small networks; about 40 minutes, or one if ``quick``."""
    from clusterwise.bench.inference_study import run as run_plan  # torch: only for those who run it

    return run_plan(out, quick, write)


register(Study("chigac-inference", TITLE, run))
