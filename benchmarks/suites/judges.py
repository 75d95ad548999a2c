"""What the judges of ``cw.Clusterer`` add: the same trees and candidates, chosen by other means."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import silhouette_score

import clusterwise
from benchmarks.ours import ours
from benchmarks.scores import score
from benchmarks.suite import Case, Method, Outcome, Run, Suite
from benchmarks.suites.tables import PATIENCE, SECONDS, battery_of, data_sets, figures_by_battery
from benchmarks.summary import Rows
from clusterwise.clusterer.branches import ScoredTree
from clusterwise.clusterer.features import gaussian_fit
from clusterwise.clusterer.graph import Graph
from clusterwise.clusterer.proposers import PROPOSERS, Proposer, mixtures, tree_cuts
from clusterwise.clusterer.trees import LINKAGES
from clusterwise.gaussian.niw import sum_by_label
from clusterwise.pretrained import untrained as without_training

MOST_CLUSTERS = 30  # of the horizontal cuts that indices choose among
SILHOUETTE_ROWS = 1_000


_LAST: dict[bytes, Any] = {}  # the fit that all controls of one data set share


def _shared_fit(case: Case) -> Any:
    key = hashlib.sha256(case.points.tobytes()).digest()
    if key not in _LAST:
        _LAST.clear()
        _LAST[key] = clusterwise.Clusterer(random_state=case.seed).fit(case.points)
    return _LAST[key]


def chosen(choose: Callable[[Any, Case], np.ndarray], case: Case) -> Outcome:
    """The partition that ``choose`` picks from the fit of a case."""
    model = _shared_fit(case)
    if model._chosen.graph is None:
        return Outcome(model.labels_)
    return Outcome(model._labels_by(choose(model, case)))  # by a partition of the judged rows


def _horizontal(model: Any) -> Iterator[np.ndarray]:
    """Cuts of all trees into 1 to MOST_CLUSTERS clusters, by undoing the last merges."""
    for scored in model._chosen.graph.trees:
        for k in range(1, min(MOST_CLUSTERS, scored.tree.n_rows // 2) + 1):
            yield scored.tree.level(k)


def _silhouette(model: Any, labels: np.ndarray) -> float:
    if not 1 < labels.max() + 1 < len(labels):
        return -np.inf
    points = model._chosen.graph.points
    size = min(SILHOUETTE_ROWS, len(points))
    try:
        return float(silhouette_score(points, labels, sample_size=size, random_state=0))
    except ValueError:  # all rows of the sample in one cluster
        return -np.inf


def _bic(model: Any, labels: np.ndarray) -> float:
    graph = model._chosen.graph
    sums = sum_by_label(graph.moments, labels, int(labels.max()) + 1)
    return -float(gaussian_fit(graph, labels, sums)[2])


def _dbcv(model: Any, labels: np.ndarray) -> float:
    if labels.max() == 0:
        return -np.inf
    edges = model._chosen.graph.reachability
    one, other = labels[edges.ends].T
    k = int(labels.max()) + 1
    sparseness, separation = np.zeros(k), np.full(k, np.inf)
    inside = one == other
    np.maximum.at(sparseness, one[inside], edges.lengths[inside])
    for ends in (one, other):
        np.minimum.at(separation, ends[~inside], edges.lengths[~inside])
    validity = (separation - sparseness) / np.maximum(np.maximum(separation, sparseness), 1e-300)
    return float(validity @ np.bincount(labels) / len(labels))


INDICES = {"silhouette": _silhouette, "BIC": _bic, "DBCV": _dbcv}


def by_index(name: str, model: Any, case: Case) -> np.ndarray:
    """Choose among horizontal cuts by a validity index."""
    return max(_horizontal(model), key=lambda labels: INDICES[name](model, labels))


def by_stability(model: Any, case: Case) -> np.ndarray:
    """Choose nodes of the single-linkage tree by their excess of mass."""
    graph = model._chosen.graph
    branches = next(scored.branches for scored in graph.trees if scored.tree.kind == "single")
    tree, nodes = branches.tree, branches.nodes
    densities = 1 / np.maximum(tree.heights, 1e-12)
    parents = tree.parents[nodes]
    born = np.where(parents >= 0, densities[parents], densities[nodes])
    excess = densities[nodes] - born  # per row; none for the root
    labels = ScoredTree(branches, excess, excess).best_partition(graph.points)
    return np.unique(labels, return_inverse=True)[1]


def best_candidate(model: Any, case: Case) -> np.ndarray:
    """The candidate with the largest ARI on the rows that the judges saw."""
    rows = model._rows.order[model._chosen.context.judged]
    references = tuple(reference[rows] for reference in case.references)
    seen = Case(case.points[rows], case.seed, references)
    return max(model._chosen.candidates, key=lambda labels: score("ARI", seen, labels))


def without_tree(kind: str) -> dict[str, Proposer]:
    """Proposers that do not see one of the linkage trees."""
    own = {"tree-cuts": tree_cuts, "mixtures": mixtures}
    return {**PROPOSERS, **{name: partial(_proposed_without, kind, propose) for name, propose in own.items()}}


def _proposed_without(kind: str, propose: Proposer, graph: Graph) -> Iterable[np.ndarray]:
    return propose(_without(graph, kind))


def _without(graph: Graph, kind: str) -> Graph:
    return replace(graph, trees=tuple(scored for scored in graph.trees if scored.tree.kind != kind))


def with_proposers(proposers: list[Proposer]) -> Run:
    """The judges' choice among what these propose."""
    model = clusterwise.Clusterer(proposers=proposers)
    return lambda case: Outcome(model.set_params(random_state=case.seed).fit_predict(case.points))


def untrained() -> Run:
    """Both judges with freshly drawn weights."""
    pair = (without_training("node-judge"), without_training("partition-judge"))
    model = clusterwise.Clusterer(judges=pair)
    return lambda case: Outcome(model.set_params(random_state=case.seed).fit_predict(case.points))


def _others(name: str) -> list[Proposer]:
    """All proposers but one, or all without one of the linkage trees."""
    if name in LINKAGES:
        return list(without_tree(name).values())
    return [propose for own, propose in PROPOSERS.items() if own != name]


def methods() -> list[Method]:
    """The estimator, other criteria, the upper bound, and each kind of candidate taken out."""
    picked = partial(partial, partial, chosen)  # what builds a method from what chooses
    all_methods = [
        ours("Clusterer"),
        Method("judges untrained", untrained, "control"),
        *(Method(f"{name} instead", picked(partial(by_index, name)), "control") for name in INDICES),
        Method("stability instead", picked(by_stability), "control"),
        Method("best candidate", picked(best_candidate), "reference", sees_truth=True),
        *(
            Method(f"without {name}", partial(with_proposers, _others(name)), "ours")
            for name in (*LINKAGES, *PROPOSERS)
        ),
    ]
    return [replace(method, group="judges") for method in all_methods]


def report(rows: Rows, page: Path) -> list[str]:
    """Every figure by battery but the time, as the controls share one fit."""
    return figures_by_battery(rows, rows.names("method"), "##", SECONDS)


def judges(quick: bool) -> Suite:
    data = [one for one in data_sets(quick) if battery_of(one.name) not in ("texts", "features")]
    metrics = ("ARI", "k", "true k", "k error", "right k")
    return Suite(data, methods(), report=report, metrics=metrics, patience=PATIENCE)


SUITES = {"judges": judges}
