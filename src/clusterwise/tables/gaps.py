"""Gaps in features, filled in from the rows that are most alike."""

from __future__ import annotations

import numpy as np
from sklearn.impute import KNNImputer

from clusterwise.gaussian.order import sorted_order

__all__ = ["fit_imputer", "rows_lacking_much"]

N_NEIGHBOURS = 5
# Rows that the others are compared with; more cost time and hardly change the neighbours' mean.
MOST_DONORS = 2000
# A row that lacks more than this share of its columns is filled in from hardly anything.
LACKING_MUCH = 0.5


def fit_imputer(features: np.ndarray, seed: int) -> KNNImputer:
    """Learn from features (n, f) with NaN for gaps; every feature has a value somewhere."""
    donors = features
    if len(features) > MOST_DONORS:
        # In an order of their own: which rows are drawn does not depend on how the table was sorted.
        order = sorted_order(np.nan_to_num(features))
        drawn = np.random.default_rng(seed).choice(len(features), MOST_DONORS, replace=False)
        donors = features[order[np.sort(drawn)]]
        if np.isnan(donors).all(axis=0).any():
            donors = features
    return KNNImputer(n_neighbors=N_NEIGHBOURS, keep_empty_features=True).fit(donors)


def rows_lacking_much(missing: np.ndarray) -> np.ndarray:
    """Rows of a table of gaps (n, d) that have hardly any values, in order."""
    return np.flatnonzero(missing.mean(axis=1) > LACKING_MUCH)
