"""Tables in files that tests read in batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def write_parts(tmp_path: Path) -> Callable[..., Path]:
    """Write arrays as the files of a directory, columns named a, b, c, ..."""

    def write(*parts: np.ndarray) -> Path:
        folder = tmp_path / "table"
        folder.mkdir(exist_ok=True)
        for number, part in enumerate(parts):
            table = pyarrow.table({chr(97 + j): column for j, column in enumerate(part.T)})
            parquet.write_table(table, folder / f"part-{number}.parquet", row_group_size=700)
        return folder

    return write
