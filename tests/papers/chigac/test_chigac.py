"""CHiGac: the parts of the network, its training, its options, the estimator with its pioneers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional

import clusterwise as cw
from clusterwise.papers.chigac.bound import STRATEGIES
from clusterwise.papers.chigac.prefixes import random_prefix
from tests.papers.chigac.small import build, task_of

# -- the network -------------------------------------------------------------------------------------


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


# -- options -----------------------------------------------------------------------------------------


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


def test_pioneers_stand_for_the_clusters(weights: Path, close_pair: np.ndarray) -> None:
    estimator = cw.CHiGac(weights=weights, random_state=0).fit(close_pair)
    assert estimator.pioneers_.shape == (estimator.n_clusters_,)
    np.testing.assert_array_equal(estimator.labels_[estimator.pioneers_], np.arange(estimator.n_clusters_))
    assert set(estimator.pioneers_) <= {step.anchor for step in estimator.steps_}


def test_pioneers_do_not_depend_on_the_order_of_the_rows(weights: Path, close_pair: np.ndarray) -> None:
    order = np.random.default_rng(2).permutation(len(close_pair))
    one = cw.CHiGac(weights=weights, random_state=0).fit(close_pair)
    other = cw.CHiGac(weights=weights, random_state=0).fit(close_pair[order])
    assert set(order[other.pioneers_]) == set(one.pioneers_)


def test_pioneers_of_many_rows_are_rows_of_all(weights: Path, tmp_path: Path) -> None:
    """Whether the network saw few of the rows in memory, or a sample of a source."""
    points = np.random.default_rng(0).permutation(cw.datasets.load_demo()[0])
    pq.write_table(pa.table({"x": points[:, 0], "y": points[:, 1]}), tmp_path / "rows.parquet")
    for rows in (points, tmp_path / "rows.parquet"):
        method = cw.CHiGac(weights=weights, random_state=0, max_network_points=50)
        estimator = method.fit(rows)
        own = estimator.labels_[estimator.pioneers_]
        np.testing.assert_array_equal(own, np.arange(estimator.n_clusters_))
        if estimator._source is not None:
            assert set(estimator.pioneers_) <= set(estimator.sample_rows_)


def test_the_posterior_is_about_what_is_uncertain(weights: Path, close_pair: np.ndarray) -> None:
    posterior = cw.CHiGac(weights=weights, random_state=0).fit(close_pair).k_posterior_
    assert sum(posterior.values()) == pytest.approx(1.0)
    assert posterior.get(2, 0.0) + posterior.get(3, 0.0) > 0.8
