"""What happened during a fit, epoch by epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

__all__ = ["History"]


@dataclass
class History:
    """One entry for each epoch; moves are counted at the epoch that they follow.

    ``merges`` also counts clusters that disappeared because no row preferred them.
    """

    n_clusters: list[int] = field(default_factory=list)  # K while the epoch was trained
    loss: list[float] = field(default_factory=list)  # mean loss of the clustering net
    splits: list[int] = field(default_factory=list)
    merges: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.n_clusters)

    def add_epoch(self, n_clusters: int, loss: float) -> None:
        """Write down an epoch."""
        self.n_clusters.append(n_clusters)
        self.loss.append(loss)
        self.splits.append(0)
        self.merges.append(0)

    def add_moves(self, splits: int = 0, merges: int = 0) -> None:
        """Write down moves that were accepted after the last epoch."""
        self.splits[-1] += splits
        self.merges[-1] += merges

    def copy(self) -> History:
        """A history to go on with."""
        return History(*(list(values) for values in vars(self).values()))

    def as_arrays(self) -> dict[str, np.ndarray]:
        """All series by name, (epochs,) each, ready for a data frame."""
        return {name: np.asarray(values) for name, values in vars(self).items()}
