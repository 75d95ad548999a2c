"""What networks train on: distributions over labelled data sets that know their own truth."""

from clusterwise.priors.by_name import PRIORS, make_prior
from clusterwise.priors.mixtures import ChineseRestaurantMixture, GaussianComponents, MixtureOfGaussians
from clusterwise.priors.prior import Components, LabelledSet, Prior, TaskBatch
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
