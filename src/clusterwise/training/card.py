"""The card of a weights file: what it is, how it was trained, what it reached."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from clusterwise.pretrained import Weights
from clusterwise.training.callbacks import FIGURES

__all__ = ["card_text", "versions"]

LIBRARIES = ("clusterwise", "torch", "numpy")
# Facts that have a place of their own in a card; the others are a table.
PLACED = ("steps", "seconds", "n_parameters", "history", "versions", "phases", "largest_coordinate")


def versions() -> dict[str, str]:
    """The versions of Python and the libraries, and the commit if the package is run from a checkout."""
    found = {"python": platform.python_version()}
    found |= {name: metadata.version(name) for name in LIBRARIES}
    ask = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        described = subprocess.run(ask, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return found  # installed, or no git
    return {"commit": described.stdout.strip()} | found


def card_text(weights: Weights) -> str:
    """The card in Markdown, from what the weights file itself says."""
    recipe, facts = weights.recipe, weights.facts
    data = (
        "Fresh data sets from the training prior"
        if "held_out" not in facts
        else (f"Data sets of {facts['held_out']} that were held out")
    )
    lines = [
        f"# {weights.name}",
        "",
        f"{recipe['description'] or recipe['method']}. {facts['n_parameters']:,} parameters.",
        "",
        f"Trained for {facts['steps']:,} steps{_phases(facts)}, {facts['seconds'] / 60:.0f} minutes of "
        f"training time on one thread{_versions(facts)}. Train it again with",
        "",
        f"    clusterwise train recipes/{weights.name}.toml",
        "",
        "## Validation",
        "",
        f"{data}, by the network:",
        "",
        *_history(facts["history"]),
        "",
        *_facts(facts),
        "Figures on test sets, compared with peers and the oracle: `docs/benchmarks.md`.",
        "",
        "## Recipe",
        "",
        "```json",
        json.dumps(recipe, indent=1),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _phases(facts: Mapping[str, Any]) -> str:
    steps = [f"{one['steps']:,}" for one in facts.get("phases", ())]
    return f" in {len(steps)} phases ({', '.join(steps)})" if steps else ""


def _versions(facts: Mapping[str, Any]) -> str:
    known = ", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items())
    return f" ({known})" if known else ""


def _history(history: Sequence[Mapping[str, float]]) -> Iterator[str]:
    keys = [key for key in FIGURES if key in history[-1]]
    yield "| step | loss | " + " | ".join(FIGURES[key] for key in keys) + " |"
    yield "|---|---|" + "---|" * len(keys)
    for entry in history:
        figures = " | ".join(f"{entry[key]:.4f}" for key in keys)
        yield f"| {entry['step']:.0f} | {entry['loss']:.3f} | {figures} |"


def _facts(facts: Mapping[str, Any]) -> Iterator[str]:
    """How far training data reach, and what else was found out at the end."""
    if "largest_coordinate" in facts:
        yield (
            f"Training data reach {facts['largest_coordinate']:.1f} spreads from their centre (99.9th "
            "percentile over data sets); data that reach farther bring a warning."
        )
        yield ""
    others = {key: value for key, value in facts.items() if key not in PLACED}
    if others:
        yield from ("## Facts", "", "| fact | value |", "|---|---|")
        yield from (f"| {key.replace('_', ' ')} | {value} |" for key, value in others.items())
        yield ""
