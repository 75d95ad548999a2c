"""Trained weights say what they said when they were published.

After a change of the weights, and only then: ``python tests/pretrained/make_golden.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from sklearn.metrics import adjusted_rand_score

FOLDER = Path(__file__).parent / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def test_every_weights_file_has_its_golden_file_and_its_card() -> None:
    from clusterwise.pretrained import list_weights, weights_path

    assert list_weights() == NAMES
    for path in map(weights_path, NAMES):
        assert path.with_suffix(".md").is_file()
        assert path.stat().st_size < 5e6


# ``fit`` may say of a network alone that two clusters look like one; what counts here is what it found.
@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
@pytest.mark.parametrize("name", NAMES)
def test_golden(make_golden: ModuleType, name: str) -> None:
    golden = json.loads((FOLDER / f"{name}.json").read_text())
    now = make_golden.outcome(name)
    assert now["digest"] == golden["digest"], "other weights: run tests/pretrained/make_golden.py"
    # Another processor rounds in another way, which may turn a row at the edge of its cluster.
    assert adjusted_rand_score(now["labels"], golden["labels"]) > 0.99
    assert now["log_likelihood"] == pytest.approx(golden["log_likelihood"], abs=1e-3)
    if "five" in golden:
        assert adjusted_rand_score(now["five"], golden["five"]) > 0.97
        assert now["log_expected_ari"] == pytest.approx(golden["log_expected_ari"], abs=0.02)
