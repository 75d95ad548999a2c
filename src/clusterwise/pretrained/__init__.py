"""Trained weights: the files that come with the package, their format, and how they are found."""

from clusterwise.pretrained.lookup import (
    Weights,
    describe,
    get_parameters,
    get_weights,
    list_weights,
    untrained,
    weights_path,
)

__all__ = [
    "Weights",
    "describe",
    "get_parameters",
    "get_weights",
    "list_weights",
    "untrained",
    "weights_path",
]
