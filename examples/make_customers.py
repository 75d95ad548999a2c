"""Draw the made-up table of the quick start, ``customers.csv``: 600 customers of a shop, of four kinds.

The file is in the repository; ``python examples/make_customers.py`` writes it again, byte for byte.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

FILE = Path(__file__).parent / "customers.csv"
SEED = 7
# Customers of each kind, their age (mean, sd), orders per year (mean), typical basket in euros, share that
# order by app, shop or phone, and days since the last order (mean).
KINDS = (
    (210, (27, 4), 22, 32, (0.92, 0.07, 0.01), 9),
    (170, (44, 7), 8, 140, (0.45, 0.52, 0.03), 30),
    (140, (69, 6), 5, 60, (0.03, 0.37, 0.60), 50),
    (80, (37, 9), 1.2, 75, (0.50, 0.48, 0.02), 320),
)
CHANNELS = ("app", "shop", "phone")
MISSING = 0.04  # share of the ages and channels that are not known


def draw(rng: np.random.Generator) -> pd.DataFrame:
    """Draw all customers in random order."""
    parts = []
    for n, (age, sd), orders, basket, channels, days in KINDS:
        parts.append(
            pd.DataFrame(
                {
                    "age": rng.normal(age, sd, n).round().clip(18, 95),
                    "orders_per_year": 1 + rng.poisson(orders, n),
                    "basket_eur": (basket * rng.lognormal(0, 0.25, n)).round(2),
                    "days_since_last_order": (days * rng.gamma(4, 0.25, n)).round().clip(1),
                    "channel": rng.choice(CHANNELS, n, p=channels),
                }
            )
        )
    table = pd.concat(parts).iloc[rng.permutation(sum(kind[0] for kind in KINDS))].reset_index(drop=True)
    table.insert(0, "customer", [f"C{10_000 + i}" for i in range(len(table))])
    table["newsletter"] = rng.choice(["yes", "no"], len(table))  # says nothing about the kinds
    for column in ("age", "channel"):
        table.loc[rng.random(len(table)) < MISSING, column] = None
    return table


if __name__ == "__main__":
    draw(np.random.default_rng(SEED)).to_csv(FILE, index=False, float_format="%g")
