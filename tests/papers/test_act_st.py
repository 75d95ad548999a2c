"""ACT-ST: Eqs 10-12 against loops, prefixes, the posterior over k, the learned stop."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Normal

from clusterwise.papers.act_st import ACTST, ACTSTConfig, Mixtures, act_st_loss, log_k_posterior
from clusterwise.papers.model import Inference, TrainingTask

SMALL = {"width": 8, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 2, "n_decoder_blocks": 2}


def network(seed: int = 0, **options: Any) -> ACTST:
    torch.manual_seed(seed)
    return ACTST(ACTSTConfig(**{**SMALL, "n_wavelengths": 2, **options})).double()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def going_on_until(k: int, **options: Any) -> ACTST:
    """Return a network that stops at k, whatever the data: v_j is the same for all j."""
    model = network(**options)
    with torch.no_grad():
        model.go_on.weight.zero_()
        v = 0.5 ** (1 / (k - 0.5))  # v^k < 0.5 < v^(k - 1)
        model.go_on.bias.fill_(math.log(v / (1 - v)))
    return model


def infer(model: ACTST, points: Tensor, **options: Any) -> Inference:
    (inference,) = model.infer(points[None], torch.ones(1, len(points), dtype=torch.bool), **options)
    return inference


# -- Eqs 10 and 11 -----------------------------------------------------------------------------------


@torch.no_grad()
def naive_mixture(model: ACTST, points: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """v_k, proportions, means and log sds of k components for points (1, N, d), no other k beside it."""
    h = model.embed(points)
    for block in model.encoder:
        h = block(h)
    seeds = [model.first_seed]
    while len(seeds) < k:
        seeds.append(model.next_seed(torch.cat(seeds, dim=1)))
    h_theta = model.pool(torch.cat(seeds, dim=1), h)
    for sab in model.decoder:
        h_theta = sab(h_theta)
    v = torch.sigmoid(sum(model.go_on(h_theta)[0, j, 0] for j in range(k)) / k)
    raw = torch.exp(model.proportion(h_theta)[0, :, 0])
    return v, raw / raw.sum(), *(part[0] for part in model.density(h_theta))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_mixtures_are_eqs_10_and_11(layer_norm: bool) -> None:
    model, points = network(layer_norm=layer_norm), normal(2, 9, 2)
    with torch.no_grad():
        mixtures = model(points, None, 5)
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


def test_a_mixture_does_not_depend_on_how_many_are_computed() -> None:
    model, points, mask = network(), normal(2, 9, 2), torch.arange(9) < torch.tensor([[9], [6]])
    with torch.no_grad():
        largest = model(points, mask, 7)
        for k_max in range(1, 7):
            some = model(points, mask, k_max)
            torch.testing.assert_close(some.log_go_on, largest.log_go_on[:, :k_max])
            for k in range(1, k_max + 1):
                for part, whole in zip(some[1:], largest[1:], strict=True):
                    torch.testing.assert_close(part[:, k - 1, :k], whole[:, k - 1, :k])


def test_seeds_are_a_prefix_of_more_seeds() -> None:
    model = network()
    torch.testing.assert_close(model.seeds(3), model.seeds(6)[:, :3])


def test_masking_a_point_equals_deleting_it() -> None:
    model, points = network(), normal(1, 9, 2)
    mask = torch.tensor([[1, 0, 1, 1, 0, 1, 1, 1, 0]], dtype=torch.bool)
    with torch.no_grad():
        masked = model(points.masked_fill(~mask[..., None], 1e6), mask, 3)
        deleted = model(points[:, mask[0]], None, 3)
    for part, expected in zip(masked, deleted, strict=True):
        torch.testing.assert_close(part, expected)


# -- Eq 12 -------------------------------------------------------------------------------------------


def naive_loss(mixtures: Mixtures, points: Tensor, n_clusters: Tensor) -> list[float]:
    """Eq 12 by loops over data sets, points, components and steps."""
    losses = []
    for b, k_true in enumerate(n_clusters.tolist()):
        log_likelihood = 0.0
        for x in points[b].tolist():
            density = 0.0
            for j in range(k_true):
                term = math.exp(mixtures.log_proportions[b, k_true - 1, j])
                for coordinate, mean, log_sd in zip(
                    x,
                    mixtures.means[b, k_true - 1, j].tolist(),
                    mixtures.log_sds[b, k_true - 1, j].tolist(),
                    strict=True,
                ):
                    sd = math.exp(log_sd)
                    term *= math.exp(-((coordinate - mean) ** 2) / (2 * sd**2)) / (
                        sd * math.sqrt(2 * math.pi)
                    )
                density += term
            log_likelihood += math.log(density)
        cross_entropy = 0.0
        for k, log_go_on in enumerate(mixtures.log_go_on[b].tolist(), start=1):
            c = math.exp(log_go_on)
            cross_entropy -= math.log(c if k < k_true else 1 - c)
        losses.append(cross_entropy - log_likelihood / points.shape[1])
    return losses


def test_loss_is_eq_12() -> None:
    model, points, n_clusters = network(), normal(4, 9, 2), torch.tensor([1, 2, 3, 4])
    with torch.no_grad():
        mixtures = model(points, None, 4)
        result = act_st_loss(mixtures, points, n_clusters)
    np.testing.assert_allclose(result.numpy(), naive_loss(mixtures, points, n_clusters), rtol=1e-10)


def test_matched_likelihood_is_that_of_the_best_permutation() -> None:
    model, points = network(), normal(3, 12, 2)
    labels = torch.arange(12).repeat(3, 1) % torch.tensor([[3], [1], [2]])
    n_clusters = torch.tensor([3, 1, 2])
    with torch.no_grad():
        mixtures = model(points, None, 4)
        matched = act_st_loss(mixtures, points, n_clusters, labels)
        marginal = act_st_loss(mixtures, points, n_clusters)
    assert (matched >= marginal - 1e-12).all()
    assert float(matched[1]) == pytest.approx(float(marginal[1]))  # one cluster has one permutation
    for b, k in enumerate(n_clusters.tolist()):
        log_joint = torch.stack(
            [
                Normal(mixtures.means[b, k - 1, j], mixtures.log_sds[b, k - 1, j].exp())
                .log_prob(points[b])
                .sum(1)
                + mixtures.log_proportions[b, k - 1, j]
                for j in range(k)
            ]
        )
        best = max(
            sum(float(log_joint[order[int(y)], i]) for i, y in enumerate(labels[b]))
            for order in itertools.permutations(range(k))
        )
        log_likelihood = float(torch.logsumexp(log_joint, dim=0).mean())
        assert float(matched[b] - marginal[b]) == pytest.approx(log_likelihood - best / 12)


def test_matched_loss_has_finite_gradients() -> None:
    model = network(likelihood="matched")
    task = TrainingTask(normal(2, 9, 2), torch.arange(9).repeat(2, 1) % 3, torch.tensor([3, 3]))
    model.loss(task, torch.Generator()).backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert gradients
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)


def test_loss_reads_only_the_true_number_of_clusters() -> None:
    """Components beyond k*, and mixtures of another k, have no part in the likelihood."""
    model, points, n_clusters = network(), normal(1, 9, 2), torch.tensor([2])
    mixtures = model(points, None, 4)
    means = mixtures.means.detach().requires_grad_()
    act_st_loss(mixtures._replace(means=means), points, n_clusters).sum().backward()
    assert means.grad is not None
    read = means.grad[0].any(-1)
    assert torch.equal(read, torch.tensor([[j < 2 and k == 1 for j in range(4)] for k in range(4)]))


def test_a_task_with_more_clusters_than_k_max_is_no_error() -> None:
    points, labels = normal(1, 12, 2), torch.arange(6).repeat(1, 2)
    loss = network(k_max=3).loss(TrainingTask(points, labels, torch.tensor([6])), torch.Generator())
    assert loss.isfinite()


def test_a_sure_network_has_a_finite_loss_and_gradient() -> None:
    model, points = network(), normal(1, 9, 2)
    with torch.no_grad():
        model.go_on.bias.fill_(100.0)  # c_k rounds to one where the target is to stop
    loss = model.loss(
        TrainingTask(points, torch.zeros(1, 9, dtype=torch.int64), torch.tensor([1])), torch.Generator()
    )
    loss.backward()
    assert loss.isfinite()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# -- inference ---------------------------------------------------------------------------------------


def test_posterior_over_k_sums_to_one() -> None:
    log_go_on = torch.log(torch.tensor([0.9, 0.5, 0.5, 0.1], dtype=torch.float64))
    posterior = log_k_posterior(log_go_on).exp()
    np.testing.assert_allclose(posterior.numpy(), [0.1, 0.4, 0.0, 0.5], atol=1e-12)  # 0.1 of it beyond four
    for seed in range(5):
        found = infer(network(seed), normal(20, 2, seed=seed)).log_k_posterior
        assert found is not None
        assert float(found.exp().sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9])
def test_stops_where_the_network_says(k: int) -> None:
    """Beyond the k_max of training (4) too."""
    model, points = going_on_until(k), normal(40, 2)
    inference = infer(model, points)
    assert not inference.cap_reached
    assert inference.log_k_posterior is not None
    assert len(inference.log_k_posterior) == (4 if k <= 4 else 8 if k <= 8 else 16)
    with torch.no_grad():
        log_proportions, means, log_sds = model(points[None], None, k).with_k(torch.tensor([k]))
    log_joint = [
        [
            float(log_proportions[0, j])
            - float((((x - means[0, j]) / log_sds[0, j].exp()).square() / 2 + log_sds[0, j]).sum())
            for j in range(k)
        ]
        for x in points
    ]
    labels = np.unique(np.argmax(log_joint, axis=1), return_inverse=True)[1]
    np.testing.assert_array_equal(inference.labels, labels)


def test_cap_ends_a_network_that_always_goes_on() -> None:
    model, points = going_on_until(10_000), normal(15, 2)
    for max_clusters in (1, 2, 3, 6, 20):
        inference = infer(model, points, max_clusters=max_clusters)
        assert inference.cap_reached
        assert inference.log_k_posterior is not None
        assert len(inference.log_k_posterior) == max_clusters
        assert len(inference.labels.unique()) <= max_clusters


def test_neighbours_that_go_on_change_nothing() -> None:
    """A data set whose neighbour needs more steps has the posterior over k that it has alone."""
    model = network(k_max=2)
    sets = normal(30, 8, 2, seed=4)
    with torch.no_grad():
        # As many sets go on after the second step as stop there.
        raw = model(sets, None, 2).log_go_on[:, 1]
        shift = float(raw.median())
        v = math.exp(shift / 2)
        model.go_on.bias.add_(math.log(0.5**0.5 / (1 - 0.5**0.5)) - math.log(v / (1 - v)))
    together = model.infer(sets, torch.ones(30, 8, dtype=torch.bool))
    lengths = set()
    for b in range(30):
        alone = infer(model, sets[b]).log_k_posterior
        found = together[b].log_k_posterior
        assert alone is not None
        assert found is not None
        torch.testing.assert_close(found, alone)
        lengths.add(len(found))
    assert len(lengths) > 1


def test_likely_numbers_of_clusters_come_as_draws() -> None:
    """Each with the stop's belief in it, the answer's own first; the answer is that without draws."""
    model, points = network(k_max=4), normal(40, 2)
    alone, drawn = infer(model, points), infer(model, points, n_draws=20)
    assert torch.equal(alone.labels, drawn.labels)
    assert alone.draws == () and alone.beliefs == ()
    assert drawn.log_k_posterior is not None
    belief = drawn.log_k_posterior.exp()
    likely = sorted((p for p in belief.tolist() if p >= 1e-3), reverse=True)
    assert len(drawn.beliefs) == 1 + len(drawn.draws) == len(likely)
    np.testing.assert_allclose(sorted(drawn.beliefs, reverse=True), likely)
    assert len(infer(model, points, n_draws=1).draws) == min(1, len(likely) - 1)
    for labels in drawn.draws:
        assert set(labels.tolist()) == set(range(int(labels.max()) + 1))
