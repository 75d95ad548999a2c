"""From a recipe to trained weights."""

from clusterwise.training.loop import train
from clusterwise.training.recipe import Recipe, read_recipe

__all__ = ["Recipe", "read_recipe", "train"]
