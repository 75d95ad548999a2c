"""AMCP: each equation against a slow, obvious version, and the loop against its promises."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clusterwise.papers.amcp import AMCP, Decoder, Encoded, Mixing
from clusterwise.papers.amcp_loop import (
    first_by_k_means,
    seed_logits,
    similarity_in_torch,
    similarity_to_assigned,
)
from clusterwise.papers.amcp_mixing import ABSENT, UNASSIGNED, Encodings, IntraCM, SeedWeights
from clusterwise.papers.amcp_options import AMCPConfig, Options
from clusterwise.papers.amcp_states import random_state
from clusterwise.papers.model import TrainingTask

SMALL = AMCPConfig(
    width=8, n_heads=2, n_inducing=4, n_encoder_blocks=1, n_wavelengths=2, n_coordinates=5, n_hidden=7
)


def build(seed: int = 0, **options: Any) -> AMCP:
    torch.manual_seed(seed)
    model = AMCP(dataclasses.replace(SMALL, **options)).double()
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter *= 2.0  # so that an untrained network tells points apart
        model.to_encoding.weight *= 3.0
    return model


def heaps(n_sets: int = 2, per_heap: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three clear clusters per data set: points (B, N, 2) and labels (B, N)."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    labels = torch.arange(3).repeat_interleave(per_heap).expand(n_sets, -1)
    noise = torch.randn(n_sets, 3 * per_heap, 2, generator=generator, dtype=torch.float64)
    return centres[labels] + 0.1 * noise, labels


def mixing_of(model: AMCP, n_components: int = 4, n_sets: int = 2, seed: int = 1) -> Mixing:
    generator = torch.Generator().manual_seed(seed)
    shape = (n_sets, n_components, model.config.n_coordinates)
    references = torch.rand(shape, generator=generator, dtype=torch.float64)
    raw = torch.rand(n_sets, n_components, generator=generator, dtype=torch.float64)
    return Mixing(references, torch.log(raw / raw.sum(1, keepdim=True)), torch.empty(0))


def test_regular_e_step_is_bayes_rule_point_by_point() -> None:
    model, mixing = build(), mixing_of(build())
    x, _ = model.encode(heaps()[0], None)
    encoded = Encoded.of(x)
    log_plan, log_evidence = model.e_step(encoded, mixing), model.log_evidence(encoded, mixing)
    variance = torch.exp(2 * model.log_sd)
    for b, i in [(0, 0), (1, 17), (1, 35)]:
        centres = mixing.references[b, :-1]
        density = [torch.exp(-((x[b, i] - c) ** 2).sum() / (2 * variance)) for c in centres]
        density.append(torch.exp(model.log_density_of_rest))
        joint = torch.exp(mixing.log_proportions[b]) * torch.stack(density)
        torch.testing.assert_close(torch.exp(log_plan[b, i]), joint / joint.sum())
        torch.testing.assert_close(log_evidence[b, i], torch.log(joint.sum()))


@torch.no_grad()
def test_transport_is_another_e_step() -> None:
    """Columns as in the step before hold where they are asked for strictly, and Bayes' rule does not."""
    columns, mask = np.full((2, 36), UNASSIGNED), np.ones((2, 36), dtype=bool)
    columns[:, :10], columns[:, 12:18], mask[1, 20:] = 0, 1, False
    columns[~mask] = ABSENT
    model, shares, plans = build(n_em_steps=1, e_step="sinkhorn"), {}, {}
    x, _ = model.encode(heaps()[0], None)
    for e_step, strictness in (("regular", None), ("sinkhorn", 1.0), ("sinkhorn", 0.0)):
        intra = IntraCM(model, Options(e_step, strictness=strictness, sinkhorn_iterations=5000))
        points = Encodings.of(x.numpy(), mask, intra.precision)
        plan = intra.run(points, columns, np.array([11, 19]), 2).plan
        np.testing.assert_allclose(plan.sum(1), 1.0)
        plans[strictness] = plan * mask[:, None]
        shares[strictness] = plans[strictness].sum(2) / mask.sum(1, keepdims=True)
    # 10 and 6 points were assigned, and what is left is half the new cluster's.
    left = (mask.sum(1) - 16) / 2
    asked = np.stack([np.full(2, 10.0), np.full(2, 6.0), left, left], axis=1) / mask.sum(1, keepdims=True)
    np.testing.assert_allclose(shares[1.0], asked, atol=1e-5)
    assert np.abs(shares[None] - asked).max() > 0.05
    np.testing.assert_allclose(plans[0.0], plans[None])


def test_closed_form_m_step_is_the_weighted_mean() -> None:
    model, mixing = build(), mixing_of(build())
    x, _ = model.encode(heaps()[0], None)
    encoded = Encoded.of(x)
    log_plan = model.e_step(encoded, mixing)
    new = model.m_step(encoded, mixing._replace(log_plan=log_plan))
    for b, j in [(0, 0), (0, 3), (1, 2)]:
        weights = torch.exp(log_plan[b, :, j])
        mean = (weights[:, None] * x[b]).sum(0) / weights.sum()
        torch.testing.assert_close(new.references[b, j], mean, atol=1e-4, rtol=0)
        share = weights.mean()
        torch.testing.assert_close(torch.exp(new.log_proportions[b, j]), share)


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
    encoded = Encoded.of(model.encode(heaps()[0], None)[0])
    columns = torch.ones(2, 36, dtype=torch.int64)  # nothing assigned: one new cluster and the rest
    path = model.intra_cluster_mixing(encoded, columns, torch.tensor([0, 5]), 1)
    rises = torch.stack([model.log_evidence(encoded, mixing).mean(1) for mixing in path]).diff(dim=0)
    assert (rises > -1e-6).all()
    assert (rises > 1e-4).any()


@torch.no_grad()
@pytest.mark.parametrize("e_step", ["regular", "sinkhorn"])
@pytest.mark.parametrize("n_em_steps", [1, 5])
@pytest.mark.parametrize("decoder", ["linear", "mlp"])
@pytest.mark.parametrize("n_sets", [1, 3])
def test_the_loop_mixes_as_training_does(n_sets: int, decoder: Any, n_em_steps: int, e_step: Any) -> None:
    """Numpy for the paths of the loop, torch for the states of a training step: the same EM steps."""
    model = build(decoder=decoder, n_em_steps=n_em_steps, e_step=e_step)
    x, _ = model.encode(heaps(n_sets)[0], None)
    # Three paths with two clusters so far: both have points, one lost all of them, almost nothing is left.
    columns, mask = torch.full((3, 36), UNASSIGNED), torch.ones(n_sets, 36, dtype=torch.bool)
    columns[0, :10], columns[0, 12:20] = 0, 1
    columns[1, 5:30] = 1
    columns[2, :20], columns[2, 20:35] = 1, 0
    mask[-1, 15:25] = False
    seeds = torch.tensor([30, 0, 35])
    intra = IntraCM(model, Options())
    points = Encodings.of(x.numpy(), mask.numpy(), intra.precision)
    mixed = intra.run(points, columns.masked_fill(~mask, ABSENT).numpy(), seeds.numpy(), 2)
    for p in range(3):
        present = mask[p % n_sets]
        own = torch.where(columns[p] == UNASSIGNED, 3, columns[p])[None, present]
        seed = present[: seeds[p]].sum()[None]  # its place among the points that are there
        encoded = Encoded.of(x[p % n_sets][None, present])
        trained = model.intra_cluster_mixing(encoded, own, seed, 3)[-1]
        plan, scores = mixed.plan[p][:, present], mixed.scores[p][:, present]
        np.testing.assert_allclose(plan, trained.log_plan[0].exp().T, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mixed.references[p], trained.references[0], rtol=1e-9)
        np.testing.assert_array_equal(scores.argmax(0), trained.log_plan[0].argmax(1))


def test_column_sums_of_the_similarity_without_the_matrix() -> None:
    rng = np.random.default_rng(0)
    plan = rng.dirichlet(np.ones(4), size=(2, 9)).transpose(0, 2, 1)
    centres, assigned = rng.random((2, 4, 5)), rng.random((2, 9)) < 0.5
    found = similarity_to_assigned(plan, centres, assigned)
    for p in range(2):
        projected = plan[p].T @ (centres[p] - 0.5)
        rows = projected / np.linalg.norm(projected, axis=1, keepdims=True)
        matrix = rows[assigned[p]] @ rows.T  # M of Eq 9, every point as a column
        np.testing.assert_allclose(found[p], matrix.mean(0))
    tensors = (torch.from_numpy(array) for array in (plan.transpose(0, 2, 1), centres, assigned))
    np.testing.assert_allclose(similarity_in_torch(*tensors), found)


def test_points_in_the_middle_of_the_cube_have_no_direction() -> None:
    """Not even one made of rounding errors."""
    plan = np.full((1, 2, 3), 0.5, dtype=np.float32)
    centres = np.array([[[0.3, 0.9], [0.7, 0.1]]], dtype=np.float32)
    found = similarity_to_assigned(plan, centres, np.array([[True, True, False]]))
    assert (np.abs(found) <= 1).all()


def test_seeds_are_unassigned_and_unlike_what_is_assigned() -> None:
    similarity = np.array([[0.9, 0.1, -0.5, 0.9]])
    unassigned = np.array([[True, True, False, True]])
    weights = SeedWeights(10.0, 2.0)
    logits = seed_logits(similarity, np.zeros((1, 4)), unassigned, weights)
    assert logits.argmax() == 1
    assert logits[0, 2] == -np.inf
    # A point that is expected to lead to a bad cluster is a worse seed.
    worse = seed_logits(similarity, np.array([[0.0, 1.0, 0.0, 0.0]]), unassigned, weights)
    assert worse[0, 1] < logits[0, 1]


def test_states_are_ones_that_the_loop_can_be_in() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.stack([torch.arange(60) % 4, torch.arange(60) % 2, torch.zeros(60, dtype=torch.int64)])
    n_clusters = torch.tensor([4, 2, 1])
    seen_missed = False
    for _ in range(50):
        columns, target, seeds, k = random_state(labels, n_clusters, generator)
        for b in range(3):
            seed = int(seeds[b])
            assert columns[b, seed] == k
            assert (target[b] == k - 1).eq(labels[b] == labels[b, seed]).all()
            assigned = columns[b] < k
            assert (columns[b][assigned] == target[b][assigned]).all()
            missed = ~assigned & (target[b] < k - 1)
            seen_missed |= bool(missed.any())
            # A target column stands for one true cluster, except the rest.
            for j in range(k):
                assert len(labels[b][target[b] == j].unique()) <= 1
    assert seen_missed


def test_states_in_which_two_clusters_are_one() -> None:
    generator = torch.Generator().manual_seed(0)
    points, labels = heaps(4, 10)
    points[:, 10:20] *= 0.3  # the second heap lies beside the first
    for _ in range(20):
        state = random_state(labels, torch.full((4,), 3), generator, points, revising=1.0)
        for columns, target, seed in zip(state.columns, state.target, state.seeds, strict=True):
            assert columns.max() < state.k - 1  # nothing is left
            assert columns.unique().numel() == 2
            own = target == state.k - 1
            assert own.sum() == 10
            assert own[seed]
            taker = columns[seed]  # a neighbour's column; nobody else's has changed
            assert (columns[own] == taker).all()
            assert (columns[~own] == target[~own]).all()


def test_the_choice_of_seeds_is_trained() -> None:
    """A step along the gradient makes seeds in clusters that are not taken likelier."""
    model = build(n_states=1)
    points, labels = heaps(2, 12)
    encoded, expected = Encoded.of(model.encode(points, None)[0].detach()), torch.zeros(2, 36).double()
    columns = torch.where(labels == 0, 0, 2)
    columns[:, :3] = 2  # of the cluster that is taken some were missed
    new = labels > 0

    def chance() -> Tensor:
        return torch.exp(model.log_seed_probabilities(encoded, expected, columns, 2))[new].sum()

    before = chance()
    assert 0 < before.item() < 2
    (gradient,) = torch.autograd.grad(before, model.log_weight_of_dissimilarity)
    assert gradient != 0
    with torch.no_grad():
        model.log_weight_of_dissimilarity += 0.1 * torch.sign(gradient)
    assert chance() > before


def test_the_loop_chooses_seeds_as_training_does() -> None:
    model = build()
    points, labels = heaps(1, 12)
    with torch.no_grad():
        x, expected = model.encode(points, None)
        columns = np.where(labels == 0, 0, UNASSIGNED)
        encoded, of_training = Encoded.of(x), torch.where(labels == 0, 0, 2)
        log_seeds = model.log_seed_probabilities(encoded, expected, of_training, 2)
        mass, means = model._of_columns(encoded, of_training, 2)
        mixing = Mixing(means, encoded.log_shares(mass), torch.empty(0))
        plan = torch.exp(model.e_step(encoded, mixing)).transpose(1, 2).numpy()
        similarity = similarity_to_assigned(plan, means.numpy(), columns >= 0)
    logits = seed_logits(similarity, expected.numpy(), columns < 0, IntraCM(model, Options()).seed_weights)
    chances = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    np.testing.assert_allclose(np.exp(log_seeds.numpy()), chances, atol=1e-12)


@pytest.mark.parametrize("e_step", ["regular", "sinkhorn"])
def test_gradient_of_the_loss(e_step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unrolled EM steps and all: the derivative of the loss along a random direction."""
    model = build(decoder="mlp", n_states=2, e_step=e_step)
    points, labels = heaps(2, 5)
    task = TrainingTask(points, labels, torch.tensor([3, 3]))

    def loss() -> Tensor:
        return model.loss(task, torch.Generator().manual_seed(3))

    # The head reads the encoding but does not shape it: it must say the same whatever changes.
    with torch.no_grad():
        for parameter in model.log_seed_loss[-1].parameters():
            parameter.zero_()
    monkeypatch.setattr("clusterwise.papers.amcp.HEAD_WEIGHT", 0.0)
    loss().backward()
    # What the loss takes as given: the head's target and its forecast, and the width in the bound.
    given = ("log_seed_loss", "log_sd")
    parameters = [p for name, p in model.named_parameters() if not name.startswith(given)]
    torch.manual_seed(1)
    direction = [torch.randn_like(p) for p in parameters]
    slope = sum(float((p.grad * d).sum()) for p, d in zip(parameters, direction, strict=True))
    values = []
    for sign in (1e-6, -2e-6):
        with torch.no_grad():
            for p, d in zip(parameters, direction, strict=True):
                p += sign * d
        values.append(float(loss().detach()))
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("update", [True, False])
@pytest.mark.parametrize("first_cluster", ["learned", "k-means"])
@pytest.mark.parametrize("e_step", ["regular", "sinkhorn"])
def test_every_point_is_labelled_and_steps_tell_how(update: bool, first_cluster: Any, e_step: Any) -> None:
    options = Options(update=update, first_cluster=first_cluster, e_step=e_step)
    points, _ = heaps()
    mask = torch.ones(points.shape[:2], dtype=torch.bool)
    mask[1, 30:] = False
    for seed in range(3):
        for b, inference in enumerate(build(seed).infer(points, mask, options=options, n_draws=2)):
            labels = inference.labels[mask[b]]
            assert sorted(labels.unique().tolist()) == list(range(int(labels.max()) + 1))
            assert len(inference.draws) == 2
            assert not inference.cap_reached
            ever = torch.stack([step.members for step in inference.steps]).sum(0)
            assert (ever[mask[b]] >= (1 if not update else 0)).all()
            assert (ever[~mask[b]] == 0).all()
            if not update:  # nothing moves after it was assigned
                assert (ever[mask[b]] == 1).all()


def test_a_cap_ends_the_loop() -> None:
    points, _ = heaps()
    mask = torch.ones(points.shape[:2], dtype=torch.bool)
    model = build()
    with torch.no_grad():
        model.log_sd -= 6.0  # components so narrow that every point is a cluster
    for inference in model.infer(points, mask, max_clusters=4, n_draws=1):
        assert inference.cap_reached
        assert len(inference.labels.unique()) <= 4


def test_many_sets_together_come_out_as_alone() -> None:
    """As many as are taken together and some more, paths of different lengths, some of them capped."""
    model, generator = build(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        model.log_sd -= 1.0  # narrower components, more clusters
    points = torch.randn(70, 300, 2, generator=generator, dtype=torch.float64)
    points = points * torch.rand(70, 1, 1, generator=generator, dtype=torch.float64)
    mask = torch.arange(300) < torch.randint(1, 301, (70, 1), generator=generator)
    together = model.infer(points, mask, max_clusters=4)
    assert {inference.cap_reached for inference in together} == {True, False}
    assert len({len(inference.steps) for inference in together}) > 1
    for b in (0, 1, 53, 54, 55, 69):
        (alone,) = model.infer(points[b : b + 1, mask[b]], mask[b : b + 1, mask[b]], max_clusters=4)
        assert torch.equal(together[b].labels[mask[b]], alone.labels)
        assert together[b].cap_reached == alone.cap_reached
        assert [step.anchor for step in together[b].steps] == [step.anchor for step in alone.steps]


def test_draws_depend_on_the_seed_alone() -> None:
    points, _ = heaps(3)
    mask = torch.ones(points.shape[:2], dtype=torch.bool)
    model = build()
    together = model.infer(points, mask, seeds=[1, 2, 3], n_draws=3)
    alone = model.infer(points[1:2], mask[1:2], seeds=[2], n_draws=3)[0]
    for mine, theirs in zip(alone.draws, together[1].draws, strict=True):
        assert mine.equal(theirs)


def test_k_means_finds_a_first_cluster() -> None:
    points, labels = heaps(2, 30)
    mask = torch.ones(points.shape[:2], dtype=torch.bool)
    mask[1, :30] = False
    first = first_by_k_means(points, mask, k=3)
    assert (first & ~mask).sum() == 0
    assert all(len(labels[b][first[b]].unique()) == 1 for b in range(2))
    assert first[0].sum() == 30  # a whole cluster where k is right
