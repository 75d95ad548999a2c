"""A table like those that people have: id, dates, text, categories, gaps, numbers in different units."""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["UNITS", "draw_customers"]

# Columns whose units may change.
UNITS = ("age", "income", "basket", "visits", "tenure", "discount")
# Centres of the four groups in standard deviations of the six numbers, and how often each plan is chosen.
CENTRES = np.array(
    [
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [4.0, 0.0, 3.0, 0.0, -3.0, 0.0],
        [0.0, 4.0, -3.0, 3.0, 0.0, 2.0],
        [-3.0, -3.0, 0.0, -4.0, 3.0, 4.0],
    ]
)
PLANS = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6], [0.4, 0.3, 0.3]])


def draw_customers(seed: int, n: int = 1000) -> tuple[pd.DataFrame, np.ndarray]:
    """Draw a table of n customers and their groups (n,)."""
    rng = np.random.default_rng(seed)
    group = rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])
    z = CENTRES[group] + rng.normal(size=(n, 6))
    words = np.array(["good", "late", "again", "slow", "friendly", "box", "returned"])
    days = pd.to_timedelta(rng.integers(0, 1500, n), "D")
    frame = pd.DataFrame(
        {
            "customer_id": rng.permutation(n) + 100_000,
            "signup": pd.Timestamp("2020-01-01") + days,
            "remark": [" ".join(rng.choice(words, 5)) + f" {i}" for i in range(n)],
            "region": rng.choice(["north", "south", "east", "west"], n),
            "plan": [rng.choice(["basic", "plus", "pro"], p=PLANS[g]) for g in group],
            "newsletter": rng.random(n) < 0.3,
            "age": (45 + 6 * z[:, 0]).round(1),
            "income": np.exp(10.3 + 0.35 * z[:, 1]).round(2),
            "basket": (40 + 8 * z[:, 2]).round(2),
            "visits": np.exp(2 + 0.3 * z[:, 3]).round(2),
            "tenure": (8 + 1.2 * z[:, 4]).round(2),
            "discount": (0.2 + 0.02 * z[:, 5]).round(4),
        }
    )
    for column in ("age", "income", "basket", "region", "tenure"):
        frame.loc[rng.random(n) < 0.04, column] = None
    return frame, group
