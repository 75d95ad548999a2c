"""What the revision learns from: examples of clusters, densities and decisions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from clusterwise.papers.amcp import AMCP, AMCPConfig
from clusterwise.papers.amcp_reviser import Reviser, examples
from clusterwise.papers.model import TrainingTask
from clusterwise.priors import make_prior
from clusterwise.training.sources import draw_task


def drawn(n_sets: int = 4, n_points: int = 100, seed: int = 0) -> TrainingTask:
    prior = make_prior(name="mixture-of-gaussians", n_features=2, k_max=5)
    return draw_task(prior, np.random.default_rng(seed), n_sets, n_points)


def members_of(task: TrainingTask) -> Tensor:
    return functional.one_hot(task.labels).float().transpose(1, 2)


def test_examples_are_parts_of_clusters_and_of_their_neighbours() -> None:
    task = drawn(40)
    members = members_of(task)
    shown, meant = examples(task.points, members, torch.Generator().manual_seed(0))
    of_clusters = torch.einsum("bcn,bkn->bck", meant, members)  # points of each true cluster
    sizes = members.sum(2).unsqueeze(1)
    assert ((of_clusters == 0) | (of_clusters == sizes)).all()  # whole clusters are meant
    n_meant = ((of_clusters > 0).sum(2)[meant.sum(2) > 0]).tolist()
    assert set(n_meant) == {1, 2}
    assert ((shown == 0) | (shown == 1)).all()
    assert (shown.sum(2) < meant.sum(2)).any()  # in part
    assert (shown * (1 - meant)).sum() > 0  # with points of a neighbour


def test_gradients_reach_all_that_is_learned_and_nothing_else() -> None:
    torch.manual_seed(0)
    sizes = {"width": 16, "n_encoder_blocks": 1, "n_inducing": 4, "n_coordinates": 8}
    model = AMCP(AMCPConfig(revision=True, trained="revision", **sizes))  # type: ignore[arg-type]
    model.loss(drawn(), torch.Generator().manual_seed(0)).backward()
    for name, parameter in model.named_parameters():
        learns = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
        assert learns == name.startswith("reviser."), name


def test_a_few_steps_make_clusters_likelier_and_decisions_better() -> None:
    torch.manual_seed(0)
    reviser = Reviser()
    optimizer = torch.optim.Adam(reviser.parameters(), 5e-3)
    seen = []
    for step in range(60):
        task = drawn(4, seed=step % 6)
        found = [torch.zeros_like(labels) for labels in task.labels]
        generator = torch.Generator().manual_seed(step)
        density = reviser.density_loss(task.points, task.labels, generator)
        decisions = reviser.judge_loss(task.points, task.labels, found)
        seen.append((density.item(), decisions.item()))
        optimizer.zero_grad()
        (density + decisions).backward()
        optimizer.step()
    first, last = np.mean(seen[:12], axis=0), np.mean(seen[-12:], axis=0)
    assert (last < first).all()


def test_the_loss_is_the_same_for_the_same_seed() -> None:
    torch.manual_seed(0)
    reviser, task = Reviser(), drawn(2)
    one, again, other = (
        reviser.density_loss(task.points, task.labels, torch.Generator().manual_seed(seed))
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_clusters_that_are_nearly_a_point_have_a_likelihood() -> None:
    """Rounding in single precision made correlations larger than one of them."""
    task = drawn(2)
    points = task.points.clone()
    points[task.labels == 0] = points[0, 0] + 1e-3 * points[task.labels == 0]
    loss = Reviser().density_loss(points, task.labels, torch.Generator().manual_seed(0))
    assert torch.isfinite(loss)
