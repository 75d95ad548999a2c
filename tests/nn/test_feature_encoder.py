"""Encoders: each row on its own, scales of the training table, discriminants that tell classes apart."""

from __future__ import annotations

import pytest
import torch

from clusterwise.nn.feature_encoder import REACH, EncoderConfig, FeatureEncoder, discriminants

CONFIGS = {
    "identity": EncoderConfig(n_features=6, kind="identity"),
    "mlp": EncoderConfig(n_features=6, kind="mlp", n_encoded=4, width=16),
    "grey": EncoderConfig(36, "convolution", (6, 6), n_encoded=4, channels=(4, 8)),
    "colours": EncoderConfig(9 * 20 * 3, "convolution", (9, 20, 3), n_encoded=4, channels=(4, 8, 8)),
    "tiny": EncoderConfig(6, "convolution", (2, 3), n_encoded=4, channels=(4, 8)),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_each_row_is_encoded_on_its_own(config: EncoderConfig) -> None:
    torch.manual_seed(0)
    encoder = FeatureEncoder(config)
    rows = 5 * torch.randn(40, config.n_features) + 3
    encoder.start(rows, torch.arange(40) % 4)
    with torch.no_grad():
        together, alone = encoder(rows), torch.cat([encoder(row[None]) for row in rows])
    assert together.shape == (40, config.n_out)
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["identity", "mlp"])
def test_units_of_the_columns_do_not_matter(kind: str) -> None:
    config, units = CONFIGS[kind], torch.tensor([1e-6, 1.0, 1e6, 3.0, 7.0, 1e3])
    rows, labels = torch.randn(60, 6), torch.arange(60) % 5
    found = []
    for of_scale in (rows, rows * units + 10 * units):
        torch.manual_seed(0)
        encoder = FeatureEncoder(config)
        encoder.start(of_scale, labels)
        found.append(encoder(of_scale).detach())
    torch.testing.assert_close(found[0], found[1], rtol=1e-2, atol=1e-3)


def test_a_new_table_is_not_scaled_by_itself() -> None:
    encoder = FeatureEncoder(CONFIGS["identity"])
    rows = torch.randn(100, 6)
    encoder.start(rows, torch.arange(100) % 5)
    moved = (encoder(rows[:10] + 2) - encoder(rows[:10])).detach().norm(dim=1)
    apart = (encoder(rows[:10]) - encoder(rows[10:20])).detach().norm(dim=1)
    expected = 2 * 6**0.5 / (rows[:10] - rows[10:20]).norm(dim=1)  # no matter how few rows there are
    torch.testing.assert_close(moved / apart, expected, rtol=0.5, atol=0.3)


def test_constant_columns_and_extreme_rows_stay_finite() -> None:
    torch.manual_seed(0)
    encoder = FeatureEncoder(CONFIGS["mlp"])
    rows = torch.randn(50, 6)
    rows[:, 2] = 7.0
    encoder.start(rows, torch.arange(50) % 5)
    encoded = encoder(torch.full((1, 6), 3e38)).detach()
    assert bool(torch.isfinite(encoded).all())
    assert float(encoded.square().mean()) <= REACH**2 + 1e-4


def test_discriminants_find_the_direction_that_classes_differ_in() -> None:
    torch.manual_seed(1)
    labels = torch.arange(400) % 4
    rows = torch.randn(400, 5) * torch.tensor([3.0, 1, 1, 1, 1])  # most of the spread is within the classes
    rows[:, 3] += 4 * labels
    axes = discriminants(rows, labels, 2)
    first = axes[:, 0] / axes[:, 0].norm()
    assert abs(float(first[3])) > 0.95
    projected = rows @ axes[:, 0]
    within = torch.stack([projected[labels == k].std() for k in range(4)]).mean()
    assert float(within) == pytest.approx(1.0, abs=0.3)


def test_shapes_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ValueError, match="needs image_shape"):
        EncoderConfig(36, "convolution")
    with pytest.raises(ValueError, match="not 30"):
        EncoderConfig(30, "convolution", (6, 6))
