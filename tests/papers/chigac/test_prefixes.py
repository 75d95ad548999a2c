"""Training steps of CHiGac: the law of the states, pioneers, what is raised and in which direction."""

from __future__ import annotations

from typing import Any

import torch

from clusterwise.papers.chigac.bound import TAU
from clusterwise.papers.chigac.prefixes import (
    CENTRALITY,
    NEVER,
    central_scores,
    direction_of_pioneers,
    next_clusters,
    objectives,
    random_prefix,
)
from tests.papers.chigac.small import build, task_of


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


# -- directions --------------------------------------------------------------------------------------


def test_central_members_are_the_likelier_pioneers() -> None:
    h = torch.tensor([0.0, 1.0, 2.0, 3.0, 9.0, 50.0], dtype=torch.float64)[None, :, None]
    members = torch.tensor([[[1.0, 1, 1, 1, 1, 0]]], dtype=torch.float64)
    scores = central_scores(h, members)[0, 0]
    distances = (h[0, :, 0] - 3.0).abs()  # from the mean of the members
    assert scores[:5].argsort(descending=True).tolist() == distances[:5].argsort().tolist()
    torch.testing.assert_close((members[0, 0] * scores).sum(), torch.tensor(-5 * CENTRALITY).double())
    assert scores[5] == NEVER


def test_pioneers_learn_to_be_central() -> None:
    """What is raised is larger if p(I) prefers central members, smaller if it prefers the rim."""
    model, task = build(central=True, hybrid=False), task_of(n_sets=20)
    prefix = random_prefix(task.labels, task.n_clusters, 3, torch.Generator().manual_seed(1))
    encoded = model.encode(task.points, None)
    clusters = prefix.clusters.double()
    own = central_scores(encoded.h, clusters).masked_fill(~prefix.clusters, 0.0).sum(1)
    raised = {}
    for sign in (1.0, 0.0, -1.0):
        preferring = encoded._replace(central=sign * own, pioneering=torch.zeros_like(encoded.pioneering))
        found = next_clusters(model, preferring, prefix, torch.Generator().manual_seed(2))
        raised[sign] = objectives(model, found, prefix, torch.Generator().manual_seed(3)).mean().item()
    assert raised[1.0] > raised[0.0] > raised[-1.0]


def test_easy_clusters_are_the_likelier_next() -> None:
    model, other, task = build(), build(hybrid=False), task_of(n_sets=30)
    prefix = random_prefix(task.labels, task.n_clusters, 2, torch.Generator().manual_seed(1))
    found = next_clusters(model, model.encode(task.points, None), prefix, torch.Generator().manual_seed(2))

    def value(network: Any, of_pioneer: float) -> torch.Tensor:
        given = found._replace(of_pioneer=torch.full_like(found.of_pioneer, of_pioneer))
        return objectives(network, given, prefix, torch.Generator().manual_seed(3))

    ease = value(model, 1.0) - value(model, 0.0)
    generated = value(model, 0.0) - value(other, 0.0)  # log-likelihoods at a draw of the prior
    torch.testing.assert_close(ease.sum(1), torch.full_like(ease[:, 0], 2.0))
    differ = (generated[:, 0] - generated[:, 1]).abs() > 1e-6
    assert differ.sum() > 10
    assert torch.equal(ease.argmax(1)[differ], generated.argmax(1)[differ])
