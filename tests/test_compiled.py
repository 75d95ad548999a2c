"""Machine code is kept where there is a place for it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROGRAM = textwrap.dedent(
    """
    from clusterwise._compiled import compiled

    @compiled
    def double(x):
        return 2 * x

    print(double(21))
    """
)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights of folders are those of POSIX")
@pytest.mark.parametrize("has_temporary", [True, False])
def test_places_that_cannot_be_written_to(tmp_path: Path, has_temporary: bool) -> None:
    """A plain user whose home and package are read-only; root writes anywhere: files are in the way."""
    in_the_way, temporary = tmp_path / "file", tmp_path / "tmp"
    in_the_way.write_text("")
    if has_temporary:
        temporary.mkdir()
    source = tmp_path / "package" / "program.py"
    source.parent.mkdir()
    (source.parent / "__pycache__").write_text("")  # where numba would put its folder
    source.write_text(PROGRAM)
    places = {"HOME": str(in_the_way), "XDG_CACHE_HOME": str(in_the_way), "TMPDIR": str(temporary)}
    run = subprocess.run(
        [sys.executable, "-B", str(source)], capture_output=True, text=True, env={**os.environ, **places}
    )
    assert run.stdout == "42\n", run.stderr
    kept = list(temporary.rglob("*.nbi"))
    assert bool(kept) == has_temporary
