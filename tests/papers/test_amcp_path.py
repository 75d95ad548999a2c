"""The compiled loop of AMCP does what the loop in numpy does."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clusterwise.papers.amcp import AMCP
from clusterwise.papers.amcp_encoding import NumpyEncoding
from clusterwise.papers.amcp_loop import Loop, uniform_numbers
from clusterwise.papers.amcp_mixing import Encodings, IntraCM
from clusterwise.papers.amcp_options import AMCPConfig, Options
from clusterwise.papers.amcp_path import compiled_inference
from clusterwise.pretrained import get_weights
from clusterwise.priors import make_prior

CPU = torch.device("cpu")


@pytest.fixture(params=["trained", "untrained"])
def network(request) -> AMCP:
    if request.param == "trained":
        return get_weights("amcp-2d").model
    torch.manual_seed(0)
    return AMCP(AMCPConfig(width=16, n_encoder_blocks=1, n_inducing=4, n_coordinates=8))


def encodings_of(network: AMCP, n: int, k: int = 6) -> tuple[np.ndarray, np.ndarray]:
    points = make_prior(name="mixture-of-gaussians", n_features=2, k_max=k).draw(
        np.random.default_rng(k), 1, n
    )
    with torch.inference_mode():
        x, expected = network.encode(torch.from_numpy(points[0].points.astype(np.float32))[None], None)
    return x.numpy(), expected.numpy()


@pytest.mark.parametrize("options", [Options(), Options(update=False), Options(n_em_steps=5)])
@pytest.mark.parametrize("cap", [100, 2])
def test_agreement_with_numpy(network: AMCP, options: Options, cap: int) -> None:
    x, expected = encodings_of(network, 200)
    present, numbers = np.ones((1, 200), dtype=bool), uniform_numbers(3, 4, cap)
    intra = IntraCM(network, options)
    loop = Loop(intra, Encodings.of(x, present, intra.precision), present, expected, numbers)
    loop.run(None)
    slow = loop.inference(0, CPU)
    quick = compiled_inference(intra, x[0], expected[0], present[0], numbers)
    assert quick.cap_reached == slow.cap_reached
    assert len(quick.steps) == len(slow.steps)
    for one, other in zip((quick.labels, *quick.draws), (slow.labels, *slow.draws), strict=True):
        assert torch.equal(one, other)
    for mine, reference in zip(quick.steps, slow.steps, strict=True):
        assert mine.anchor == reference.anchor
        assert torch.equal(mine.members, reference.members)
        torch.testing.assert_close(mine.probabilities, reference.probabilities, atol=1e-4, rtol=1e-3)


def test_absent_points_do_not_count(network: AMCP) -> None:
    x, expected = encodings_of(network, 120)
    numbers = uniform_numbers(0, 2, 50)
    present = np.random.default_rng(0).random(120) < 0.7
    intra = IntraCM(network, Options())
    masked = compiled_inference(intra, x[0][present], expected[0][present], present, numbers)
    everywhere = np.ones(present.sum(), dtype=bool)
    alone = compiled_inference(intra, x[0][present], expected[0][present], everywhere, numbers)
    assert torch.equal(masked.labels[torch.from_numpy(present)], alone.labels)
    rows = np.flatnonzero(present)
    assert [step.anchor for step in masked.steps] == [rows[step.anchor] for step in alone.steps]


def test_encodings_in_numpy_are_those_in_torch(network: AMCP) -> None:
    points = torch.randn(3, 150, 2, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        x, expected = network.encode(points, None)
    quick, quick_expected = NumpyEncoding(network)(points.numpy())
    np.testing.assert_allclose(quick, x.numpy(), atol=1e-5)
    np.testing.assert_allclose(quick_expected, expected.numpy(), atol=1e-4)


def test_encodings_do_not_depend_on_other_data_sets(network: AMCP) -> None:
    points = np.random.default_rng(1).standard_normal((20, 60, 2)).astype(np.float32)
    present = np.arange(60) < np.array([60, 40])[np.arange(20) % 2, None]
    encoding = NumpyEncoding(network)
    for one, rows, (x, expected) in zip(points, present, encoding.of_sets(points, present), strict=True):
        alone, expected_alone = encoding(one[None, rows])
        np.testing.assert_array_equal(x, alone[0])
        np.testing.assert_array_equal(expected, expected_alone[0])


@pytest.mark.parametrize("name", ["encoder.embed.linear.bias", "to_encoding.weight", "log_seed_loss.0.bias"])
def test_a_changed_parameter_is_noticed(name: str) -> None:
    network = AMCP(AMCPConfig(width=16, n_encoder_blocks=1, n_inducing=4, n_coordinates=8))
    encoding = NumpyEncoding(network)
    assert encoding.holds()
    with torch.no_grad():
        network.get_parameter(name).add_(1.0)
    assert not encoding.holds()
