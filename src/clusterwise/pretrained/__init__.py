"""Trained weights: the files that come with the package, their format, and how they are found."""

from clusterwise.pretrained.registry import describe, get_weights, list_weights, weights_path

__all__ = ["describe", "get_weights", "list_weights", "weights_path"]
