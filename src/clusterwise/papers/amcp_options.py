"""What defines an AMCP network, and the choices of its cluster-wise loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

__all__ = ["AMCPConfig", "Options"]


@dataclass(frozen=True)
class AMCPConfig:
    """What defines an AMCP network; stored in the header of its weights file."""

    n_features: int = 2
    decoder: Literal["linear", "mlp"] = "linear"
    width: int = 96
    n_heads: int = 4
    n_inducing: int = 16
    n_encoder_blocks: int = 5
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    n_coordinates: int = 32  # D
    n_hidden: int = 64  # of the MLP decoder
    n_em_steps: int = 3  # T
    n_states: int = 4  # states of the loop that a training step looks at, per data set
    encoder: Literal["set", "none"] = "set"  # "none", as printed: the mixture is one of the scaled data
    e_step: Literal["regular", "sinkhorn"] = "regular"
    proportions: Literal["free", "balanced"] = "free"
    coupling: bool = True  # InterCC: whether a seed's chance depends on what is assigned
    sinkhorn_iterations: int = 8
    # Share of states in which two clusters are one, see ``random_state``.
    revising: float = field(default=0.25, metadata={"least": 0})
    revision: bool = False  # whether clusters can be split and merged at the end, see ``amcp_reviser``
    trained: Literal["all", "revision"] = "all"  # "revision" leaves all else as it is at the start


@dataclass(frozen=True)
class Options:
    """Choices of the cluster-wise loop that need no other weights: the ablations of section 4.3.

    None stands for what the network was trained with.
    """

    e_step: Literal["regular", "sinkhorn"] | None = None
    n_em_steps: int | None = None
    proportions: Literal["free", "balanced"] | None = None
    update: bool = True  # AMCP*: earlier clusters are revised
    first_cluster: Literal["learned", "k-means"] = "learned"
    coupling: bool | None = None  # InterCC
    revise: bool = True  # splits and merges when no point is left, see ``amcp_revision``
    epsilon: float | None = None  # of the Sinkhorn E-step
    strictness: float | None = None
    sinkhorn_iterations: int | None = None

    def of_network(self, config: AMCPConfig) -> Options:
        """The same with nothing left to the network."""
        names = ("e_step", "n_em_steps", "proportions", "coupling", "sinkhorn_iterations")
        left = {name: getattr(config, name) for name in names if getattr(self, name) is None}
        return replace(self, revise=self.revise and config.revision, **left)

    @property
    def is_usual(self) -> bool:
        """Whether ``amcp_path`` has all of it, in options that leave nothing to the network."""
        usual = ("regular", "free", "learned")
        return (self.e_step, self.proportions, self.first_cluster) == usual
