"""What the file of ``--weights`` says about itself: its method, and the columns that it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from clusterwise.cli.tables import Choice, Chosen, choose_features, features_as_trained

__all__ = ["KnownWeights", "choose_for", "read_weights"]


@dataclass(frozen=True)
class KnownWeights:
    """What is known of weights before anything is fitted; nothing if none were named."""

    method: str | None = None
    filtering: str | None = None  # of DAC
    from_labels: bool = False
    columns: tuple[str, ...] = ()  # that they were trained on, if they had names

    def options_with(self, options: Mapping[str, str | None]) -> dict[str, str | None]:
        """Options, with what only the weights know filled in."""
        filtering = options.get("filtering") or self.filtering
        return {**options, "filtering": filtering}


def read_weights(weights: str | None) -> KnownWeights:
    """Read the header of a weights file; errors about it come when it is loaded."""
    if weights is None:
        return KnownWeights()
    from clusterwise.pretrained.registry import read_header, weights_path

    header, _ = read_header(weights_path(weights))
    method, model = header["recipe"]["method"], header["recipe"]["model"]
    return KnownWeights(
        method=method if not method.endswith("-judge") else None,
        filtering=model.get("filtering", "minimum-loss") if method == "dac" else None,
        from_labels="encoder" in header["recipe"],
        columns=tuple(header["facts"].get("columns", ())),
    )


def choose_for(table: Any, choice: Choice, weights: KnownWeights) -> Chosen:
    """Features of a table: prepared, or for weights trained on labels the columns of the training table."""
    if not weights.from_labels:
        return choose_features(table, choice)
    if weights.columns and choice.columns is None:
        return features_as_trained(table, choice, weights.columns)
    return choose_features(table, replace(choice, raw=True))
