"""Colours of clusters that colour-blind readers can tell apart, the same in every picture."""

from __future__ import annotations

__all__ = ["QUIET", "cluster_colour", "cluster_colours", "cluster_marker"]

# Okabe & Ito's colours without black and yellow, which are lost among axes and on white.
BASE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = ("o", "^", "s", "D")
QUIET = "#C8CCD0"  # what is there but not the subject


def _mix(colour: str, other: str, share: float) -> str:
    """Mix ``share`` of another colour in; both as #RRGGBB."""
    channels = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + "".join(f"{round((1 - share) * a + share * b):02X}" for a, b in channels)


# Colour-blind readers see lightness best: the base colours come again darker, then lighter.
PALETTE = (
    *BASE,
    *(_mix(colour, "#000000", 0.45) for colour in BASE),
    *(_mix(colour, "#FFFFFF", 0.4) for colour in BASE),
)


def cluster_colour(label: int) -> str:
    """Return the colour of one cluster; after 18 they come again, with another marker."""
    return PALETTE[label % len(PALETTE)]


def cluster_marker(label: int) -> str:
    """Return the marker of one cluster: circles first, other shapes when the colours come again."""
    return MARKERS[label // len(PALETTE) % len(MARKERS)]


def cluster_colours(n_clusters: int) -> list[str]:
    """Return a colour #RRGGBB for each of ``n_clusters`` clusters."""
    return [cluster_colour(label) for label in range(n_clusters)]
