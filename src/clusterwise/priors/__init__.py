"""What networks train on: distributions over labelled data sets that know their own truth."""

from clusterwise.priors.base import Components, LabelledSet, Prior, TaskBatch
from clusterwise.priors.crp import ChineseRestaurantMixture
from clusterwise.priors.gaussians import GaussianComponents, MixtureOfGaussians
from clusterwise.priors.registry import PRIORS, make_prior
from clusterwise.priors.warped import WarpedComponents, WarpedGaussians

__all__ = [
    "PRIORS",
    "ChineseRestaurantMixture",
    "Components",
    "GaussianComponents",
    "LabelledSet",
    "MixtureOfGaussians",
    "Prior",
    "TaskBatch",
    "WarpedComponents",
    "WarpedGaussians",
    "make_prior",
]
