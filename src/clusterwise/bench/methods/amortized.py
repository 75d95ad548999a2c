"""Our own estimators, as a user calls them and as their papers print them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

from clusterwise.bench.registry import Case, Method, Outcome, register

__all__ = ["AS_PRINTED", "amortized", "weights_identity"]

# Clusters and their parameters as the network's own loop gives them: no zooming, no EM, no merging.
AS_PRINTED = {"zoom_levels": 0, "refine_steps": 0, "merge": False}


def amortized(estimator_name: str, as_printed: bool = False, **options: Any) -> Callable[[Case], Outcome]:
    """Build a runner of ``clusterwise.<estimator_name>(**options)``.

    ``as_printed`` takes the partition as the network's own loop left it; the options must then say that
    nothing follows the loop, so that its time is not counted either.
    """
    import clusterwise

    estimator = getattr(clusterwise, estimator_name)(**options)

    def run(case: Case) -> Outcome:
        estimator.set_params(random_state=case.seed).fit(case.points)
        labels = estimator.network_labels_ if as_printed else estimator.labels_
        return Outcome(labels, lambda: estimator.score(case.points))

    return run


def weights_identity(name: str) -> str:
    """Return the name and a fingerprint of shipped weights: retrained ones are another method."""
    from clusterwise.pretrained import weights_path

    digest = hashlib.sha256(weights_path(name).read_bytes()).hexdigest()
    return f"{name} {digest[:8]}"


def _entry(name: str, estimator_name: str, weights: str, **options: Any) -> Method:
    build = partial(amortized, estimator_name, weights=weights, **options)
    return Method(name, build, kind="ours", identity=partial(weights_identity, weights))


# Every entry comes twice: as a user calls it, and as its paper prints it.
_ENTRIES = {
    "DAC (minimum-loss)": ("DAC", "dac-minimum-loss-2d", {"filtering": "minimum-loss"}),
    "DAC (anchored)": ("DAC", "dac-anchored-2d", {"filtering": "anchored"}),
    # The shipped DAC weights were trained on more clusters than in the paper; these were not.
    "DAC (minimum-loss, trained on k <= 4)": ("DAC", "dac-minimum-loss-2d-k4", {"filtering": "minimum-loss"}),
    "ACT-ST": ("ACTST", "act-st-2d", {}),
}

for _name, (_estimator, _weights, _options) in _ENTRIES.items():
    register(
        _entry(_name, _estimator, _weights, **_options),
        _entry(f"{_name}, as printed", _estimator, _weights, as_printed=True, **AS_PRINTED, **_options),
    )
