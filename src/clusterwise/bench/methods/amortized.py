"""Our networks, each in the same rows of a table: alone, before a search, and without training.

All rows have the estimators' own caps, the same for all methods: the network sees 256 rows and the search
10,000. "All rows" says where it is otherwise. What a search makes of an untrained network, and of no network
at all (``GaussianSearch``), is what a trained one has to beat.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from clusterwise.bench.registry import BenchmarkError, Case, Method, Outcome, register

__all__ = [
    "ALL_ROWS",
    "FAMILIES",
    "NCP_ON_MIXTURES",
    "Family",
    "alone",
    "amortized",
    "find_weights",
    "gaussian_search",
    "untrained",
    "untrained_alone",
    "weights_identity",
    "with_search",
]

ALL_ROWS: dict[str, Any] = {"max_network_points": 10_000}
# Weights that only comparisons need are not in the package; the path leads out of src/ in a checkout.
CHECKOUT = Path(__file__).resolve().parents[4]


def find_weights(weights: str | Path) -> str | Path:
    """Return shipped weights by their name, others by their path; ``weights`` may be either."""
    from clusterwise.pretrained import list_weights

    if weights in list_weights() or Path(weights).is_file():
        return weights
    path = CHECKOUT / "benchmarks" / "weights" / f"{weights}.safetensors"
    if not path.is_file():
        raise BenchmarkError(
            f"The weights {weights} are for comparisons only and do not come with the package: "
            "run this from a checkout of the repository, which has them in benchmarks/weights/."
        )
    return path


def weights_identity(weights: str | Path, trained: bool = True) -> str:
    """Return the name and a fingerprint of weights: retrained ones are another method."""
    from clusterwise.pretrained import weights_path

    digest = hashlib.sha256(weights_path(find_weights(weights)).read_bytes()).hexdigest()
    return f"{Path(weights).stem} {digest[:8]}{'' if trained else ', untrained'}"


def amortized(
    estimator_name: str, weights: str | Path, trained: bool = True, **options: Any
) -> Callable[[Case], Outcome]:
    """Build a runner of ``clusterwise.<estimator_name>(**options)``."""
    import clusterwise
    from clusterwise.pretrained import untrained

    found = find_weights(weights)
    network = found if trained else untrained(found, seed=0)
    estimator = getattr(clusterwise, estimator_name)(weights=network, **options)

    def run(case: Case) -> Outcome:
        estimator.set_params(random_state=case.seed).fit(case.points)
        return Outcome(estimator.labels_, lambda: estimator.score(case.points))

    return run


def gaussian_search() -> Callable[[Case], Outcome]:
    """The search from scratch, without a network."""
    import clusterwise

    def run(case: Case) -> Outcome:
        estimator = clusterwise.GaussianSearch(random_state=case.seed).fit(case.points)
        return Outcome(estimator.labels_, lambda: estimator.score(case.points))

    return run


def alone(name: str) -> str:
    """Name of the row with the network's own labels."""
    return f"{name}, network alone"


def untrained(name: str) -> str:
    """Name of the row with the search from an untrained network's labels."""
    return f"{name}, untrained + search"


def untrained_alone(name: str) -> str:
    """Name of the row with an untrained network's own labels."""
    return f"{name}, untrained network alone"


def with_search(name: str) -> str:
    """Name of the row with everything that ``fit`` does by default."""
    return f"{name} + search"


@dataclass(frozen=True)
class Family:
    """An estimator with weights, and its rows in a table."""

    name: str
    estimator: str  # in ``clusterwise``
    weights: str
    options: dict[str, Any] = field(default_factory=dict)

    def entry(
        self, name: str, refine: Literal["search"] | None, trained: bool = True, **options: Any
    ) -> Method:
        """One row of a table."""
        chosen = {**self.options, "refine": refine, **options}
        return Method(
            name,
            partial(amortized, self.estimator, self.weights, trained, **chosen),
            kind="ours" if trained else "control",
            identity=partial(weights_identity, self.weights, trained),
            group="networks",
        )

    def entries(self) -> tuple[Method, ...]:
        """All rows; which of them a table has is said in ``lineup``."""
        return (
            self.entry(alone(self.name), None),
            self.entry(f"{alone(self.name)}, all rows", None, **ALL_ROWS),
            self.entry(untrained_alone(self.name), None, trained=False),
            self.entry(untrained(self.name), "search", trained=False),
            self.entry(with_search(self.name), "search"),
        )


FAMILIES = (
    Family("AMCP", "AMCP", "amcp-2d"),
    Family("DAC (minimum-loss)", "DAC", "dac-minimum-loss-2d", {"filtering": "minimum-loss"}),
    Family("DAC (anchored)", "DAC", "dac-anchored-2d", {"filtering": "anchored"}),
    Family("ACT-ST", "ACTST", "act-st-2d"),
    Family("CHiGac", "CHiGac", "chigac-2d"),
    Family("NCP", "NCP", "ncp-2d"),
)
# Of NCP's shipped weights the training data are Chinese restaurant mixtures; of these they are DAC's.
NCP_ON_MIXTURES = Family("NCP (trained on mog)", "NCP", "ncp-2d-mog")
# The shipped weights of DAC were trained on more clusters than in the paper; these were not.
_DAC_SMALL = Family(
    "DAC (minimum-loss, trained on k <= 4)", "DAC", "dac-minimum-loss-2d-k4", {"filtering": "minimum-loss"}
)

for _family in (*FAMILIES, NCP_ON_MIXTURES, _DAC_SMALL):
    register(*_family.entries())
register(Method("GaussianSearch", gaussian_search, kind="ours"))
