"""Draw the 2-D data set that ships with the package: nests of seven colonies on a map grid.

Run from the root of the repository: ``python recipes/make_demo_data.py``. The same seed gives the same file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

TARGET = Path(__file__).parents[1] / "src" / "clusterwise" / "datasets" / "colonies.csv"
SEED = 7

# Easting and northing of the centre, spread along both (metres), number of nests.
COLONIES = (
    ((431_900, 5_413_900), (260, 210), 420),
    ((433_500, 5_416_400), (190, 270), 310),
    ((436_300, 5_415_000), (280, 200), 260),
    ((435_100, 5_412_300), (200, 200), 200),
    ((436_100, 5_412_100), (220, 270), 150),
    ((432_600, 5_411_900), (260, 220), 100),
    ((434_300, 5_415_500), (190, 190), 60),
)


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (n, 2) in metres, to a tenth, and the colony of each (n,), in random order."""
    labels = np.repeat(np.arange(len(COLONIES)), [count for _, _, count in COLONIES])
    centres = np.array([centre for centre, _, _ in COLONIES], dtype=float)
    spreads = np.array([spread for _, spread, _ in COLONIES], dtype=float)
    points = centres[labels] + spreads[labels] * rng.standard_normal((len(labels), 2))
    order = rng.permutation(len(labels))
    return points[order].round(1), labels[order]


def main() -> None:
    """Write the file."""
    points, labels = draw(np.random.default_rng(SEED))
    rows = [f"{x:.1f},{y:.1f},{label}" for (x, y), label in zip(points, labels, strict=True)]
    TARGET.write_text("\n".join(["easting,northing,colony", *rows]) + "\n", encoding="utf-8")
    print(f"wrote {len(rows)} rows to {TARGET}")


if __name__ == "__main__":
    main()
