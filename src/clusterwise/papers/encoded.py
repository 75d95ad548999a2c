"""An encoder of single rows before any of the amortized networks, trained together with it.

The set network N of a paper, AMCP's or DAC's or another, sees the encodings z_i = e(x_i) in place of the
points; nothing in it changes. What is minimized is ::

    loss of N on {z_i}  +  w * mean_i - log softmax_k(- |z_i - c_k|^2 / T)[y_i]

The second term, with c_k the mean of the other members of class k, is that of prototypical networks (Snell,
Swersky & Zemel 2017) with each data set as its own support. It knows nothing of how many clusters there are;
it brings the rows of a class together within a few hundred steps, where the first alone would take thousands.

In use, rows are clustered in the space of their encodings (``EncodedSpace``). The answer is a cut of Ward's
tree that was learned on classes held out (``cut``); without such a cut it is that of the set network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from clusterwise.exceptions import WeightsFileError, WeightsWidthError
from clusterwise.nn.attention import CoordinateEmbedding, InducedSetAttentionBlock
from clusterwise.nn.feature_encoder import EncoderConfig, FeatureEncoder
from clusterwise.papers.amcp.network import AMCPNetwork
from clusterwise.papers.cut import WardCut
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask
from clusterwise.pretrained import Weights, get_weights

__all__ = [
    "EncodedModel",
    "EncodedSpace",
    "RowsTask",
    "encodings_of",
    "prototype_loss",
    "start_near_identity",
    "start_widths",
]

# Share of its weights that attention begins with.
ADDED_BY_ATTENTION = 0.1
NATS_BETWEEN_CLASSES = 4.0
# Rows are encoded in blocks of this size, the last one filled up: how a product is taken, and so its
# rounding, does not depend on how many other rows there are.
ROWS_AT_ONCE = 256


# -- the model and its loss --------------------------------------------------------------------------


@dataclass(frozen=True)
class RowsTask:
    """B labelled data sets of one size as numbers of rows, each of which is encoded once."""

    rows: Tensor  # (U, d) float32, no row twice
    index: Tensor  # (B, N) int64, which rows each data set has
    labels: Tensor  # (B, N) int64, 0 .. K_b - 1
    n_clusters: Tensor  # (B,) int64


def prototype_loss(points: Tensor, labels: Tensor, temperature: Tensor) -> Tensor:
    """Cross-entropy of each point's class by its distances to the class means without it; a scalar.

    ``points`` is (B, N, e), ``labels`` (B, N). Points alone in their class do not count.
    """
    members = functional.one_hot(labels).to(points.dtype)  # (B, N, K)
    sizes = members.sum(1)  # (B, K)
    sums = members.transpose(1, 2) @ points
    means = sums / sizes.clamp(min=1).unsqueeze(-1)
    squared = (
        points.square().sum(-1, keepdim=True)
        - 2 * points @ means.transpose(1, 2)
        + means.square().sum(-1).unsqueeze(1)
    )
    # Without the point itself the mean of its class is n / (n - 1) times as far away.
    own = sizes.gather(1, labels)
    ratio = torch.where(own > 1, own / (own - 1).clamp(min=1), 1.0)
    squared = squared * (1 + members * (ratio.square() - 1).unsqueeze(-1))
    logits = (-squared / temperature).masked_fill((sizes == 0).unsqueeze(1), -torch.inf)
    log_p = torch.log_softmax(logits, dim=-1).gather(2, labels.unsqueeze(-1)).squeeze(-1)
    counted = own > 1
    return -(log_p * counted).sum() / counted.sum().clamp(min=1)


@torch.no_grad()
def start_near_identity(network: AmortizedModel) -> None:
    """Let a set network begin with the encodings as they are, and with little of what attention adds.

    An encoder brings classes together long before a stack of attention blocks has learned to leave them so.
    """
    for module in network.modules():
        if isinstance(module, InducedSetAttentionBlock):
            for layer in (module.spread.output, module.spread.feed_forward):
                layer.weight.mul_(ADDED_BY_ATTENTION)
                layer.bias.zero_()
        elif isinstance(module, CoordinateEmbedding):
            nn.init.orthogonal_(module.linear.weight)
            nn.init.zeros_(module.linear.bias)
    if isinstance(network, AMCPNetwork):
        nn.init.orthogonal_(network.to_encoding.weight)
        nn.init.zeros_(network.to_encoding.bias)


@torch.no_grad()
def start_widths(network: AMCPNetwork, points: Tensor, labels: Tensor) -> None:
    """Let AMCP's components begin as wide as classes are, points (B, N, f) with labels (B, N).

    Classes of many features as they are lie far from their means in all of them. With narrow components every
    point would belong to the rest at first, and the quickest way out of such a loss is one that drives the
    encodings to the corners of the cube. Encodings that are tight already leave the widths as they are.
    """
    x = network.encode(points, None)[0].x
    members = functional.one_hot(labels).to(x.dtype)  # (B, N, K)
    sizes = members.sum(1, keepdim=True)
    means = members.transpose(1, 2) @ x / sizes.transpose(1, 2).clamp(min=1)
    squared = torch.cdist(x, means).square()
    others = (1 - members) * (sizes > 0)
    own, other = ((squared * which).sum() / which.sum().clamp(min=1) for which in (members, others))
    # Another class is some nats less likely than the point's own; the rest is in the middle between them.
    widened = 0.5 * torch.log((other - own).clamp(min=1e-9) / (2 * NATS_BETWEEN_CLASSES))
    network.log_sd.copy_(torch.maximum(network.log_sd, widened))
    middle = -torch.exp(-2 * network.log_sd) * (own + other) / 4
    network.log_density_of_rest.copy_(torch.minimum(network.log_density_of_rest, middle))


class EncodedModel(AmortizedModel):
    """A set network behind an encoder; it takes rows as users have them."""

    config_class = EncoderConfig

    def __init__(self, encoder: FeatureEncoder, network: AmortizedModel) -> None:
        super().__init__()
        self.encoder, self.network = encoder, network
        start_near_identity(network)
        self.config = network.config

    @property
    def n_features(self) -> int:
        """Number of features that the encoder takes."""
        return self.encoder.n_features

    @property
    def has_density(self) -> bool:
        """Whether the network's loss is a density of its points, which grows without end as they shrink.

        Then the metric alone trains the encoder.
        """
        density = getattr(self.config, "density", "none")
        return self.method == "act-st" or density != "none"

    @property
    def method(self) -> str:  # type: ignore[override]
        """The method of the set network."""
        return self.network.method

    def loss(self, task: Any, generator: torch.Generator) -> Tensor:
        """Encode every row once; the losses of the set network and of the metric."""
        if not isinstance(task, RowsTask):
            raise TypeError("a network with an encoder trains on rows of labelled data")
        points = self.encoder(task.rows)[task.index]
        seen = points.detach() if self.has_density else points
        loss = self.network.loss(TrainingTask(seen, task.labels, task.n_clusters), generator)
        weight = self.encoder.config.metric_weight
        if weight > 0:
            temperature = torch.exp(self.encoder.log_temperature)
            loss = loss + weight * prototype_loss(points, task.labels, temperature)
        return loss

    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
    ) -> list[Inference]:
        """See ``AmortizedModel``; points (B, N, d) are rows that are not encoded yet."""
        with torch.inference_mode():
            encoded = self.encoder(points.flatten(0, 1)).unflatten(0, points.shape[:2])
        return self.network.infer(encoded, mask, seeds, max_clusters, n_draws)

    def infer_encoded(self, facts: Mapping[str, Any]) -> Callable[..., list[Inference]]:
        """What infers partitions of encodings, by the facts that weights come with."""
        return WardCut(**facts["cut"]).infer if "cut" in facts else self.network.infer


# -- the space of the encodings ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EncodedSpace:
    """Encodings of the user's rows; see ``FeatureSpace``. Means and draws stay in this space."""

    encoder: FeatureEncoder
    weights: str = ""  # their name

    def width(self, n_columns: int, name: str) -> int:
        """Number of features of the encodings of data with so many columns, as many as the encoder takes."""
        if n_columns != self.encoder.n_features:
            raise WeightsWidthError(
                name=name,
                width=n_columns,
                weights=self.weights,
                expected=self.encoder.n_features,
                from_labels=True,
                remedy="pass the columns that they were trained on, in the same order",
            )
        return self.encoder.config.n_out

    @property
    def log_volume(self) -> float:
        """Zero: densities are those of the encodings."""
        return 0.0

    def apply(self, points: np.ndarray) -> np.ndarray:
        """Encodings (n, f) of points (n, d), each row on its own."""
        largest = np.finfo(np.float32).max
        rows = np.clip(points, -largest, largest).astype(np.float32)
        n = len(rows)
        result = np.empty((n, self.encoder.config.n_out))
        device = self.encoder.shift.device
        with torch.inference_mode():
            for start in range(0, n, ROWS_AT_ONCE):
                part = rows[start : start + ROWS_AT_ONCE]
                block = np.zeros((ROWS_AT_ONCE, rows.shape[1]), dtype=np.float32)
                block[: len(part)] = part
                encoded = self.encoder(torch.from_numpy(block).to(device)).cpu().numpy()
                result[start : start + len(part)] = encoded[: len(part)]
        return result

    def inverse(self, features: np.ndarray) -> np.ndarray:
        """The encodings themselves: no network has learned what a row with given ones looks like."""
        return features

    def covariances(self, of_features: np.ndarray) -> np.ndarray:
        """Covariances (K, f, f) of the encodings."""
        return of_features


def encodings_of(weights: str | Path | Weights) -> EncodedSpace:
    """The space of the encodings of weights that were trained on labels."""
    loaded = get_weights(weights)
    if not isinstance(loaded.model, EncodedModel):
        raise WeightsFileError(
            f"The weights {loaded.name!r} have no encoder; pass weights of clusterwise.train_from_labels."
        )
    return EncodedSpace(loaded.model.encoder, loaded.name)
