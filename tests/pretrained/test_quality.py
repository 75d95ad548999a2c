"""The shipped weights find clusters: a cheap look at what the benchmark measures on more data."""

from __future__ import annotations

import warnings
from types import ModuleType

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from benchmarks.suite import Case
from clusterwise.exceptions import CapReachedWarning, MisfitWarning
from clusterwise.pretrained import untrained
from clusterwise.priors import MixtureOfGaussians

# Of bent clusters there is ``test_quality_of_flows``.
PROPOSERS = [
    name
    for name in cw.list_weights()
    if cw.pretrained.describe(name)["n_features"] == 2 and name != "dac-warped-2d"
]


def draw_case(n_max: int, k_max: int, index: int) -> Case:
    """Draw a data set of DAC's Eq 13 with a seed of its own: no benchmark's and no training's."""
    rng = np.random.default_rng([2**20, n_max, k_max, index])
    drawn = MixtureOfGaussians(k_max=k_max).draw_set(rng, int(rng.integers(0.3 * n_max, n_max)))
    return Case(drawn.points, index, (drawn.labels,), drawn.oracle_labels(), drawn.oracle_log_likelihood())


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Eight data sets of DAC's Eq 13, of up to 1000 points and 4 clusters."""
    return [draw_case(1000, 4, index) for index in range(8)]


def mean_ari(cases: list[Case], labels: list[np.ndarray]) -> float:
    pairs = zip(cases, labels, strict=True)
    return float(np.mean([adjusted_rand_score(case.references[0], of_case) for case, of_case in pairs]))


def oracle_ari(cases: list[Case]) -> float:
    return mean_ari(cases, [case.oracle_labels for case in cases])


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
@pytest.mark.parametrize("name", PROPOSERS)
def test_the_network_alone_has_learned_to_cluster(
    make_golden: ModuleType, cases: list[Case], name: str
) -> None:
    """The same network before training is the control."""
    points = [case.points for case in cases]
    alone = make_golden.estimator_for(name)
    trained = mean_ari(cases, alone.fit_predict_many(points))
    with warnings.catch_warnings():
        for category in (CapReachedWarning, MisfitWarning):  # untrained loops do not find an end
            warnings.simplefilter("ignore", category)
        alone.set_params(weights=untrained(name, seed=0), max_clusters=12)
        control = alone.fit_predict_many(points)
    assert trained > oracle_ari(cases) - 0.1
    assert mean_ari(cases, control) < trained - 0.3


# Weights trained on few clusters or small sets do not go so far.
@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
@pytest.mark.parametrize("name", ["amcp-2d", "chigac-2d", "dac-minimum-loss-2d", "dac-anchored-2d"])
def test_more_clusters_than_the_paper_trains_on(make_golden: ModuleType, name: str) -> None:
    cases = [draw_case(3000, 12, index) for index in range(5)]
    alone = make_golden.estimator_for(name)
    labels = alone.fit_predict_many([case.points for case in cases])
    assert mean_ari(cases, labels) > oracle_ari(cases) - 0.2


def test_unseen_characters_are_told_apart(make_golden: ModuleType) -> None:
    images, kinds = make_golden.scribbles(n_kinds=12, each=15, seed=1, jitter=1.2)
    found = make_golden.estimator_for("amcp-characters").fit_predict(images)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        control = cw.AMCP(weights=untrained("amcp-characters"), random_state=0).fit_predict(images)
    assert adjusted_rand_score(kinds, found) > 0.9
    assert adjusted_rand_score(kinds, control) < adjusted_rand_score(kinds, found) - 0.05


def test_anchored_samples_agree_with_the_fit(make_golden: ModuleType, cases: list[Case]) -> None:
    """Sampled partitions of easy data are the one that fit found, and P(K) is sure of its k."""
    names = [
        name for name in PROPOSERS if "anchored" in name or name.startswith(("act-st", "amcp", "chigac"))
    ]
    for name in names:
        estimator = make_golden.estimator_for(name).fit(cases[0].points)
        consensus = estimator.sample_partitions(10).consensus().labels
        assert adjusted_rand_score(consensus, estimator.labels_) > 0.95
