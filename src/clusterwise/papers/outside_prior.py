"""Does a data set look unlike anything that the weights were trained on?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from clusterwise.exceptions import FarRowsWarning

__all__ = ["find_far_rows"]

# Training data reach this much farther only once in a thousand data sets, times this margin.
MARGIN = 1.5
# The share of the rows that may lie far out before they count as data like the others, and how far:
# a cluster of the training data is at most some 60 of its own widths away from the next one.
FEW = 0.01
FARTHEST_SPREADS = 100.0
# Features of unit spread that reach no farther than this: a few rows cannot make up most of that spread.
NEAR = 5.0
# Among fewer rows than this some lie close together by chance; less spread than this is rounding.
FEWEST_ROWS = 20
ROUNDING = 1e-14


def find_far_rows(features: np.ndarray, known_reach: float, weights: str) -> Iterator[FarRowsWarning]:
    """A warning of how far out some rows of scaled features (n, f) lie, if the weights never saw such data.

    ``known_reach`` is how far training data of unit spread reach. One extreme row of n has at most
    sqrt(n f) spreads, because it is a part of the spread itself; therefore the farthest rows are also
    compared with the spread of the others.
    """
    reach = float(np.abs(features).max())
    if reach > MARGIN * known_reach:
        yield FarRowsWarning(weights=weights, distance=reach, known=known_reach)
        return
    if len(features) < FEWEST_ROWS or (reach < NEAR and FEW * len(features) >= 1):
        return
    centre = np.median(features, axis=0)
    distances = np.sqrt(np.square(features - centre).mean(axis=1))
    n_ordinary = len(features) - max(1, int(FEW * len(features)))
    ordinary = features[np.argpartition(distances, n_ordinary - 1)[:n_ordinary]]
    spread = float(ordinary.std(axis=0).max())
    if spread > ROUNDING and distances.max() > FARTHEST_SPREADS * spread:
        yield FarRowsWarning(weights=weights, distance=float(distances.max() / spread))
