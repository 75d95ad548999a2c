"""EM: the same goal as the plain steps, reached sooner; mass and clusters are kept."""

from __future__ import annotations

import numpy as np
import pytest

from clusterwise.polish import em as module
from clusterwise.polish.em import log_joint_of, refined, soft
from clusterwise.polish.evidence import Data, judge


def overlapping(seed: int, apart: float, n: int = 400) -> tuple[Data, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], n // 2)
    points = rng.standard_normal((n, 2)) + apart * labels[:, None]
    return Data(points / np.sqrt(np.square(points - points.mean(axis=0)).mean())), np.eye(2)[labels].T.copy()


def test_densities_and_entropies_are_those_of_the_mixture() -> None:
    data, memberships = overlapping(0, 2.0)
    state = judge(data, memberships, 0.0)
    log_joint = log_joint_of(data.rows, state.moments, state.hyper)
    found, entropy, log_density = soft(log_joint)
    np.testing.assert_allclose(log_density, np.logaddexp(*log_joint))
    np.testing.assert_allclose(found, np.exp(log_joint - log_density))
    np.testing.assert_allclose(entropy, -(found * np.log(found)).sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("apart", [1.0, 1.5, 2.0, 4.0])
def test_leaps_lead_where_many_plain_steps_lead(apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    data, memberships = overlapping(3, apart)
    mixed = 0.7 * memberships + 0.3 * memberships[::-1]
    start = judge(data, mixed, 0.0)
    monkeypatch.setattr(module, "STANDSTILL", 1e-6)
    leaping = refined(data, start, 200)
    monkeypatch.setattr(module, "LONGEST_LEAP", 1.0)
    plain = refined(data, start, 4000)
    assert leaping.log_evidence == pytest.approx(plain.log_evidence, abs=0.02)
    np.testing.assert_allclose(leaping.moments.counts, plain.moments.counts, atol=0.5)


def test_leaps_save_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    data, memberships = overlapping(3, 1.3)
    start = judge(data, 0.6 * memberships + 0.4 * memberships[::-1], 0.0)
    steps = []
    monkeypatch.setattr(module, "PATIENCE", 100)
    for longest in (20.0, 1.0):
        monkeypatch.setattr(module, "LONGEST_LEAP", longest)
        counted: list[int] = []
        monkeypatch.setattr(
            module, "soft", lambda values, counted=counted: (counted.append(1), soft(values))[1]
        )
        refined(data, start, 100)
        steps.append(len(counted))
    assert steps[0] < steps[1] / 2


def test_memberships_sum_to_one_and_empty_clusters_go() -> None:
    data, memberships = overlapping(1, 6.0)
    three = np.concatenate([memberships, 1e-9 * memberships[:1]])
    state = refined(data, judge(data, three, 0.0), 10)
    assert state.n_clusters == 2
    np.testing.assert_allclose(state.memberships.sum(axis=0), 1.0)
    assert state.moments.counts.sum() == pytest.approx(400)


def test_no_steps_change_nothing() -> None:
    data, memberships = overlapping(1, 6.0)
    state = judge(data, memberships, 0.0)
    assert refined(data, state, 0) is state
