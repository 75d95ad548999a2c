"""ACT-ST: Eqs 10-12 against loops, the posterior over k, the learned stop."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor
from torch.distributions import Independent, Normal

from clusterwise import ACTST
from clusterwise.papers.act_st import ACTSTConfig, ACTSTNetwork, Mixtures, act_st_loss, log_k_posterior
from clusterwise.papers.model import Inference, TrainingTask

SMALL = {"width": 8, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 2, "n_decoder_blocks": 2}


def network(seed: int = 0, **options: Any) -> ACTSTNetwork:
    torch.manual_seed(seed)
    return ACTSTNetwork(ACTSTConfig(**{**SMALL, "n_wavelengths": 2, **options})).double()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def going_on_until(k: int, **options: Any) -> ACTSTNetwork:
    """A network that stops at k, whatever the data: v_j is the same for all j."""
    model = network(**options)
    with torch.no_grad():
        model.go_on.weight.zero_()
        v = 0.5 ** (1 / (k - 0.5))  # v^k < 0.5 < v^(k - 1)
        model.go_on.bias.fill_(math.log(v / (1 - v)))
    return model


def infer(model: ACTSTNetwork, points: Tensor, **options: Any) -> Inference:
    (inference,) = model.infer(points[None], torch.ones(1, len(points), dtype=torch.bool), **options)
    return inference


def log_joint_of(mixtures: Mixtures, b: int, k: int, points: Tensor) -> Tensor:
    """log(pi_j p(x_i; theta_j)), (k, N), of points (N, d) in the mixture of k components of data set b."""
    terms = []
    for j in range(k):
        density = Normal(mixtures.means[b, k - 1, j], mixtures.log_sds[b, k - 1, j].exp())
        terms.append(mixtures.log_proportions[b, k - 1, j] + Independent(density, 1).log_prob(points))
    return torch.stack(terms)


# -- Eqs 10 and 11 -----------------------------------------------------------------------------------


@torch.no_grad()
def naive_mixture(model: ACTSTNetwork, points: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """v_k, proportions, means and log sds of k components for points (1, N, d), no other k beside it."""
    h = model.embed(points)
    for block in model.encoder:
        h = block(h)
    seeds = [model.first_seed]
    while len(seeds) < k:
        seeds.append(model.next_seed(torch.cat(seeds, dim=1)))
    h_theta = model.pool(torch.cat(seeds, dim=1), h)
    for block in model.decoder:
        h_theta = block(h_theta)
    v = torch.sigmoid(sum(model.go_on(h_theta)[0, j, 0] for j in range(k)) / k)
    raw = torch.exp(model.proportion(h_theta)[0, :, 0])
    return v, raw / raw.sum(), *(part[0] for part in model.density(h_theta))


@pytest.mark.parametrize("k_max", [5, 8])
def test_mixtures_are_eqs_10_and_11(k_max: int) -> None:
    """However many of them are computed."""
    model, points = network(), normal(2, 9, 2)
    with torch.no_grad():
        mixtures = model(points, None, k_max)
    for b in range(2):
        go_on = 1.0
        for k in range(1, 6):
            v, proportions, means, log_sds = naive_mixture(model, points[b : b + 1], k)
            go_on *= float(v)
            assert float(mixtures.log_go_on[b, k - 1]) == pytest.approx(math.log(go_on), rel=1e-9)
            torch.testing.assert_close(mixtures.log_proportions[b, k - 1, :k].exp(), proportions)
            assert (mixtures.log_proportions[b, k - 1, k:] == -torch.inf).all()
            torch.testing.assert_close(mixtures.means[b, k - 1, :k], means)
            torch.testing.assert_close(mixtures.log_sds[b, k - 1, :k], log_sds)


# -- Eq 12 -------------------------------------------------------------------------------------------


def test_loss_is_eq_12() -> None:
    points, n_clusters = normal(4, 9, 2), torch.tensor([1, 2, 3, 4])
    with torch.no_grad():
        mixtures = network()(points, None, 4)
        result = act_st_loss(mixtures, points, n_clusters, stop_weight=3.0)
    for b, k_true in enumerate(n_clusters.tolist()):
        log_likelihood = log_joint_of(mixtures, b, k_true, points[b]).exp().sum(0).log().mean()
        cross_entropy = 0.0
        for k, log_go_on in enumerate(mixtures.log_go_on[b].tolist(), start=1):
            c = math.exp(log_go_on)
            cross_entropy -= math.log(c if k < k_true else 1 - c)
        assert float(result[b]) == pytest.approx(3 * cross_entropy - float(log_likelihood), rel=1e-9)


def test_matched_likelihood_is_that_of_the_best_permutation() -> None:
    points, n_clusters = normal(3, 12, 2), torch.tensor([3, 1, 2])
    labels = torch.arange(12).repeat(3, 1) % n_clusters[:, None]
    with torch.no_grad():
        mixtures = network()(points, None, 4)
        matched = act_st_loss(mixtures, points, n_clusters, labels)
        marginal = act_st_loss(mixtures, points, n_clusters)
    assert (matched >= marginal - 1e-12).all()
    assert float(matched[1]) == pytest.approx(float(marginal[1]))  # one cluster has one permutation
    for b, k in enumerate(n_clusters.tolist()):
        log_joint = log_joint_of(mixtures, b, k, points[b])
        best = max(
            sum(float(log_joint[order[int(y)], i]) for i, y in enumerate(labels[b]))
            for order in itertools.permutations(range(k))
        )
        log_likelihood = float(torch.logsumexp(log_joint, dim=0).mean())
        assert float(matched[b] - marginal[b]) == pytest.approx(log_likelihood - best / 12)


@pytest.mark.parametrize("likelihood", ["marginal", "matched"])
@pytest.mark.parametrize(("k_true", "go_on"), [(1, 100.0), (3, 0.0), (6, 0.0)])
def test_gradients_are_finite(likelihood: str, k_true: int, go_on: float) -> None:
    """With more clusters than k_max too, and where c_k rounds to one and the target is to stop."""
    model = network(likelihood=likelihood, k_max=4)
    with torch.no_grad():
        model.go_on.bias.fill_(go_on)
    labels = torch.arange(12).repeat(2, 1) % k_true
    loss = model.loss(TrainingTask(normal(2, 12, 2), labels, torch.full((2,), k_true)), torch.Generator())
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


# -- inference ---------------------------------------------------------------------------------------


def test_posterior_over_k_sums_to_one() -> None:
    log_go_on = torch.log(torch.tensor([0.9, 0.5, 0.5, 0.1], dtype=torch.float64))
    posterior = log_k_posterior(log_go_on).exp()
    np.testing.assert_allclose(posterior.numpy(), [0.1, 0.4, 0.0, 0.5], atol=1e-12)  # 0.1 of it beyond four


@pytest.mark.parametrize("k", [1, 3, 4, 5, 9])
def test_stops_where_the_network_does(k: int) -> None:
    """Beyond the k_max of training (4) too; a point's label is its most probable component."""
    model, points = going_on_until(k), normal(40, 2)
    inference = infer(model, points)
    assert not inference.cap_reached
    with torch.no_grad():
        log_joint = log_joint_of(model(points[None], None, k), 0, k, points)
    labels = np.unique(log_joint.argmax(0).numpy(), return_inverse=True)[1]
    np.testing.assert_array_equal(inference.labels, labels)


def test_cap_ends_a_network_that_always_goes_on() -> None:
    model, points = going_on_until(10_000), normal(15, 2)
    for max_clusters in (1, 3, 6):
        inference = infer(model, points, max_clusters=max_clusters)
        assert inference.cap_reached


def test_other_sets_of_a_batch_that_go_on_change_nothing() -> None:
    """The posterior over k is that of the data set alone."""
    model, sets = network(k_max=2), normal(30, 8, 2, seed=4)
    with torch.no_grad():
        # As many sets go on after the second step as stop there.
        v = math.exp(float(model(sets, None, 2).log_go_on[:, 1].median()) / 2)
        model.go_on.bias.add_(math.log(0.5**0.5 / (1 - 0.5**0.5)) - math.log(v / (1 - v)))
    numbers, present = set(), torch.ones(30, 8, dtype=torch.bool)
    for one, together in zip(sets, model.infer(sets, present, n_draws=50), strict=True):
        alone = infer(model, one, n_draws=50)
        assert together.draw_probabilities == pytest.approx(alone.draw_probabilities)
        numbers.add(len(together.draws))
    assert len(numbers) > 1


def test_likely_numbers_of_clusters_come_as_draws() -> None:
    """Each with its probability, the answer's own first; the answer is that without draws."""
    model, points = network(k_max=4), normal(40, 2)
    alone, drawn = infer(model, points), infer(model, points, n_draws=20)
    assert torch.equal(alone.labels, drawn.labels)
    assert alone.draws == () and alone.draw_probabilities == ()
    with torch.no_grad():
        posterior = log_k_posterior(model(points[None], None, 4).log_go_on[0]).exp().tolist()
    likely = sorted((p for p in posterior if p >= 1e-3), reverse=True)
    assert len(drawn.draw_probabilities) == 1 + len(drawn.draws) == len(likely)
    np.testing.assert_allclose(sorted(drawn.draw_probabilities, reverse=True), likely)
    assert len(infer(model, points, n_draws=1).draws) == min(1, len(likely) - 1)
    for labels in drawn.draws:
        assert set(labels.tolist()) == set(range(int(labels.max()) + 1))


# -- the estimator -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three() -> tuple[np.ndarray, np.ndarray]:
    """Three clusters as in the training data; (240, 2) and their classes."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [120, 80, 40])
    return np.array([[0.0, 0.0], [4.0, 1.0], [-2.0, 5.0]])[truth] + rng.normal(0, 0.25, (240, 2)), truth


def test_three_clusters(three: tuple) -> None:
    X, truth = three
    estimator = ACTST(random_state=0).fit(X)
    assert adjusted_rand_score(truth, estimator.labels_) > 0.95
    assert max(estimator.k_posterior_, key=estimator.k_posterior_.get) == 3


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_learned_stop_knows_easy_numbers(three: tuple, k: int) -> None:
    X, truth = three
    probabilities = ACTST(random_state=0).fit(X[truth < k]).k_posterior_
    assert probabilities[k] == max(probabilities.values())


def test_weights() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    assert ACTST().fit(X).weights_name_ == "act-st-2d"
    assert ACTST().fit(X).steps_ == ()
