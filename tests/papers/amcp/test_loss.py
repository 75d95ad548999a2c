"""What AMCP learns from: states of the loop, examples of clusters, decisions; and in which direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.papers.amcp import loss as losses
from clusterwise.papers.amcp.loss import (
    density_loss,
    examples,
    judge_loss,
    log_seed_probabilities,
    loop_loss,
    random_state,
)
from clusterwise.papers.amcp.mixing import UNASSIGNED
from clusterwise.papers.amcp.network import AMCPConfig, AMCPNetwork
from clusterwise.papers.amcp.revision import ClusterJudge, Decisions, GroupTruth, revise_partitions
from clusterwise.papers.encoded import RowsTask
from clusterwise.papers.methods import make_model
from clusterwise.papers.model import TrainingTask
from clusterwise.priors import make_prior
from clusterwise.training.sources import draw_task
from tests.papers.amcp.samples import build, heaps, judge_of, on_a_line


def drawn(n_sets: int = 4, n_points: int = 100, seed: int = 0) -> TrainingTask:
    prior = make_prior(name="mixture-of-gaussians", n_features=2, k_max=5)
    return draw_task(prior, np.random.default_rng(seed), n_sets, n_points)


# -- the loop ----------------------------------------------------------------------------------------


def test_states_are_ones_that_the_loop_can_be_in() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.stack([torch.arange(60) % 4, torch.arange(60) % 2, torch.zeros(60, dtype=torch.int64)])
    n_clusters, points = torch.tensor([4, 2, 1]), torch.zeros(3, 60, 2)
    seen_missed = False
    for _ in range(50):
        columns, target, seeds, k = random_state(labels, n_clusters, generator, points)
        for b in range(3):
            seed = int(seeds[b])
            assert columns[b, seed] == UNASSIGNED
            assert (target[b] == k).eq(labels[b] == labels[b, seed]).all()
            assigned = columns[b] != UNASSIGNED
            assert (columns[b][assigned] == target[b][assigned]).all()
            missed = ~assigned & (target[b] < k)
            seen_missed |= bool(missed.any())
            # A target column stands for one true cluster, except the rest.
            for j in range(k + 1):
                assert len(labels[b][target[b] == j].unique()) <= 1
    assert seen_missed


def test_states_in_which_two_clusters_are_one() -> None:
    generator = torch.Generator().manual_seed(0)
    points, labels = heaps(4, 10)
    points[:, 10:20] *= 0.3  # the second heap lies beside the first
    for _ in range(20):
        state = random_state(labels, torch.full((4,), 3), generator, points, merged_share=1.0)
        for columns, target, seed in zip(state.columns, state.target, state.seeds, strict=True):
            assert columns.min() >= 0  # nothing is left
            assert columns.unique().numel() == 2
            own = target == state.k
            assert own.sum() == 10
            assert own[seed]
            taker = columns[seed]  # a neighbour's column; nobody else's has changed
            assert (columns[own] == taker).all()
            assert (columns[~own] == target[~own]).all()


def test_the_choice_of_seeds_is_trained() -> None:
    """A step along the gradient makes seeds in clusters that are not taken likelier."""
    model = build(n_states=1)
    points, labels = heaps(2, 12)
    encodings, expected = model.encode(points, None)[0], torch.zeros(2, 36).double()
    columns = torch.where(labels == 0, 0, UNASSIGNED)
    columns[:, :3] = UNASSIGNED  # of the cluster that is taken some were missed
    new = labels > 0

    def chance() -> Tensor:
        return torch.exp(log_seed_probabilities(model, encodings, expected, columns, 1))[new].sum()

    before = chance()
    assert 0 < before.item() < 2
    (gradient,) = torch.autograd.grad(before, model.log_weight_of_dissimilarity)
    assert gradient != 0
    with torch.no_grad():
        model.log_weight_of_dissimilarity += 0.1 * torch.sign(gradient)
    assert chance() > before


def test_the_bound_draws_encodings_to_their_references(monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes the loss larger the farther points are from the centres of their clusters."""
    model, (points, labels) = build(encoder="none", n_states=4, merged_share=0.0), heaps(2, 20)
    with torch.no_grad():
        model.log_sd -= 1.0

    def price_of_bound(scattered: float) -> float:
        means = functional.one_hot(labels).double().transpose(1, 2) @ points / 20
        centres = means.gather(1, labels.unsqueeze(2).expand_as(points))
        task = TrainingTask(centres + scattered * (points - centres), labels, torch.tensor([3, 3]))
        values = []
        for weight in (1.0, 0.0):
            monkeypatch.setattr(losses, "BOUND_WEIGHT", weight)
            values.append(float(loop_loss(model, task, torch.Generator().manual_seed(0)).detach()))
        return values[0] - values[1]

    prices = [price_of_bound(scattered) for scattered in (1.0, 4.0, 8.0)]
    assert 0 < prices[0] < prices[1] < prices[2]


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
    monkeypatch.setattr(losses, "HEAD_WEIGHT", 0.0)
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


# -- splits and merges -------------------------------------------------------------------------------


def decisions_of(judge: ClusterJudge, x: Tensor, labels: Tensor, found: Tensor) -> Decisions:
    """What comes up where the truth decides, for one data set (1, N, d)."""
    truth = GroupTruth(labels, torch.tensor([True]))
    decisions = revise_partitions(judge, x, labels >= 0, found, 20, truth=truth)[2]
    return Decisions(*(torch.cat(parts) for parts in zip(*decisions, strict=True)))


def some_groups() -> tuple[Tensor, Tensor, Tensor]:
    """Two large clusters and a small one, the large ones as one; (1, N, 2), and labels (1, N) twice."""
    x, labels = (torch.from_numpy(array)[None] for array in on_a_line((80, 60, 10), apart=6.0))
    return x, labels, labels // 2


def test_the_judge_learns_to_tell_two_from_one() -> None:
    """A step against the gradient: surer of two where there are two than where there is one."""
    torch.manual_seed(0)
    judge, (x, labels, found) = ClusterJudge(), some_groups()
    seen = decisions_of(judge, x, labels, found)
    assert (seen.apart > 0.9).any()
    assert (seen.apart < 0.1).any()
    before = judge.logits(seen.evidence).detach()
    judge_loss(judge, x, labels, found).backward()
    with torch.no_grad():
        for parameter in judge.judge.parameters():
            parameter -= 0.1 * parameter.grad
    rise = judge.logits(seen.evidence).detach() - before
    assert rise[seen.apart > 0.9].min() > rise[seen.apart < 0.1].max()


def test_decisions_count_by_their_pairs() -> None:
    """As many as each puts right or wrong, besides a little for any."""
    x, labels, found = some_groups()
    for logit in (-1.5, 1.5):
        judge = judge_of(logit)
        _, apart, n_pairs, _ = decisions_of(judge, x, labels, found)
        total, norm, every_pair = 0.0, 0.0, 80**2 + 60**2 + 10**2
        for share, pairs in zip(apart.tolist(), n_pairs.tolist(), strict=True):
            weight = (min(pairs / every_pair, 1) + 0.02) * abs(share - (1 - share))
            total += weight * np.log1p(np.exp(-logit if share > 0.5 else logit))
            norm += weight
        found_loss = float(judge_loss(judge, x, labels, found).detach())
        assert found_loss == pytest.approx(total / norm, rel=1e-6)
        # Here the largest decision is that two clusters are two: who says so always is right where it counts.
        plain = np.mean([np.log1p(np.exp(-logit if share > 0.5 else logit)) for share in apart.tolist()])
        assert (found_loss < plain) == (logit > 0)


def test_examples_are_parts_of_clusters_and_of_their_neighbours() -> None:
    task = drawn(40)
    by_point = functional.one_hot(task.labels)
    members = by_point.double().transpose(1, 2)
    seen, meant = examples(task.points, by_point, torch.Generator().manual_seed(0))
    of_clusters = torch.einsum("bcn,bkn->bck", meant, members)  # points of each true cluster
    sizes = members.sum(2).unsqueeze(1)
    assert ((of_clusters == 0) | (of_clusters == sizes)).all()  # whole clusters are meant
    assert set((of_clusters > 0).sum(2)[meant.sum(2) > 0].tolist()) == {1, 2}
    assert ((seen == 0) | (seen == 1)).all()
    assert (seen.sum(2) < meant.sum(2)).any()  # in part
    assert (seen * (1 - meant)).sum() > 0  # with points of a neighbour


def test_gradients_reach_all_that_is_learned_and_nothing_else() -> None:
    torch.manual_seed(0)
    sizes = {"width": 16, "n_encoder_blocks": 1, "n_inducing": 4, "n_coordinates": 8}
    model = AMCPNetwork(AMCPConfig(revision=True, trained="revision", **sizes))  # type: ignore[arg-type]
    model.loss(drawn(), torch.Generator().manual_seed(0)).backward()
    for name, parameter in model.named_parameters():
        learns = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert learns == name.startswith("judge."), name


def test_splits_and_merges_can_be_learned_behind_an_encoder() -> None:
    """Their losses take the encodings as they are: clusters would become denser without end."""
    options = {
        "width": 8,
        "n_heads": 2,
        "n_inducing": 2,
        "n_encoder_blocks": 1,
        "n_coordinates": 4,
        "revision": True,
    }
    encoder = {"kind": "mlp", "n_features": 5, "n_encoded": 3, "metric_weight": 0.0}
    labels = torch.arange(24).expand(2, -1) % 3
    rows = torch.randn(24, 5, generator=torch.Generator().manual_seed(0)) + 3 * labels[0][:, None]
    task = RowsTask(rows, torch.arange(24).expand(2, -1), labels, torch.tensor([3, 3]))
    for trained in ("all", "revision"):
        torch.manual_seed(0)
        model = make_model("amcp", {**options, "trained": trained}, encoder)
        loss = model.loss(task, torch.Generator().manual_seed(0))
        assert loss.isfinite()
        loss.backward()
        by_part = {
            part: [p.grad for p in getattr(model, part).parameters()] for part in ("encoder", "network")
        }
        assert any(g is not None and bool(g.any()) for g in by_part["network"])
        assert any(g is not None and bool(g.any()) for g in by_part["encoder"]) == (trained == "all")


def test_a_few_steps_make_clusters_likelier_and_decisions_better() -> None:
    torch.manual_seed(0)
    judge = ClusterJudge()
    optimizer = torch.optim.Adam(judge.parameters(), 1e-2)
    seen = []
    for step in range(30):
        task = drawn(2, 60, seed=step % 3)
        density = density_loss(judge, task.points, task.labels, torch.Generator().manual_seed(step))
        decisions = judge_loss(judge, task.points, task.labels, torch.zeros_like(task.labels))
        seen.append((density.item(), decisions.item()))
        optimizer.zero_grad()
        (density + decisions).backward()
        optimizer.step()
    first, last = np.mean(seen[:6], axis=0), np.mean(seen[-6:], axis=0)
    assert (last < first).all()


def test_the_loss_is_the_same_for_the_same_seed() -> None:
    torch.manual_seed(0)
    judge, task = ClusterJudge(), drawn(2)
    one, again, other = (
        density_loss(judge, task.points, task.labels, torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_clusters_that_are_nearly_a_point_have_a_likelihood() -> None:
    """Rounding must not make correlations larger than one of them."""
    task = drawn(2)
    points = task.points.clone()
    points[task.labels == 0] = points[0, 0] + 1e-3 * points[task.labels == 0]
    assert density_loss(ClusterJudge(), points, task.labels, torch.Generator().manual_seed(0)).isfinite()
