"""P(K) of the judge of partitions is calibrated in the right direction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from clusterwise.training import partition_tasks
from clusterwise.training.partition_tasks import TEMPERATURES, _calibrate

N_TABLES = 400
NUMBERS = np.array([1, 3, 9, 27])  # of clusters: far from each other, none lends to another


class Forecaster:
    """A judge that is ``surety`` times too sure of the number of clusters, before it is calibrated."""

    def __init__(self, honest: np.ndarray, surety: float) -> None:
        self.logits = torch.from_numpy(surety * np.log(honest))
        self.temperature, self.spread = torch.ones(()), torch.ones(())

    def __call__(self, task: Any) -> Any:
        return SimpleNamespace(numbers=torch.log_softmax(self.logits / self.temperature, dim=1))


@pytest.mark.parametrize("surety", [1.0, 3.0])
def test_the_temperature_makes_up_for_too_much_surety(surety: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_tasks, "SPREADS", (0.001, 0.01))
    rng = np.random.default_rng(0)
    honest = rng.dirichlet(np.ones(4), N_TABLES)
    truth = NUMBERS[[rng.choice(4, p=p) for p in honest]]
    task = SimpleNamespace(
        true_n_clusters=torch.from_numpy(truth),
        n_clusters=torch.from_numpy(np.tile(NUMBERS, (N_TABLES, 1))),
        present=torch.ones(N_TABLES, 4, dtype=torch.bool),
    )
    model: Any = Forecaster(honest, surety)
    _calibrate(model, task)  # type: ignore[arg-type]
    step = TEMPERATURES[1] / TEMPERATURES[0]
    assert surety / step**1.5 < float(model.temperature) < surety * step**1.5
    np.testing.assert_allclose(model(task).numbers.exp().numpy(), honest, atol=0.1)
