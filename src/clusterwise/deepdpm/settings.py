"""What can be chosen about a fit, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from clusterwise.gaussian.niw import NormalInverseWishart

__all__ = ["ClusterLoss", "Settings", "Subclusters"]

ClusterLoss = Literal["kl", "isotropic"]
Subclusters = Literal["network", "2-means"]


@dataclass(frozen=True)
class Settings:
    """Settings of one fit, in the units of the features."""

    prior: NormalInverseWishart
    alpha: float
    splits: bool = True
    merges: bool = True
    subclusters: Subclusters = "network"
    prior_in_m_step: bool = True
    cluster_loss: ClusterLoss = "kl"
    n_hidden: int = 50
    batch_size: int = 1024
    learning_rate: float = 5e-3
    subcluster_learning_rate: float = 2e-2
    settle_epochs: int = 3  # epochs with M-steps before each kind of move
    freeze_epochs: int = 3  # epochs after a move in which the parameters stand still
    final_epochs: int = 8  # at a falling learning rate
    patience: int = 3  # rounds without a move before the end
    max_epochs: int = 300
    max_clusters: int = 500
    device: str = "cpu"
