"""What the judges of ``cw.Clusterer`` add: the same trees and candidates, chosen by other means."""

import hashlib
from collections.abc import Callable, Iterator
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
from clusterwise.clusterer.cut import best_cut, labels_of_cut
from clusterwise.clusterer.judged import describe_judged
from clusterwise.clusterer.linkages import LINKAGES
from clusterwise.clusterer.partitions import _gaussian
from clusterwise.clusterer.proposers import ORIGINS, filled
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
    if model._judged.considered is None:
        return Outcome(model.labels_)
    # All rows are labelled by a partition of those that the judges saw.
    answer = choose(model, case)
    return Outcome(describe_judged(model._prepared, model._judged, answer, alone=True).labels)


def _horizontal(model: Any) -> Iterator[np.ndarray]:
    """Cuts of all trees into 1 to MOST_CLUSTERS clusters, by undoing the last merges."""
    for nodes in model._judged.considered.trees:
        tree = nodes.tree
        m = tree.n_rows
        parts = [2 * m - 2]
        for _ in range(min(MOST_CLUSTERS, m // 2)):
            labels = np.empty(m, dtype=np.int64)
            for label, part in enumerate(parts):
                labels[tree.rows(part)] = label
            yield labels
            last = max(parts)  # nodes are numbered in the order of their merges
            if last < m:
                break
            parts.remove(last)
            parts += [int(child) for child in tree.children[last]]


def _silhouette(model: Any, labels: np.ndarray) -> float:
    if not 1 < labels.max() + 1 < len(labels):
        return -np.inf
    points = model._judged.considered.near.points
    size = min(SILHOUETTE_ROWS, len(points))
    try:
        return float(silhouette_score(points, labels, sample_size=size, random_state=0))
    except ValueError:  # all rows of the sample in one cluster
        return -np.inf


def _bic(model: Any, labels: np.ndarray) -> float:
    measured = model._judged.considered.measured
    sums = sum_by_label(measured.lifted, labels, int(labels.max()) + 1)
    return -float(_gaussian(measured, labels, sums)[2])


def _dbcv(model: Any, labels: np.ndarray) -> float:
    if labels.max() == 0:
        return -np.inf
    edges = model._judged.considered.near.reachability
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
    found = model._judged.considered
    nodes = next(one for one in found.trees if one.tree.kind == "single")
    densities = 1 / np.maximum(nodes.tree.heights, 1e-12)
    parents = nodes.tree.parents[nodes.nodes]
    born = np.where(parents >= 0, densities[parents], densities[nodes.nodes])
    excess = densities[nodes.nodes] - born  # per row; none for the root
    labels = filled(found.near, labels_of_cut(nodes, best_cut(nodes.sizes, nodes.children, excess)))
    return np.unique(labels, return_inverse=True)[1]


def best_candidate(model: Any, case: Case) -> np.ndarray:
    """The candidate with the largest ARI on the rows that the judges saw."""
    rows = model._prepared.order[model._prepared.shown]
    references = tuple(reference[rows] for reference in case.references)
    seen = Case(case.points[rows], case.seed, references)
    return max(model._judged.candidates, key=lambda labels: score("ARI", seen, labels))


def without(kind: str, model: Any, case: Case) -> np.ndarray:
    """The judge's choice among candidates that are left without one kind."""
    judged = model._judged
    tree = list(LINKAGES).index(kind) if kind in LINKAGES else None
    for labels, place in zip(judged.candidates, judged.ranking, strict=True):
        of_tree = tree is not None and judged.considered.from_trees[place] == tree
        if not of_tree and ORIGINS[judged.considered.origins[place]] != kind:
            return labels
    return judged.candidates[0]


def untrained() -> Run:
    """Both judges with freshly drawn weights."""
    pair = (without_training("node-judge"), without_training("partition-judge"))
    model = clusterwise.Clusterer(judges=pair)
    return lambda case: Outcome(model.set_params(random_state=case.seed).fit_predict(case.points))


def methods() -> list[Method]:
    """The estimator, other criteria, the upper bound, and each kind of candidate taken out."""
    picked = partial(partial, partial, chosen)  # what builds a method from what chooses
    all_methods = [
        ours("Clusterer"),
        Method("judges untrained", untrained, "control"),
        *(Method(f"{name} instead", picked(partial(by_index, name)), "control") for name in INDICES),
        Method("stability instead", picked(by_stability), "control"),
        Method("best candidate", picked(best_candidate), "reference", sees_truth=True),
        *(Method(f"without {kind}", picked(partial(without, kind)), "ours") for kind in ORIGINS),
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
