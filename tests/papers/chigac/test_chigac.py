"""CHiGac: the parts of the network against slow versions, training states, and the loop."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from torch import Tensor
from torch.nn import functional

import clusterwise as cw
from clusterwise.exceptions import RecipeError
from clusterwise.papers.chigac.bound import STRATEGIES, TAU
from clusterwise.papers.chigac.chigac import CHiGacConfig, CHiGacNetwork, _pioneers
from clusterwise.papers.chigac.generation import Loop
from clusterwise.papers.chigac.prefixes import (
    direction_of_pioneers,
    next_clusters,
    objectives,
    random_prefix,
)
from clusterwise.papers.model import TrainingTask
from clusterwise.papers.registry import make_model
from clusterwise.partition import canonical_labels

SMALL = CHiGacConfig(
    width=8,
    n_heads=2,
    n_inducing=4,
    n_encoder_blocks=1,
    n_wavelengths=2,
    n_coordinates=5,
    n_hidden=4,
    n_summaries=2,
    n_inner_steps=2,
    n_states=3,
)


def build(seed: int = 0, **options: Any) -> CHiGacNetwork:
    torch.manual_seed(seed)
    model = CHiGacNetwork(dataclasses.replace(SMALL, **options)).double()
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter *= 2.0  # so that an untrained network tells points apart
    return model


def task_of(n_sets: int = 3, sizes: tuple[int, ...] = (12, 10, 14), seed: int = 0) -> TrainingTask:
    """Clear clusters of these sizes in every data set."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).expand(n_sets, -1)
    centres = 3.0 * torch.randn(n_sets, len(sizes), 2, generator=generator, dtype=torch.float64)
    noise = 0.1 * torch.randn(*labels.shape, 2, generator=generator, dtype=torch.float64)
    points = centres.gather(1, labels.unsqueeze(-1).expand(-1, -1, 2)) + noise
    return TrainingTask(points, labels.contiguous(), torch.full((n_sets,), len(sizes)))


# -- states of training ------------------------------------------------------------------------------


def prefixes(n_states: int = 4) -> Any:
    labels = torch.tensor([[0] * 20 + [1] * 20 + [2] * 20] * 300 + [[0] * 60] * 100)
    n_clusters = torch.tensor([3] * 300 + [1] * 100)
    prefix = random_prefix(labels, n_clusters, n_states, torch.Generator().manual_seed(3))
    return labels, n_clusters, prefix


def test_prefixes_assign_uniformly_many_clusters() -> None:
    _, _, prefix = prefixes()
    counts = torch.bincount(prefix.n_assigned[:300], minlength=4)
    assert bool((counts > 75 - 4 * 7.5).all())
    assert bool((counts < 75 + 4 * 7.5).all())
    assert torch.equal(prefix.is_over[300:], prefix.n_assigned[300:] == 1)


def test_every_cluster_is_whole_in_the_order_of_assignment() -> None:
    labels, n_clusters, prefix = prefixes()
    for b in (0, 7, 299, 350):
        found = {tuple(row.nonzero().squeeze(1).tolist()) for row in prefix.clusters[b] if row.any()}
        expected = {tuple((labels[b] == k).nonzero().squeeze(1).tolist()) for k in range(int(n_clusters[b]))}
        assert found == expected


def test_what_is_left_is_the_other_clusters_and_a_few_stragglers() -> None:
    _, _, prefix = prefixes()
    ranks = torch.arange(3)[None, :, None] < prefix.n_assigned[:, None, None]
    assigned = (prefix.clusters & ranks).any(1)
    assert bool((prefix.left | assigned).all())  # nobody else was taken
    stragglers = prefix.left & assigned
    share = stragglers.sum() / assigned.sum()
    assert 0.02 < float(share) < 0.05  # a third of a tenth
    sizes = (prefix.clusters & ~prefix.left.unsqueeze(1)).sum(-1)
    assert torch.equal(sizes, prefix.sizes)


def test_candidates_are_whole_unassigned_clusters_and_different_where_there_are_enough() -> None:
    labels, _, prefix = prefixes()
    for b in range(0, 300, 17):
        chosen = [set(labels[b][row].tolist()) for row in prefix.members[b] if row.any()]
        if prefix.is_over[b]:
            continue
        assert all(len(one) == 1 for one in chosen)
        n_left = 3 - int(prefix.n_assigned[b])
        assert len(set.union(*chosen)) == min(n_left, 4)
        assert bool((prefix.left[b] | ~prefix.members[b].any(0)).all())


# -- the network -------------------------------------------------------------------------------------


def test_pioneers_of_training_and_of_the_loop_have_the_same_scores() -> None:
    """Eq 11 with our reading, from a slow loop over the prefix, against both fast ones."""
    model, task = build(), task_of()
    encoded = model.encode(task.points, None)
    prefix = random_prefix(task.labels, task.n_clusters, 2, torch.Generator().manual_seed(1))
    sums = prefix.clusters.double() @ encoded.h
    direction, _, _ = direction_of_pioneers(model, encoded.h, prefix, sums)
    for b in range(len(task.points)):
        earlier = []
        for k in range(int(prefix.n_assigned[b]) + 1):
            taken = prefix.clusters[b, :k].any(0)
            left = ~taken
            if k == int(prefix.n_assigned[b]):
                left = prefix.left[b]
                taken = ~left
            means = [
                encoded.h[b][rows].mean(0) if rows.any() else torch.zeros(8, dtype=torch.float64)
                for rows in (taken, left)
            ]
            earlier.append(model.prototypes(*means)[0])
        *others, own = earlier
        for j in (0, 11, 30):
            e = encoded.pioneering[b, j]
            score = torch.cosine_similarity(e, own, dim=0) / TAU
            if others:
                score = (
                    score - torch.stack([torch.cosine_similarity(e, m, dim=0) for m in others]).mean() / TAU
                )
            torch.testing.assert_close(e @ direction[b] / TAU, score)


def test_the_second_score_of_a_pioneer_adds_to_the_first() -> None:
    points = task_of().points[:1]
    everybody = torch.ones(points.shape[:2], dtype=torch.bool)
    assert not build().encode(points, None).central.any()
    model = build(central=True, stop="empty", recentre=0)
    with torch.no_grad():
        encoded = model.encode(points, None)
        assert float(encoded.central.std()) > 0
        for j in (0, 7, 30):
            scores = torch.zeros_like(encoded.central)
            scores[0, j] = 100.0
            loop = Loop(model, encoded._replace(central=scores), everybody, [0], 0, 20)
            assert loop.run()[0].steps[0].anchor == j


def test_means_and_representations_have_unit_length() -> None:
    model, task = build(), task_of()
    encoded = model.encode(task.points, None)
    prefix = random_prefix(task.labels, task.n_clusters, 2, torch.Generator().manual_seed(1))
    members = prefix.members.double()
    context = model.context(encoded.h, encoded.h[:, :0], encoded.h[:, :0, 0], prefix.left)
    prior, w = model.prior(encoded.h, context, encoded.h[:, :2], encoded.sphere[:, :2])
    psi = model.posterior(encoded, members, w)
    for vectors in (encoded.sphere, encoded.pioneering, prior.mean, psi.mean):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones_like(vectors[..., 0]))


def test_a_cluster_that_does_not_exist_changes_nothing() -> None:
    model, task = build(), task_of()
    h = model.encode(task.points, None).h
    left = torch.ones(h.shape[:2], dtype=torch.bool)
    left[:, :12] = False
    sums, sizes = h[:, :12].sum(1, keepdim=True), torch.full((3, 1), 12.0, dtype=torch.float64)
    one = model.context(h, sums, sizes, left)
    garbage, none = torch.full_like(sums, 1e3), torch.zeros_like(sizes)
    other = model.context(h, torch.cat([sums, garbage], 1), torch.cat([sizes, none], 1), left)
    torch.testing.assert_close(one.hidden, other.hidden)
    pioneer = (h[:, 20:21], functional.normalize(h[:, 20:21, :5], dim=-1))
    torch.testing.assert_close(model.prior(h, one, *pioneer)[0].mean, model.prior(h, other, *pioneer)[0].mean)


@pytest.mark.parametrize("inference", STRATEGIES)
def test_training_raises_the_likelihood_of_clusters(inference: Any) -> None:
    task = task_of(n_sets=8)
    model = build(inference=inference)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    losses = []
    for step in range(40):
        loss = model.loss(task, torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.7 * sum(losses[:10])


def test_the_loss_is_a_function_of_the_generator() -> None:
    model, task = build(), task_of()
    one, same, other = (model.loss(task, torch.Generator().manual_seed(s)).item() for s in (1, 1, 2))
    assert one == same != other


def test_nothing_but_stragglers_teaches_to_stop() -> None:
    """Where all clusters are assigned the bound of the memberships is zero."""
    model, task = build(hybrid=False), task_of(n_sets=40, sizes=(30,))
    prefix = random_prefix(task.labels, task.n_clusters, 2, torch.Generator().manual_seed(1))
    assert 0 < int(prefix.is_over.sum()) < 40
    generator = torch.Generator().manual_seed(2)
    candidates = next_clusters(model, model.encode(task.points, None), prefix, generator)
    without = candidates._replace(of_pioneer=torch.zeros(40, 2))
    bound = objectives(model, without, prefix, generator)
    assert torch.equal(bound[prefix.is_over], torch.zeros_like(bound[prefix.is_over]))
    assert bool((bound[~prefix.is_over] < 0).all())
    over = candidates.of_pioneer[prefix.is_over]
    torch.testing.assert_close(over[:, 0], over[:, 1])


# -- the loop ----------------------------------------------------------------------------------------


def everyone(points: Tensor) -> Tensor:
    return torch.ones(points.shape[:2], dtype=torch.bool)


def test_pioneers_start_the_steps_and_belong_to_their_clusters() -> None:
    points = task_of().points
    for stop in ("learned", "empty"):
        for inference in build(3, stop=stop, recentre=1).infer(points, everyone(points)):
            taken = torch.zeros(points.shape[1], dtype=torch.bool)
            for step in inference.steps:
                assert step.anchor is not None
                assert step.members[step.anchor]
                assert not bool((step.members & taken).any())
                taken |= step.members
            if stop == "empty":
                assert bool(taken.all())


def trained(**options: Any) -> CHiGacNetwork:
    """A small network after a hundred steps on three clear clusters."""
    torch.manual_seed(0)
    model = CHiGacNetwork(dataclasses.replace(SMALL, width=16, n_coordinates=8, **options))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(150):
        task = task_of(n_sets=16, seed=step)
        task = dataclasses.replace(task, points=task.points.float())
        loss = model.loss(task, torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def network() -> CHiGacNetwork:
    return trained()


def configured(network: CHiGacNetwork, **options: Any) -> CHiGacNetwork:
    """The same network with other options of its configuration."""
    other = copy.copy(network)
    other.config = dataclasses.replace(network.config, **options)
    return other


def test_draws_differ_among_each_other_and_not_from_seed_to_seed(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=2, seed=1000).points.float()
    one, same, other = (
        network.infer(points, everyone(points), seeds=seeds, n_draws=8) for seeds in ([1, 2], [1, 2], [3, 2])
    )
    for a, b in zip(one, same, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a.draws, b.draws, strict=True))
    assert any(not torch.equal(x, y) for x, y in zip(one[0].draws, other[0].draws, strict=True))
    assert all(torch.equal(x, y) for x, y in zip(one[1].draws, other[1].draws, strict=True))
    assert len({tuple(draw.tolist()) for draw in one[0].draws}) > 1


def test_draws_do_not_depend_on_the_neighbours_in_the_batch(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=2, seed=1000).points.float()
    padded = functional.pad(points, (0, 0, 0, 9), value=50.0)
    mask = torch.arange(padded.shape[1]) < torch.tensor([[36], [36]])
    alone = network.infer(points[:1], everyone(points[:1]), seeds=[5], n_draws=6)[0]
    together = network.infer(padded, mask, seeds=[5, 6], n_draws=6)[0]
    assert torch.equal(alone.labels, together.labels[:36])
    for a, b in zip(alone.draws, together.draws, strict=True):
        assert torch.equal(a, b[:36])


def test_the_first_path_is_the_same_with_and_without_draws(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=3, seed=1001).points.float()
    without = network.infer(points, everyone(points))
    with_draws = network.infer(points, everyone(points), n_draws=3)
    for a, b in zip(without, with_draws, strict=True):
        assert torch.equal(a.labels, b.labels)
        assert [step.anchor for step in a.steps] == [step.anchor for step in b.steps]


def test_recentred_pioneers_are_in_the_middle_of_their_clusters(network: CHiGacNetwork) -> None:
    """Nearer to the mean of the cluster they belong to, on average, than those that Eq 11 chose."""
    task = task_of(n_sets=40, seed=1004)
    points = task.points.float()

    def mean_distance(recentre: int) -> float:
        distances = []
        found = configured(network, recentre=recentre).infer(points, everyone(points))
        for of_set, inference in zip(points, found, strict=True):
            for step in inference.steps:
                if int(step.members.sum()) >= 5:
                    assert step.anchor is not None
                    distances.append((of_set[step.anchor] - of_set[step.members].mean(0)).norm())
        return float(torch.stack(distances).mean())

    assert mean_distance(2) < 0.8 * mean_distance(0)


@pytest.mark.parametrize("says", [-torch.inf, torch.inf])
def test_the_learned_stop_leaves_stragglers_to_the_clusters_that_want_them(
    network: CHiGacNetwork, monkeypatch: pytest.MonkeyPatch, says: float
) -> None:
    """Who never says that nobody is a pioneer goes on to the end; who always does takes one step."""
    points = task_of(n_sets=10, seed=1002).points.float()
    empty = configured(network, stop="empty").infer(points, everyone(points))
    prototypes = network.prototypes

    def decided(*means: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found, nobody = prototypes(*means)
        return found, torch.full_like(nobody, says)

    monkeypatch.setattr(network, "prototypes", decided)
    for a, b in zip(network.infer(points, everyone(points)), empty, strict=True):
        assert len(torch.unique(a.labels)) == int(a.labels.max()) + 1
        torch.testing.assert_close(a.steps[0].members, b.steps[0].members)
        if says < 0:
            assert torch.equal(a.labels, b.labels)
        else:
            assert len(a.steps) == 1
            assert torch.equal(a.labels, torch.zeros_like(a.labels))


def test_a_cap_is_reported_and_every_point_labelled(network: CHiGacNetwork) -> None:
    points = task_of(n_sets=20, seed=1003).points.float()
    inferences = network.infer(points, everyone(points), max_clusters=1, n_draws=2)
    assert any(inference.cap_reached for inference in inferences)
    for inference in inferences:
        assert torch.equal(inference.labels, torch.zeros_like(inference.labels))
        assert inference.cap_reached == (not bool(inference.steps[0].members.all()))


# -- options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": "mcmc"}, "inference of chigac must be one of 'amortized', .*'ergodic', got 'mcmc'"),
        ({"inner_rate": 0.0}, "inner_rate of chigac must be a positive number, got 0.0"),
        ({"inner_rate": True}, "inner_rate of chigac must be a positive number, got True"),
        ({"inner_rate": "fast"}, "inner_rate of chigac must be a positive number, got 'fast'"),
        ({"inner_rate": float("nan")}, "inner_rate of chigac must be a positive number, got nan"),
        ({"n_inner_steps": -1}, "n_inner_steps of chigac must be a whole number of at least 0, got -1"),
        ({"hybrid": 1}, "hybrid of chigac must be true or false, got 1"),
    ],
)
def test_options_outside_their_domain_are_named(options: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        make_model("chigac", options)


def test_only_iterative_inference_has_an_update() -> None:
    names = {s: {name for name, _ in build(inference=s).named_parameters()} for s in STRATEGIES}
    extra = names["iterative"] - names["ergodic"]
    assert extra and all(name.startswith("update.") for name in extra)
    for strategy in STRATEGIES:
        assert names[strategy] - extra == names["ergodic"]


# -- the estimator -----------------------------------------------------------------------------------


@pytest.fixture
def weights(tiny_networks: Path) -> Path:
    return tiny_networks / "tiny-chigac.safetensors"


@pytest.fixture(scope="module")
def close_pair() -> np.ndarray:
    """Two clusters so close that one could doubt them, and a third far away; (120, 2)."""
    rng = np.random.default_rng(5)
    centres = np.repeat([[0.0, 0.0], [3.0, 0.0], [20.0, 5.0]], 40, axis=0)
    return centres + rng.normal(size=(120, 2))


@pytest.mark.parametrize("options", [{}, {"refine": None}, {"refine": "em"}])
def test_pioneers_stand_for_the_clusters(weights: Path, close_pair: np.ndarray, options: Any) -> None:
    estimator = cw.CHiGac(weights=weights, random_state=0, **options).fit(close_pair)
    assert estimator.pioneers_.shape == (estimator.n_clusters_,)
    np.testing.assert_array_equal(estimator.labels_[estimator.pioneers_], np.arange(estimator.n_clusters_))
    started = [step.anchor for step in estimator.steps_]
    for label, pioneer in enumerate(estimator.pioneers_):
        of_cluster = [row for row in started if estimator.labels_[row] == label]
        if of_cluster:
            assert pioneer == of_cluster[0]
        else:
            rows = np.flatnonzero(estimator.labels_ == label)
            centred = close_pair[rows] - estimator.means_[label]
            squares = np.linalg.solve(estimator.covariances_[label], centred.T).T * centred
            assert pioneer == rows[squares.sum(axis=1).argmin()]


def test_pioneers_do_not_depend_on_the_order_of_the_rows(weights: Path, close_pair: np.ndarray) -> None:
    order = np.random.default_rng(2).permutation(len(close_pair))
    one = cw.CHiGac(weights=weights, random_state=0).fit(close_pair)
    other = cw.CHiGac(weights=weights, random_state=0).fit(close_pair[order])
    assert set(order[other.pioneers_]) == set(one.pioneers_)


def test_pioneers_among_rows_that_the_network_did_not_see(weights: Path) -> None:
    """A cluster without a row among those shown has a pioneer all the same."""
    labels = np.array([0, 1, 0, 1, 2, 2])
    found = _pioneers(labels, np.array([3, 2, 0]), np.array([5.0, 4.0, 3.0, 2.0, 0.9, 0.8]))
    np.testing.assert_array_equal(found, [2, 3, 5])
    points = cw.datasets.load_demo()[0]
    estimator = cw.CHiGac(weights=weights, random_state=0, max_network_points=50).fit(points)
    np.testing.assert_array_equal(estimator.labels_[estimator.pioneers_], np.arange(estimator.n_clusters_))


def test_the_posterior_is_about_what_is_doubtful(weights: Path, close_pair: np.ndarray) -> None:
    posterior = cw.CHiGac(weights=weights, random_state=0).fit(close_pair).k_posterior_
    assert sum(posterior.values()) == pytest.approx(1.0)
    assert posterior.get(2, 0.0) + posterior.get(3, 0.0) > 0.8


def test_samples_agree_with_the_posterior(weights: Path, close_pair: np.ndarray) -> None:
    estimator = cw.CHiGac(weights=weights, random_state=0).fit(close_pair)
    samples = estimator.sample_partitions(200)
    # Drawn memberships may leave a cluster of a few rows empty, so this is a comparison, not an equality.
    for k, probability in estimator.k_posterior_.items():
        if probability > 0.05:
            assert abs(samples.k_posterior.get(k, 0.0) - probability) < 0.25
    assert adjusted_rand_score(samples.consensus().labels, estimator.labels_) > 0.5


def test_without_refining_the_posterior_is_that_of_the_draws(weights: Path, close_pair: np.ndarray) -> None:
    estimator = cw.CHiGac(weights=weights, random_state=0, refine=None).fit(close_pair)
    posterior = estimator.k_posterior_
    assert sum(posterior.values()) == pytest.approx(1.0)
    shares = np.array(list(posterior.values())) * 20
    np.testing.assert_allclose(shares, shares.round(), atol=1e-9)  # 20 drawn paths


def test_more_paths_do_not_lose_the_best(weights: Path, close_pair: np.ndarray) -> None:
    """The likeliest path is among the candidates whatever else is drawn."""
    one = cw.CHiGac(weights=weights, random_state=0).fit(close_pair)
    many = cw.CHiGac(weights=weights, random_state=0, n_draws=10).fit(close_pair)
    np.testing.assert_array_equal(one.network_labels_, many.network_labels_)


def test_draws_are_averaged() -> None:
    """On clusters that lie in each other, where the paths drawn on all rows disagree."""
    rng = np.random.default_rng(2)
    points = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 9.0]])[rng.integers(3, size=300)]
    points += rng.normal(size=points.shape)
    estimator = cw.CHiGac(random_state=0, n_draws=20, max_network_points=256).fit(points)
    of_the_answer = estimator._clusters.memberships(estimator._space.apply(points))
    assert abs(estimator.membership_ - of_the_answer).max() > 0.001
    np.testing.assert_allclose(estimator.membership_.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(estimator.membership_.argmax(axis=1), estimator.labels_)
    np.testing.assert_array_equal(estimator.predict(points), estimator.labels_)
    (many, _) = clone(estimator).fit_predict_many([points, points[:50]])
    np.testing.assert_array_equal(many, estimator.labels_)
    arrived = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(arrived.predict_proba(points + 0.1), estimator.predict_proba(points + 0.1))
    order = rng.permutation(len(points))
    shuffled = clone(estimator).fit(points[order])
    np.testing.assert_array_equal(shuffled.labels_, canonical_labels(estimator.labels_[order]))
    columns = estimator.labels_[order][
        [np.argmax(shuffled.labels_ == k) for k in range(shuffled.n_clusters_)]
    ]
    np.testing.assert_array_equal(shuffled.membership_, estimator.membership_[order][:, columns])


def test_the_posterior_over_k_is_about_the_mixtures_that_are_averaged(
    weights: Path, close_pair: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator = cw.CHiGac(weights=weights, random_state=0, n_draws=5).fit(close_pair)
    monkeypatch.setattr(cw.CHiGac, "_pipeline", None)  # no further paths
    assert set(estimator.k_posterior_) == {m.n_clusters for m in estimator._assigner.beliefs.clusters}
