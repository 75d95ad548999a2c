"""The set blocks against Eqs 1-2 written as loops, and the encoder; masked points do not exist."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from clusterwise.nn.attention import (
    CoordinateEmbedding,
    InducedSetAttentionBlock,
    MultiheadAttentionBlock,
    PoolingByMultiheadAttention,
    SetAttentionBlock,
    SetEncoder,
)

WIDTH = 8
TOLERANCE = {"rtol": 1e-10, "atol": 1e-11}  # for float64: only the order of sums differs

# The sides decide which of its three formulas the block uses.
SIDES = [(3, 7), (7, 3), (4, 4), (1, 6), (6, 1), (1, 1), (6, 2)]


def mab(n_heads: int = 2) -> MultiheadAttentionBlock:
    torch.manual_seed(n_heads)
    return MultiheadAttentionBlock(WIDTH, n_heads).double()


def points(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def some_absent(n_sets: int, n: int) -> Tensor:
    """Return a mask with a different part of each set absent, at least one point present."""
    mask = torch.rand(n_sets, n, generator=torch.Generator().manual_seed(n)) < 0.6
    mask[:, 0] = True
    mask[0] = True
    return mask


@torch.no_grad()
def naive_mab(block: MultiheadAttentionBlock, x: Tensor, y: Tensor, mask: Tensor | None = None) -> Tensor:
    """Eq 1, one data set, one head and one query at a time; absent y are skipped."""
    per_head = WIDTH // block.n_heads
    results = []
    for b in range(len(x)):
        present = [j for j in range(y.shape[1]) if mask is None or mask[b, j]]
        rows = []
        for i in range(x.shape[1]):
            heads = []
            for head in range(block.n_heads):
                of_head = slice(head * per_head, (head + 1) * per_head)
                query = block.query.weight[of_head] @ x[b, i]
                keys = [block.key.weight[of_head] @ y[b, j] for j in present]
                values = [block.value.weight[of_head] @ y[b, j] for j in present]
                weights = [math.exp(float(query @ key) / math.sqrt(per_head)) for key in keys]
                heads.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
            attended = block.output.weight @ torch.cat(heads) + block.output.bias
            h = x[b, i] + attended
            rows.append(h + torch.relu(block.feed_forward.weight @ h + block.feed_forward.bias))
        results.append(torch.stack(rows))
    return torch.stack(results)


@torch.no_grad()
def naive_isab(block: InducedSetAttentionBlock, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Eq 2."""
    inducing = block.inducing.expand(len(x), -1, -1)
    return naive_mab(block.spread, x, naive_mab(block.gather, inducing, x, mask))


@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize(("n", "m"), SIDES)
def test_mab_is_eq_1(n: int, m: int, n_heads: int) -> None:
    block = mab(n_heads)
    x, y = points(2, n, WIDTH), points(2, m, WIDTH, seed=1)
    torch.testing.assert_close(block(x, y), naive_mab(block, x, y), **TOLERANCE)


@pytest.mark.parametrize(("n", "m"), SIDES)
def test_masked_mab_is_eq_1_over_the_present_points(n: int, m: int) -> None:
    block, mask = mab(), some_absent(3, m)
    x, y = points(3, n, WIDTH), points(3, m, WIDTH, seed=1)
    torch.testing.assert_close(block(x, y, mask), naive_mab(block, x, y, mask), **TOLERANCE)


def test_sab_isab_and_pma_are_made_of_mab() -> None:
    torch.manual_seed(0)
    x, mask = points(2, 6, WIDTH), some_absent(2, 6)
    sab = SetAttentionBlock(WIDTH, 2).double()
    torch.testing.assert_close(sab(x, mask), naive_mab(sab.block, x, x, mask), **TOLERANCE)
    isab = InducedSetAttentionBlock(WIDTH, 2, n_inducing=3).double()
    torch.testing.assert_close(isab(x, mask), naive_isab(isab, x, mask), **TOLERANCE)
    pma = PoolingByMultiheadAttention(WIDTH, 2, n_seeds=2).double()
    seeds = pma.seeds.expand(2, -1, -1)
    torch.testing.assert_close(pma(x, mask), naive_mab(pma.block, seeds, x, mask), **TOLERANCE)


def test_width_must_be_a_multiple_of_the_heads() -> None:
    with pytest.raises(ValueError, match="width 8 is not a multiple of n_heads 3"):
        MultiheadAttentionBlock(8, 3)


# Blocks that take a set alone; the last two summarize it.
BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "SAB": lambda: SetAttentionBlock(WIDTH, 2),
    "ISAB": lambda: InducedSetAttentionBlock(WIDTH, 2, 4),
    "ISAB with one inducing point": lambda: InducedSetAttentionBlock(WIDTH, 2, 1),
    "PMA": lambda: PoolingByMultiheadAttention(WIDTH, 2, 1),
    "PMA with many seeds": lambda: PoolingByMultiheadAttention(WIDTH, 2, 20),
}


@pytest.fixture(params=BLOCKS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def block(name: str) -> nn.Module:
    torch.manual_seed(0)
    return BLOCKS[name]()


def keeps_points(name: str) -> bool:
    return not name.startswith("PMA")


@pytest.mark.parametrize("spread", [1.0, 1e4])
@pytest.mark.parametrize("garbage", [1e12, -1e12, 0.0])
def test_absent_points_have_a_weight_of_exactly_zero(
    block: nn.Module, name: str, garbage: float, spread: float
) -> None:
    """Whatever stands where points are absent, and however low the scores of the others, no bit changes."""
    x, mask = spread * points(3, 9, WIDTH).float(), some_absent(3, 9)
    changed = x.masked_fill(~mask[..., None], garbage)
    before, after = block(x, mask), block(changed, mask)
    if keeps_points(name):
        before, after = before[mask], after[mask]
    assert torch.equal(before, after)


def test_no_gradient_flows_to_absent_points(block: nn.Module, name: str) -> None:
    x, mask = points(3, 9, WIDTH).float().requires_grad_(), some_absent(3, 9)
    result = block(x, mask)
    (result[mask] if keeps_points(name) else result).square().sum().backward()
    assert x.grad is not None
    assert not x.grad[~mask].any()
    assert x.grad[mask].any(dim=-1).all()


def test_a_set_with_no_point_left_stays_finite(block: nn.Module) -> None:
    assert block(points(2, 5, WIDTH).float(), torch.zeros(2, 5, dtype=torch.bool)).isfinite().all()


# -- the encoder ---------------------------------------------------------------------------------


def test_no_wavelengths_is_the_linear_map_of_the_papers() -> None:
    embed, points = CoordinateEmbedding(3, 5, n_wavelengths=0), torch.randn(2, 4, 3)
    torch.testing.assert_close(embed(points), points @ embed.linear.weight.T + embed.linear.bias)


def test_waves_against_a_loop() -> None:
    torch.manual_seed(0)
    embed = CoordinateEmbedding(2, 5, n_wavelengths=3, longest=8.0).double()
    points = torch.randn(1, 3, 2).double()
    result = embed(points)
    for i in range(3):
        x = points[0, i].tolist()
        angles = [2 * math.pi * coordinate / wavelength for coordinate in x for wavelength in (8.0, 4.0, 2.0)]
        row = x + [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
        expected = embed.linear.weight @ torch.tensor(row, dtype=torch.float64) + embed.linear.bias
        torch.testing.assert_close(result[0, i], expected, rtol=1e-6, atol=1e-6)  # wavelengths are float32


def test_weights_hold_no_wavelengths() -> None:
    """They follow from the config, and files stay readable if their number format changes."""
    assert set(CoordinateEmbedding(2, 4, 6).state_dict()) == {"linear.weight", "linear.bias"}


def test_encoded_points_in_any_order_with_absent_ones() -> None:
    torch.manual_seed(0)
    encoder, points = SetEncoder(3, 8, 2, 4, 2, 2).double(), torch.randn(2, 20, 3, dtype=torch.float64)
    order = torch.randperm(20)
    torch.testing.assert_close(encoder(points)[:, order], encoder(points[:, order]))
    mask = torch.arange(20) < 13
    masked = encoder(points, mask.expand(2, -1))[:, mask]
    torch.testing.assert_close(masked, encoder(points[:, mask]))
    assert not torch.allclose(masked, encoder(points)[:, mask])  # absent points would have mattered


def test_a_large_batch_is_encoded_in_parts() -> None:
    torch.manual_seed(0)
    encoder = SetEncoder(2, WIDTH, 2, 3, 2, 2).double()
    x, mask = torch.randn(7, 300, 2, dtype=torch.float64), torch.rand(7, 300) < 0.7
    for absent in (None, mask):
        with torch.no_grad():
            in_parts = encoder(x, absent)
        torch.testing.assert_close(in_parts, encoder(x, absent).detach())
