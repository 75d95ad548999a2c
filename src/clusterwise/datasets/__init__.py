"""The data set that ships with the package."""

from __future__ import annotations

from importlib import resources

import numpy as np

__all__ = ["load_demo"]


def load_demo() -> tuple[np.ndarray, np.ndarray]:
    """The positions of 1,500 nests and the colony that each belongs to.

    The data are made up (``recipes/make_demo_data.py`` draws them): seven colonies of 60 to 420
    nests, each spread like a Gaussian around its centre on a map grid.

    Returns
    -------
    X : ndarray of shape (1500, 2)
        Easting and northing in metres.
    y : ndarray of shape (1500,), int
        The colony, 0 to 6.

    Examples
    --------
    >>> X, y = load_demo()
    >>> X.shape, len(set(y.tolist()))
    ((1500, 2), 7)
    """
    with resources.as_file(resources.files("clusterwise.datasets") / "colonies.csv") as path:
        table = np.genfromtxt(path, delimiter=",", names=True)
    return np.column_stack([table["easting"], table["northing"]]), table["colony"].astype(np.int64)
