"""The card of a weights file: what it is, how it was trained, what it reached."""

from __future__ import annotations

from clusterwise.pretrained.header import Weights

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
        "minutes of training time on one thread. Train it again with",
        "",
        f"    clusterwise train recipes/{weights.name}.toml",
        "",
        "## Validation",
        "",
        "Fresh data sets from the training prior, the network alone, nothing refined:",
        "",
        "| step | loss | ARI | k-MAE |",
        "|---|---|---|---|",
        *(f"| {h['step']:.0f} | {h['loss']:.3f} | {h['ari']:.4f} | {h['k_mae']:.3f} |" for h in history),
        "",
        f"Training data reach {facts['largest_coordinate']:.1f} spreads from their centre (99.9th percentile "
        "over data sets); data that reach farther bring a warning.",
        "",
        "Figures on the test sets, beside peers and the oracle: `docs/benchmarks.md`.",
        "",
        "## Recipe",
    ]
    for section in ("model", "prior", "sizes", "optimizer", "validation"):
        lines += ["", f"### {section}", "", "| option | value |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in recipe[section].items()]
    return "\n".join(lines) + "\n"
