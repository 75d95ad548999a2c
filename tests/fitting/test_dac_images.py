"""DAC with a decoder: trained from labelled images it draws images, and knows which of them are likely."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clusterwise as cw
from clusterwise.exceptions import ClusterwiseError, RecipeError
from clusterwise.papers.encoded import EncodedModel, RowsTask
from clusterwise.papers.model import TrainingTask
from clusterwise.papers.registry import make_model
from clusterwise.pretrained import Weights

SIDE = 8


def images_of(n_classes: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes of images with a few bright pixels each, noisy."""
    rng = np.random.default_rng(seed)
    patterns = rng.random((n_classes, SIDE, SIDE)) < 0.3
    y = rng.permutation(np.repeat(np.arange(n_classes), each))
    noisy = 200 * patterns[y] + rng.normal(scale=20, size=(len(y), SIDE, SIDE)) + 30
    return np.clip(noisy, 0, 255).astype(np.uint8), y


@pytest.fixture(scope="module")
def weights() -> Weights:
    X, y = images_of(30, 12, 0)
    return cw.train_from_labels(X, y, method="dac", decoder=True, steps=15, random_state=0, verbose=0)


@pytest.fixture(scope="module")
def new_images() -> np.ndarray:
    return images_of(4, 20, 1)[0].reshape(80, -1).astype(np.float64)


@pytest.mark.parametrize("refine", ["auto", "search", None])
def test_samples_are_images(weights: Weights, new_images: np.ndarray, refine: Any) -> None:
    est = cw.DAC(weights=weights, refine=refine, random_state=0).fit(new_images)
    drawn, labels = est.sample(40)
    assert drawn.shape == (40, SIDE * SIDE)
    assert drawn.min() >= 0
    assert drawn.max() <= 255
    assert labels.shape == (40,)
    assert set(labels.tolist()) <= set(range(est.n_clusters_))
    again, _ = est.sample(40)
    assert np.array_equal(drawn, again)
    assert est.predict(drawn).shape == (40,)  # what is drawn can be clustered


def test_images_like_those_of_fit_are_likelier_than_noise(weights: Weights, new_images: np.ndarray) -> None:
    est = cw.DAC(weights=weights, random_state=0).fit(new_images)
    noise = np.random.default_rng(0).permuted(new_images, axis=1)
    own, other = est.score_samples(new_images), est.score_samples(noise)
    assert own.shape == (80,)
    assert (own < 0).all()  # a probability of pixels
    assert own.mean() > other.mean()
    assert np.allclose(est.score_samples(new_images[5:6]), own[5:6], rtol=1e-4)
    assert est.score(new_images) == pytest.approx(own.mean())
    with pytest.raises(ClusterwiseError):
        est.score_samples(new_images[:, :10])
    with pytest.raises(ClusterwiseError):
        est.sample(0)


def test_a_file_and_a_pickle_do_what_the_weights_do(
    weights: Weights, new_images: np.ndarray, tmp_path: Path
) -> None:
    est = cw.DAC(weights=weights, random_state=0).fit(new_images)
    stored = cw.DAC(weights=weights.save(tmp_path / "own.safetensors"), random_state=0).fit(new_images)
    pickled = pickle.loads(pickle.dumps(est))
    for other in (stored, pickled):
        assert np.array_equal(other.labels_, est.labels_)
        assert np.array_equal(other.sample(5)[0], est.sample(5)[0])
        assert np.array_equal(other.score_samples(new_images), est.score_samples(new_images))


def test_the_order_of_the_rows_plays_no_part(weights: Weights, new_images: np.ndarray) -> None:
    order = np.random.default_rng(0).permutation(len(new_images))
    one, other = (
        cw.DAC(weights=weights, random_state=0).fit(rows) for rows in (new_images, new_images[order])
    )
    assert np.allclose(one.score_samples(new_images), other.score_samples(new_images), rtol=1e-4)


def model_of_images(**options: Any) -> EncodedModel:
    torch.manual_seed(0)
    network = {
        "width": 16, "n_heads": 2, "n_inducing": 4, "n_encoder_blocks": 1, "n_wavelengths": 0, "n_context": 6,
        "density": "statistician", "n_pixels": 16, "n_latent": 2, "decoder_width": 8, **options,
    }  # fmt: skip
    model = make_model("dac", network, {"kind": "mlp", "n_features": 16, "n_encoded": 3, "width": 8})
    assert isinstance(model, EncodedModel)
    return model


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
def test_the_loss_reaches_every_parameter_of_the_decoder(filtering: str) -> None:
    model = model_of_images(filtering=filtering, n_anchors=2)
    labels = (torch.arange(12) % 3).expand(2, -1)
    task = RowsTask(torch.rand(20, 16), torch.arange(12).expand(2, -1), labels, torch.tensor([3, 3]))
    model.loss(task, torch.Generator().manual_seed(0)).backward()
    assert model.statistician is not None
    for name, parameter in model.statistician.named_parameters():
        assert parameter.grad is not None, name
        assert bool(torch.isfinite(parameter.grad).all()), name
        assert bool((parameter.grad != 0).any()), name


@pytest.mark.parametrize("filtering", ["minimum-loss", "anchored"])
@torch.no_grad()
def test_contexts_depend_on_the_members_and_not_on_their_order(filtering: str) -> None:
    network = model_of_images(filtering=filtering).network
    points, mask = torch.randn(2, 9, 3), torch.ones(2, 9, dtype=torch.bool)
    mask[1, 5:] = False
    found = network.contexts(points, mask)  # type: ignore[operator]
    torch.testing.assert_close(network.contexts(points.flip(1), mask.flip(1)), found)  # type: ignore[operator]
    torch.testing.assert_close(network.contexts(points[1:, :5], mask[1:, :5])[0], found[1])  # type: ignore[operator]
    assert not torch.allclose(found[0], found[1])


def test_decoders_are_for_dac_and_images() -> None:
    X, y = images_of(12, 4, 0)
    for method, rows in (("amcp", X), ("dac", X.reshape(len(X), -1))):
        with pytest.raises(ClusterwiseError, match="decoder=True draws images"):
            cw.train_from_labels(rows, y, method=method, decoder=True, steps=1)
    with pytest.raises(RecipeError, match="n_pixels of the density is 9"):
        model_of_images(n_pixels=9)
    alone = make_model("dac", {"density": "statistician", "width": 16})
    task = TrainingTask(torch.randn(1, 6, 2), torch.zeros(1, 6, dtype=torch.int64), torch.ones(1).long())
    with pytest.raises(RecipeError, match="needs an \\[encoder\\]"):
        alone.loss(task, torch.Generator())


def test_other_weights_draw_encodings_as_before() -> None:
    X, y = images_of(12, 6, 0)
    plain = cw.train_from_labels(X, y, method="dac", steps=1, random_state=0, verbose=0)
    est = cw.DAC(weights=plain, random_state=0).fit(X.reshape(len(X), -1).astype(float))
    assert est.sample(3)[0].shape == (3, 64)
