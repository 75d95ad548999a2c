"""Trained weights: the files that come with the package, their format, and how they are found."""

from clusterwise.pretrained.header import Weights
from clusterwise.pretrained.registry import describe, get_weights, list_weights, untrained, weights_path

__all__ = ["Weights", "describe", "get_weights", "list_weights", "untrained", "weights_path"]
