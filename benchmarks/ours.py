"""Our estimators as methods of a benchmark; networks come in the same rows each, controls included.

All rows have the estimators' own caps: the network sees 256 rows (AMCP's and DAC's 1,024). "All rows" says
where it is otherwise. What an untrained network finds, and a search without any (``GaussianSearch``), is what
a trained one has to beat.
"""

import copy
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import clusterwise
from benchmarks.suite import BenchmarkError, Case, Method, Outcome, Run
from clusterwise.pretrained import Weights, get_weights, list_weights, weights_path
from clusterwise.pretrained import untrained as without_training
from clusterwise.pretrained.lookup import read_header

ALL_ROWS: dict[str, Any] = {"max_network_points": 10_000}


def find_weights(weights: str | Path) -> str | Path:
    """Weights as estimators take them; those of ``labelled_weights`` are trained if they are not there."""
    if weights in list_weights() or Path(weights).is_file():
        return weights
    from benchmarks.labelled_weights import RUNS, trained_weights

    if weights in RUNS:
        return trained_weights(str(weights))
    raise BenchmarkError(
        f"There are no weights {weights}, neither shipped nor trained on labels; train them."
    )


def weights_identity(weights: str | Path, trained: bool = True) -> str:
    """The name and a fingerprint of the tensors of weights: retrained ones are another method."""
    digest = read_header(weights_path(find_weights(weights)))[0]["digest"]
    return f"{Path(weights).stem} {digest[:8]}{'' if trained else ', untrained'}"


def configured(weights: Weights, options: Mapping[str, Any]) -> Weights:
    """The same weights with other options in the configuration of their network."""
    model = copy.copy(weights.model)
    model.config = replace(model.config, **options)
    return replace(weights, model=model)


def estimator(
    name: str,
    weights: str | Path | Weights | None = None,
    trained: bool = True,
    density: bool = True,
    more: Callable[[Any, Case], Mapping[str, Any]] | None = None,
    network: Mapping[str, Any] | None = None,
    **options: Any,
) -> Run:
    """One of our estimators, with weights that are read once; untrained ones have the same shape.

    ``network`` changes the configuration of the network: how it infers, as far as that is no parameter.

    After the clock has stopped it tells the density of the points, whether ``fit`` warned, and ``more``.
    """
    if isinstance(weights, Weights):
        options["weights"] = weights
    elif weights is not None:
        found = find_weights(weights)
        options["weights"] = found if trained else without_training(found, seed=0)
    if network is not None:
        options["weights"] = configured(get_weights(options["weights"]), network)
    model = getattr(clusterwise, name)(**options)

    def run(case: Case) -> Outcome:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")  # chains that did not converge: their result counts all the same
            model.set_params(random_state=case.seed).fit(case.points)
        warned = {"warned": int(len(caught) > 0)}
        score = (lambda: float(model.score(case.points))) if density else None
        return Outcome(model.labels_, score, lambda true: {**warned, **(more(model, true) if more else {})})

    return run


def ours(name: str, estimator_name: str | None = None, **options: Any) -> Method:
    """A method with the name of its row, by default that of the estimator."""
    return Method(name, partial(estimator, estimator_name or name, **options), kind="ours")


# Names of the rows: trained and not.
alone = "{}, network alone".format
untrained_alone = "{}, untrained network alone".format


@dataclass(frozen=True)
class Family:
    """An estimator with weights, and its rows in a table."""

    name: str
    estimator: str  # in ``clusterwise``
    weights: str
    options: dict[str, Any] = field(default_factory=dict)

    def entry(self, name: str, trained: bool = True, **options: Any) -> Method:
        """One row of a table; the weights are part of its identity."""
        chosen = {**self.options, **options}
        build = partial(estimator, self.estimator, self.weights, trained, **chosen)
        identity = partial(weights_identity, self.weights, trained)
        return Method(name, build, "ours" if trained else "control", identity=identity, group="networks")

    def entries(self) -> tuple[Method, ...]:
        """All rows; a suite says which of them it has."""
        return (
            self.entry(alone(self.name)),
            self.entry(f"{alone(self.name)}, all rows", **ALL_ROWS),
            self.entry(untrained_alone(self.name), trained=False),
        )


MINIMUM_LOSS = {"filtering": "minimum-loss"}
FAMILIES = {
    family.name: family
    for family in (
        Family("AMCP", "AMCP", "amcp-2d"),
        Family("DAC (minimum-loss)", "DAC", "dac-minimum-loss-2d", MINIMUM_LOSS),
        Family("DAC (anchored)", "DAC", "dac-anchored-2d", {"filtering": "anchored"}),
        Family("ACT-ST", "ACTST", "act-st-2d"),
        Family("CHiGac", "CHiGac", "chigac-2d"),
        Family("NCP", "NCP", "ncp-2d"),
    )
}
FLOWS = Family("DAC with flows", "DAC", "dac-warped-2d")  # for bent clusters
_rows = [row for family in (*FAMILIES.values(), FLOWS) for row in family.entries()]
OURS = {row.name: row for row in (*_rows, *map(ours, ("Clusterer", "GaussianSearch", "DPMixture")))}
