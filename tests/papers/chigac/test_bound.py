"""The five strategies: bounds against slow versions, gradients against finite differences, their order."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Independent, Normal, kl_divergence

from clusterwise.papers.chigac.bound import (
    SIGMA_0,
    STRATEGIES,
    TAU,
    Gaussian,
    Scene,
    elbo,
    log_likelihood,
    log_weight,
    objective,
    svi_path,
)

N, D, H, S, R = 12, 4, 3, 2, 2


def scene_of(seed: int = 0, **parts: Tensor) -> Scene:
    """Two data sets of twelve points, two clusters to explain in each; float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    sphere = torch.nn.functional.normalize(normal(R, N, D), dim=-1)
    target = (torch.rand(R, S, N, generator=generator) < 0.5).double()
    counts = (torch.rand(R, S, N, generator=generator) < 0.8).double()
    scene = Scene(
        sphere=sphere,
        hidden=normal(R, N, H),
        offset=normal(R, N) - 1,
        slope=normal(H) * 0.1,
        out=normal(H) * 0.3,
        scale=torch.tensor(0.5, dtype=torch.float64),
        prior=Gaussian(torch.nn.functional.normalize(normal(R, S, D), dim=-1), 0.3 * normal(R, S, D)),
        target=target,
        counts=counts,
    )
    return scene._replace(**parts)


def psi_of(seed: int = 1) -> Gaussian:
    generator = torch.Generator().manual_seed(seed)
    mean = torch.randn(R, S, D, generator=generator, dtype=torch.float64)
    b = torch.randn(R, S, D, generator=generator, dtype=torch.float64)
    return Gaussian(torch.nn.functional.normalize(mean, dim=-1), 0.3 * b)


def noise_of(*leading: int, seed: int = 2) -> Tensor:
    shape = (*leading, R, S, D)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def as_distribution(gaussian: Gaussian) -> Independent:
    return Independent(Normal(gaussian.mean, SIGMA_0 * torch.exp(-gaussian.b / 2)), 1)


def test_likelihood_is_a_product_of_bernoullis_over_the_points_that_count() -> None:
    scene, z = scene_of(), noise_of()
    found = log_likelihood(scene, z)
    for r in range(R):
        for s in range(S):
            expected = 0.0
            for i in range(N):
                cosine = torch.cosine_similarity(scene.sphere[r, i], z[r, s], dim=0) / TAU
                bent = torch.relu(scene.hidden[r, i] + scene.slope * cosine) @ scene.out
                logit = scene.scale * cosine + scene.offset[r, i] + bent
                if scene.counts[r, s, i]:
                    expected += float(Bernoulli(logits=logit).log_prob(scene.target[r, s, i]))
            assert float(found[r, s]) == pytest.approx(expected)


def test_bound_and_weight_agree_with_torch_distributions() -> None:
    scene, psi, noise = scene_of(), psi_of(), noise_of()
    q, p, z = as_distribution(psi), as_distribution(scene.prior), psi.at(noise)
    likelihood = log_likelihood(scene, z)
    torch.testing.assert_close(elbo(scene, psi, noise), likelihood - kl_divergence(q, p))
    torch.testing.assert_close(log_weight(scene, psi, noise), likelihood + p.log_prob(z) - q.log_prob(z))


def numerical_gradient(function: Any, at: Tensor, step: float = 1e-6) -> Tensor:
    """Central differences of a scalar function, entry by entry."""
    gradient = torch.empty_like(at)
    for index in range(at.numel()):
        shift = torch.zeros_like(at)
        shift.view(-1)[index] = step
        gradient.view(-1)[index] = (function(at + shift) - function(at - shift)) / (2 * step)
    return gradient


def test_an_inner_step_follows_the_natural_gradient() -> None:
    """The steps of SVI against finite differences of the bound, times the inverse metric."""
    scene, psi, noise, rate = scene_of(), psi_of(), noise_of(2), 0.01
    before, after = svi_path(scene, psi, noise, rate)
    by_mean = numerical_gradient(lambda m: elbo(scene, Gaussian(m, psi.b), noise[0]).sum(), psi.mean)
    by_b = numerical_gradient(lambda b: elbo(scene, Gaussian(psi.mean, b), noise[0]).sum(), psi.b)
    torch.testing.assert_close((after.mean - before.mean) / rate, psi.sd**2 * by_mean, atol=1e-6, rtol=1e-6)
    change = (2 * by_b).clamp(-0.5, 0.5)
    assert bool((change.abs() < 0.5).any())
    torch.testing.assert_close((after.b - before.b) / rate, change, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("part", [0, 1])
def test_gradients_through_the_inner_loop(part: int) -> None:
    """d ELBO(psi_M) / d psi_0, as semi-amortized inference needs it, against finite differences."""
    scene, psi, noise, rate = scene_of(), psi_of(), noise_of(4), 0.1

    def bound(changed: Tensor) -> Tensor:
        start = Gaussian(changed, psi.b) if part == 0 else Gaussian(psi.mean, changed)
        start = Gaussian(*(p if p.requires_grad else p.clone().requires_grad_() for p in start))
        return elbo(scene, svi_path(scene, start, noise, rate, create_graph=True)[-1], noise[-1]).sum()

    at = psi[part].clone().requires_grad_()
    (found,) = torch.autograd.grad(bound(at), at)
    expected = numerical_gradient(lambda x: bound(x.detach()).detach(), psi[part], step=1e-5)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_gradients_of_the_model_through_the_inner_loop() -> None:
    """The same for a parameter of theta, which acts in every inner step."""
    psi, noise, rate = psi_of(), noise_of(4), 0.1

    def bound(offset: Tensor) -> Tensor:
        start = Gaussian(*(p.clone().requires_grad_() for p in psi))
        return objective("semi-amortized", scene_of(offset=offset), start, noise, rate).sum()

    at = scene_of().offset.requires_grad_()
    (found,) = torch.autograd.grad(bound(at), at)
    expected = numerical_gradient(lambda x: bound(x.detach()).detach(), at.detach(), step=1e-5)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def bounds(strategy: Any, rate: float, n: int = 100, n_inner: int = 10) -> Tensor:
    """Bounds of many repetitions, (n, R, S), on the same parameters."""
    scene, psi = scene_of().detached(), psi_of()
    noise = noise_of(n, n_inner + 1)
    with torch.no_grad():
        return torch.stack([objective(strategy, scene, psi, of_one, rate) for of_one in noise])


def test_the_bounds_are_ordered_as_theory_says() -> None:
    """ELBO(psi_0) <= mean of ELBOs <= ergodic bound <= log p(h), each by more than Monte-Carlo noise."""
    amortized, ergodic = bounds("amortized", 0.3), bounds("ergodic", 0.3)
    difference = ergodic - amortized
    assert bool((difference.mean(0) > 4 * difference.std(0) / math.sqrt(len(difference))).all())
    # A long path ends where importance weights are nearly even, so that their mean is the truth.
    psi = svi_path(scene_of(), psi_of(), noise_of(300, seed=4), 0.1)[-1]
    weights = torch.stack([log_weight(scene_of(), psi, noise) for noise in noise_of(1000, seed=5)])
    assert bool((weights.std(0) < 1.5).all())
    truth = torch.logsumexp(weights, dim=0) - math.log(1000)
    standard_error = ergodic.std(0) / math.sqrt(len(ergodic))
    assert bool((ergodic.mean(0) < truth + 4 * standard_error + 0.2).all())


def test_inner_steps_raise_the_bound() -> None:
    amortized, svi = bounds("amortized", 0.3), bounds("svi", 0.3)
    difference = svi - amortized
    assert bool((difference.mean(0) > 4 * difference.std(0) / math.sqrt(len(difference))).all())


@pytest.mark.parametrize("strategy", ["svi", "ergodic"])
def test_phi_is_trained_by_the_bound_at_psi_0_and_theta_elsewhere(strategy: Any) -> None:
    scene, noise = scene_of(), noise_of(4)
    psi = Gaussian(*(part.requires_grad_() for part in psi_of()))
    offset = scene.offset.requires_grad_()
    by_mean, by_offset = torch.autograd.grad(
        objective(strategy, scene, psi, noise, 0.2).sum(), (psi.mean, offset)
    )
    (of_phi,) = torch.autograd.grad(elbo(scene, psi, noise[0]).sum(), psi.mean)
    torch.testing.assert_close(by_mean, of_phi)
    path = svi_path(scene.detached(), psi.detached(), noise, 0.2)
    if strategy == "svi":
        of_theta = elbo(scene, path[-1], noise[-1])
    else:
        weights = torch.stack([log_weight(scene, p, n) for p, n in zip(path, noise, strict=True)])
        of_theta = torch.log(torch.exp(weights).mean(0))
    torch.testing.assert_close(by_offset, torch.autograd.grad(of_theta.sum(), offset)[0])


def test_all_strategies_are_one_without_inner_steps() -> None:
    scene, psi, noise = scene_of(), psi_of(), noise_of(1)
    expected = elbo(scene, psi, noise[0])
    for strategy in STRATEGIES:
        found = objective(strategy, scene, psi, noise, 0.3, update=lambda psi, gradient: psi)
        expected_here = log_weight(scene, psi, noise[0]) if strategy == "ergodic" else expected
        torch.testing.assert_close(found, expected_here)


def test_iterative_inference_needs_an_update() -> None:
    with pytest.raises(ValueError, match="learned update"):
        objective("iterative", scene_of(), psi_of(), noise_of(2), 0.3)


def test_typical_direction_has_the_mean_cosine_of_draws() -> None:
    """Many dimensions, as in a network: the mean of z / |z| is the mean divided by the usual length."""
    generator = torch.Generator().manual_seed(3)
    mean = torch.nn.functional.normalize(torch.randn(1, 1, 64, generator=generator), dim=-1)
    scene = scene_of()._replace(prior=Gaussian(mean, torch.zeros_like(mean)))
    noise = torch.randn(4000, 1, 64, generator=generator)
    drawn = torch.nn.functional.normalize(scene.prior.at(noise), dim=-1).mean(0)
    assert float((drawn - scene.typical_direction()[0]).norm()) < 0.03
