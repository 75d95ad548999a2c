"""The card of a weights file: what it is, how it was trained, what it reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterwise.pretrained.header import Weights
from clusterwise.training.callbacks import FIGURES, OTHERS

__all__ = ["card_text"]


def card_text(weights: Weights) -> str:
    """Write the card in Markdown from what the weights file itself says."""
    recipe, facts = weights.recipe, weights.facts
    history = facts["history"]
    lines = [
        f"# {weights.name}",
        "",
        f"{recipe['description'] or recipe['method']}. {facts['n_parameters']:,} parameters.",
        "",
        f"Trained for {facts['steps']:,} steps with seed {recipe['seed']}, {facts['seconds'] / 60:.0f} "
        f"minutes of training time on one thread{_origin(facts)}. Train it again with",
        "",
        f"    clusterwise train recipes/{weights.name}.toml",
        "",
        "## Validation",
        "",
        _what(facts),
        "",
        *_history(history),
        *_reach(facts),
        "",
        "Figures on test sets, compared with peers and the oracle: `docs/benchmarks.md`.",
        "",
        "## Recipe",
    ]
    sections = ["model", "prior", "sizes", "optimizer", "validation"]
    if "encoder" in recipe:
        sections.insert(0, "encoder")
    if recipe["method"].endswith("-judge"):
        sections[2] = "tables"
    for section in sections:
        lines += ["", f"### {section}", "", "| option | value |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in recipe[section].items()]
    return "\n".join(lines) + "\n"


def _what(facts: Mapping[str, Any]) -> str:
    if "held_out" in facts:
        return f"Data sets of {facts['held_out']} that were held out, the network alone, nothing refined:"
    return "Fresh data sets from the training prior, the network alone, nothing refined:"


def _origin(facts: Mapping[str, Any]) -> str:
    """What a training began with, and by which code it was done, as far as the file says so."""
    said = ""
    start = facts.get("start")
    if start is not None:
        said += f", from the weights {start['name']} on ({start['steps']:,} steps, "
        said += f"{start['seconds'] / 60:.0f} minutes)"
    versions = facts.get("versions")
    if versions is not None:
        said += " (" + ", ".join(f"{name} {version}" for name, version in versions.items()) + ")"
    return said


def _history(history: Sequence[Mapping[str, float]]) -> Iterator[str]:
    keys = [key for key in history[-1] if key not in OTHERS]
    yield "| step | loss | " + " | ".join(FIGURES.get(key, key) for key in keys) + " |"
    yield "|---|---|" + "---|" * len(keys)
    for entry in history:
        yield (
            f"| {entry['step']:.0f} | {entry['loss']:.3f} | "
            + " | ".join(f"{entry[key]:.4f}" for key in keys)
            + " |"
        )


def _reach(facts: Mapping[str, Any]) -> Iterator[str]:
    if "agreement_of_refining" in facts:
        words = {
            "none": "for the network alone",
            "em": "after EM",
            "search": "after a search, with spherical Gaussians",
            "cut": "for a cut through Ward's tree by a rule that was learned there",
        }
        scores = facts["agreement_of_refining"]
        said = ", ".join(f"{scores[how]:.3f} {text}" for how, text in words.items() if how in scores)
        yield ""
        yield (
            "On data sets of what was held out, in the space of the encodings, NMI + ARI less the logarithm "
            f"of how many times too many or too few clusters there are is {said}. "
            f"Estimators do by default what is best there (refine: {facts['refine']})."
        )
    if "cut" in facts:
        rule = facts["cut"]
        yield ""
        yield (
            f"The rule of the cut: smoothing {rule['smoothing']:.2g}, exponent of the sizes "
            f"{rule['size_exponent']:.2g}, of the number of rows {rule['rows_exponent']:.2g}, weight of the "
            f"network's partition {rule['network_weight']:.2g}, "
            f"threshold {rule['threshold']:.3f} ± {rule['spread']:.3f}."
        )
    if "calibration_error" in facts:
        yield ""
        yield (
            f"P(K) is calibrated by a temperature of {facts['temperature']:.2f} and a spread over similar "
            f"numbers of {facts['spread']:.3f} (on the logarithmic scale), found on the validation tables. "
            "Found on one half of them, they leave an expected calibration error of "
            f"{facts['calibration_error']:.3f} on the other half."
        )
    if "afterwards" in facts:
        yield ""
        yield f"Changed after the training: {facts['afterwards']}."
    if "largest_coordinate" in facts:
        yield ""
        yield (
            f"Training data reach {facts['largest_coordinate']:.1f} spreads from their centre (99.9th "
            "percentile over data sets); data that reach farther bring a warning."
        )
