"""ISAB without gradients: the block that training sees, whatever happened to its parameters since."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from clusterwise.nn.attention import InducedSetAttentionBlock
from clusterwise.nn.encoder import SetEncoder

WIDTH = 8


def make_block(n_heads: int = 2, n_inducing: int = 3) -> InducedSetAttentionBlock:
    torch.manual_seed(0)
    block = InducedSetAttentionBlock(WIDTH, n_heads, n_inducing).double()
    with torch.no_grad():
        for parameter in block.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # biases and norms are not 0 and 1 any more
    return block


def points(n_sets: int, n: int) -> Tensor:
    return torch.randn(n_sets, n, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def some_absent(n_sets: int, n: int) -> Tensor:
    mask = torch.rand(n_sets, n, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[:, 0] = True
    return mask


@torch.inference_mode()
def folded(block: nn.Module, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return block(x, mask)


@pytest.mark.parametrize("n_inducing", [1, 3, 12])
@pytest.mark.parametrize("n_heads", [1, 2, 4])
@pytest.mark.parametrize(("n_sets", "n"), [(1, 1), (1, 9), (3, 9)])
def test_it_is_the_block_with_gradients(n_sets: int, n: int, n_heads: int, n_inducing: int) -> None:
    block, x, mask = make_block(n_heads, n_inducing), points(n_sets, n), some_absent(n_sets, n)
    torch.testing.assert_close(folded(block, x), block(x).detach())
    torch.testing.assert_close(folded(block, x, mask), block(x, mask).detach())


def test_what_is_absent_leaves_no_trace() -> None:
    block, x, mask = make_block().float(), points(3, 9).float(), some_absent(3, 9)
    before = folded(block, x, mask)
    after = folded(block, x.masked_fill(~mask[..., None], 1e12), mask)
    assert torch.equal(before[mask], after[mask])
    assert folded(block, x, torch.zeros_like(mask)).isfinite().all()


def test_products_are_taken_once() -> None:
    block, x = make_block(), points(1, 9)
    folded(block, x)
    kept = block._folded
    folded(block, 2 * x)
    with torch.no_grad():
        block(x)
    assert block._folded is kept
    block(x)  # in training
    assert block._folded is None


def write_in_place(block: nn.Module) -> None:
    with torch.no_grad():
        next(block.parameters()).mul_(1.5)


def step_of_an_optimizer(block: nn.Module) -> None:
    optimizer = torch.optim.Adam(block.parameters(), lr=0.1)
    with torch.enable_grad():
        (block.gather.key.weight.sum() + block.spread.feed_forward.bias.sum()).backward()
    optimizer.step()


def average(block: nn.Module) -> None:
    others = [torch.randn_like(parameter) for parameter in block.parameters()]
    with torch.no_grad():
        torch._foreach_lerp_(list(block.parameters()), others, 0.1)


def load(block: nn.Module) -> None:
    block.load_state_dict({name: 1.5 * tensor for name, tensor in block.state_dict().items()})


def load_by_assignment(block: nn.Module) -> None:
    block.load_state_dict({k: 1.5 * v for k, v in block.state_dict().items()}, assign=True)


def new_data(block: nn.Module) -> None:
    block.spread.value.weight.data = 1.5 * block.spread.value.weight.data


@pytest.mark.parametrize(
    "change", [write_in_place, step_of_an_optimizer, average, load, load_by_assignment, new_data]
)
def test_a_change_of_the_parameters_is_noticed(change: Callable[[nn.Module], None]) -> None:
    block, x = make_block(), points(2, 9)
    before = folded(block, x)
    change(block)
    after = folded(block, x)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, block(x).detach())


def test_copies_go_their_own_way() -> None:
    block, x = make_block(), points(2, 9)
    before = folded(block, x)
    twin = copy.deepcopy(block)
    write_in_place(twin)
    torch.testing.assert_close(folded(twin, x), twin(x).detach())
    assert torch.equal(folded(block, x), before)


def test_another_number_format() -> None:
    block, x = make_block(), points(2, 9)
    before = folded(block, x)
    assert folded(block.float(), x.float()).dtype == torch.float32
    torch.testing.assert_close(folded(block.double(), x), before, rtol=1e-4, atol=1e-4)


def test_parameters_that_torch_keeps_no_count_of() -> None:
    with torch.inference_mode():
        block, x = make_block(), points(2, 9)
        before = block(x)
        next(block.parameters()).mul_(1.5)
        assert not torch.allclose(before, block(x))


def test_a_large_batch_is_encoded_in_parts() -> None:
    torch.manual_seed(0)
    encoder = SetEncoder(2, WIDTH, 2, 3, 2, 2).double()
    x = torch.randn(7, 300, 2, dtype=torch.float64)
    mask = torch.rand(7, 300) < 0.7
    torch.testing.assert_close(folded(encoder, x), encoder(x).detach())
    torch.testing.assert_close(folded(encoder, x, mask), encoder(x, mask).detach())
