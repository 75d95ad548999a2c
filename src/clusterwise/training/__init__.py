"""From a recipe to trained weights."""

from clusterwise.training.from_labels import train_from_labels
from clusterwise.training.loop import train
from clusterwise.training.recipe import Recipe, read_recipe

__all__ = ["Recipe", "read_recipe", "train", "train_from_labels"]
