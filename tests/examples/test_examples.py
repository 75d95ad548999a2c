"""The short examples run, and show what they say they do."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_topics() -> None:
    names = runpy.run_path(str(EXAMPLES / "topics_in_bertopic.py"))
    topics = names["main"]()
    subjects = [set(words.split()) for words in names["SUBJECTS"].values()]
    assert len(topics) == 4
    assert all(any(set(words) <= subject for subject in subjects) for words in topics.values())


def test_cells() -> None:
    cells = runpy.run_path(str(EXAMPLES / "cells_in_scanpy.py"))["main"]()
    assert cells.obs["clusterwise"].dtype == "category"
    codes = np.asarray(cells.obs["clusterwise"].cat.codes)
    assert adjusted_rand_score(cells.obs["cell_type"], codes) > 0.99
