"""IntraCM and InterCC: each equation against a slow, obvious version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clusterwise.papers.amcp.mixing import (
    ABSENT,
    UNASSIGNED,
    Decoder,
    Encodings,
    Mixing,
    e_step,
    intra_cluster_mixing,
    log_evidence,
    m_step,
    similarity_to_assigned,
)
from clusterwise.papers.amcp.network import AMCPNetwork
from tests.papers.amcp.samples import build, heaps


def mixing_of(model: AMCPNetwork, n_components: int = 4, n_sets: int = 2, seed: int = 1) -> Mixing:
    generator = torch.Generator().manual_seed(seed)
    shape = (n_sets, n_components, model.config.n_coordinates)
    references = torch.rand(shape, generator=generator, dtype=torch.float64)
    raw = torch.rand(n_sets, n_components, generator=generator, dtype=torch.float64)
    return Mixing(references, torch.log(raw / raw.sum(1, keepdim=True)), torch.empty(0))


def encodings_of(model: AMCPNetwork, n_sets: int = 2, mask: torch.Tensor | None = None) -> Encodings:
    return Encodings.of(model.encode(heaps(n_sets)[0], None)[0].x, mask)


def test_regular_e_step_is_bayes_rule_point_by_point() -> None:
    model, mixing = build(), mixing_of(build())
    points = encodings_of(model)
    log_plan, evidence = e_step(model, points, mixing), log_evidence(model, points, mixing)
    variance = torch.exp(2 * model.log_sd)
    for b, i in [(0, 0), (1, 17), (1, 35)]:
        centres = mixing.references[b, :-1]
        density = [torch.exp(-((points.x[b, i] - c) ** 2).sum() / (2 * variance)) for c in centres]
        density.append(torch.exp(model.log_density_of_rest))
        joint = torch.exp(mixing.log_proportions[b]) * torch.stack(density)
        torch.testing.assert_close(torch.exp(log_plan[b, :, i]), joint / joint.sum())
        torch.testing.assert_close(evidence[b, i], torch.log(joint.sum()))


@torch.no_grad()
def test_transport_is_another_e_step() -> None:
    """Columns as in the step before hold where they are asked for strictly, and Bayes' rule does not."""
    columns, mask = torch.full((2, 36), UNASSIGNED), torch.ones(2, 36, dtype=torch.bool)
    columns[:, :10], columns[:, 12:18], mask[1, 20:] = 0, 1, False
    columns[~mask] = ABSENT
    shares, plans = {}, {}
    for logit in (None, 40.0, -40.0):
        model = build(
            e_step="regular" if logit is None else "sinkhorn", n_em_steps=1, sinkhorn_iterations=5000
        )
        if logit is not None:
            model.strictness.fill_(logit)
        points = encodings_of(model, mask=mask)
        path = intra_cluster_mixing(model, points, columns, torch.tensor([11, 19]), 2)
        plan = torch.exp(path[-1].log_plan) * mask.unsqueeze(1)
        torch.testing.assert_close(plan.sum(1), mask.double())
        plans[logit], shares[logit] = plan, plan.sum(2) / mask.sum(1, keepdim=True)
    # 10 and 6 points were assigned, and what is left is half the new cluster's.
    left = (mask.sum(1) - 16) / 2
    asked = torch.stack([torch.full((2,), 10.0), torch.full((2,), 6.0), left, left], dim=1)
    asked = (asked / mask.sum(1, keepdim=True)).double()
    torch.testing.assert_close(shares[40.0], asked, atol=1e-5, rtol=0)
    assert (shares[None] - asked).abs().max() > 0.05
    torch.testing.assert_close(plans[-40.0], plans[None])


def test_closed_form_m_step_is_the_weighted_mean() -> None:
    model, mixing = build(), mixing_of(build())
    points = encodings_of(model)
    log_plan = e_step(model, points, mixing)
    new = m_step(model, points, mixing._replace(log_plan=log_plan))
    for b, j in [(0, 0), (0, 3), (1, 2)]:
        weights = torch.exp(log_plan[b, j])
        mean = (weights[:, None] * points.x[b]).sum(0) / weights.sum()
        torch.testing.assert_close(new.references[b, j], mean, atol=1e-4, rtol=0)
        torch.testing.assert_close(torch.exp(new.log_proportions[b, j]), weights.mean())


def test_balanced_proportions_stay_equal() -> None:
    model = build(proportions="balanced")
    path = intra_cluster_mixing(
        model, encodings_of(model), torch.arange(36).expand(2, -1) % 3 - 1, torch.tensor([0, 3]), 2
    )
    for mixing in path:
        torch.testing.assert_close(torch.exp(mixing.log_proportions), torch.full((2, 4), 0.25).double())


def test_gradient_m_step_is_ascent_on_the_bound() -> None:
    torch.manual_seed(0)
    decoder = Decoder("mlp", 5, 7).double()
    references = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    means = torch.rand(2, 3, 5, dtype=torch.float64)
    error = -0.5 * (means - decoder(references)).square().sum()
    (gradient,) = torch.autograd.grad(error, references)
    expected = references + torch.exp(decoder.log_step) * gradient
    torch.testing.assert_close(decoder.m_step(references, means), expected)


@pytest.mark.parametrize("decoder", ["linear", "mlp"])
def test_em_steps_raise_the_evidence(decoder: Any) -> None:
    model = build(decoder=decoder, n_em_steps=7)
    points = encodings_of(model)
    columns = torch.full((2, 36), UNASSIGNED)  # nothing assigned: one new cluster and the rest
    path = intra_cluster_mixing(model, points, columns, torch.tensor([0, 5]), 0)
    assert len(path) == 7
    rises = torch.stack([log_evidence(model, points, mixing).mean(1) for mixing in path]).diff(dim=0)
    assert (rises > -1e-6).all()
    assert (rises > 1e-4).any()


def test_absent_points_have_no_part_in_a_mixture() -> None:
    model, mask = build(), torch.rand(2, 36, generator=torch.Generator().manual_seed(0)) < 0.7
    mask[:, [0, 30]] = True
    columns = torch.where(torch.arange(36) < 12, 0, UNASSIGNED).expand(2, -1)
    points = encodings_of(model, mask=mask)
    mixing = intra_cluster_mixing(
        model, points, columns.masked_fill(~mask, ABSENT), torch.tensor([30, 30]), 1
    )[-1]
    for b in range(2):
        own = Encodings.of(points.x[b : b + 1, mask[b]])
        seed = mask[b, :30].sum()[None]
        alone = intra_cluster_mixing(model, own, columns[b : b + 1, mask[b]], seed, 1)[-1]
        torch.testing.assert_close(mixing.references[b], alone.references[0])
        torch.testing.assert_close(mixing.log_plan[b][:, mask[b]], alone.log_plan[0])


def test_column_means_of_the_similarity_without_the_matrix() -> None:
    rng = np.random.default_rng(0)
    plan = rng.dirichlet(np.ones(4), size=(2, 9)).transpose(0, 2, 1)
    centres, assigned = rng.random((2, 4, 5)), rng.random((2, 9)) < 0.5
    found = similarity_to_assigned(*(torch.from_numpy(array) for array in (plan, centres, assigned)))
    for p in range(2):
        projected = plan[p].T @ (centres[p] - 0.5)
        rows = projected / np.linalg.norm(projected, axis=1, keepdims=True)
        matrix = rows[assigned[p]] @ rows.T  # M of Eq 9, every point as a column
        np.testing.assert_allclose(found[p], matrix.mean(0))


def test_points_in_the_middle_of_the_cube_have_no_direction() -> None:
    """Not even one made of rounding errors."""
    plan, centres = torch.full((1, 2, 3), 0.5), torch.tensor([[[0.3, 0.9], [0.7, 0.1]]])
    found = similarity_to_assigned(plan, centres, torch.tensor([[True, True, False]]))
    assert (found.abs() <= 1).all()
