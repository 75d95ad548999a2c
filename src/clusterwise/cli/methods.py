"""The methods of the command line: one for each estimator, with the options that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib import import_module
from typing import Any

from clusterwise.estimators import ESTIMATORS
from clusterwise.exceptions import ClusterwiseError

__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "Dates",
    "Filtering",
    "Projection",
    "Refine",
    "Scaling",
    "choose_method",
    "make_estimator",
    "prepares",
    "require_method",
]

# Each estimator as one writes it on a command line, and its class.
METHODS = {
    "clusterer": "Clusterer",
    "amcp": "AMCP",
    "dac": "DAC",
    "act-st": "ACTST",
    "ncp": "NCP",
    "chigac": "CHiGac",
    "dp-mixture": "DPMixture",
    "deep-dpm": "DeepDPM",
    "gaussian-search": "GaussianSearch",
}

# What is used if no method is named, unless options call for another; see choose_method.
DEFAULT_METHOD = "clusterer"
# Options of the methods whose network takes two features.
NETWORK_OPTIONS = ("weights", "project", "refine")

# Options whose parameter has another name than they have.
PARAMETERS = {"project": "projection"}

# What options with few values may be; the value "none" of --refine stands for None.
Filtering = StrEnum("Filtering", {"MINIMUM_LOSS": "minimum-loss", "ANCHORED": "anchored"})
Projection = StrEnum("Projection", {"PCA": "pca"})
Scaling = StrEnum("Scaling", {"JOINT": "joint", "FEATURE": "feature"})
Dates = StrEnum("Dates", {"NUMBER": "number", "CYCLE": "cycle"})
Refine = StrEnum("Refine", {"SEARCH": "search", "EM": "em", "CUT": "cut", "NONE": "none"})


def require_method(method: str) -> None:
    """Raise an error that lists the methods if this is none of them."""
    if method not in METHODS:
        raise ClusterwiseError(f"there is no method {method!r}; choose one of {', '.join(METHODS)}.")


def choose_method(method: str | None, options: Mapping[str, str | None]) -> str:
    """The method that was named, or the one that options call for, or the default."""
    if method is not None:
        return method
    if options.get("filtering") is not None:
        return "dac"
    about_networks = any(options.get(option) is not None for option in NETWORK_OPTIONS)
    return "amcp" if about_networks else DEFAULT_METHOD


def _class_of(method: str) -> Any:
    name = METHODS[method]
    return getattr(import_module(ESTIMATORS[name]), name)  # may load torch: only when it is needed


def _takes(estimator: Any, parameter: str, value: str | None) -> bool:
    """Whether an estimator has a parameter of that name that may have this value."""
    from sklearn.base import clone
    from sklearn.utils._param_validation import InvalidParameterError

    if parameter not in estimator.get_params(deep=False):
        return False
    try:
        clone(estimator).set_params(**{parameter: value})._validate_params()
    except InvalidParameterError:
        return False
    return True


def make_estimator(method: str, seed: int, options: Mapping[str, str | None]) -> Any:
    """Make the estimator of a method; options that are None were not given and keep their defaults."""
    estimator = _class_of(method)(random_state=seed)
    for option, text in options.items():
        if text is None:
            continue
        parameter, value = PARAMETERS.get(option, option), None if text is Refine.NONE else str(text)
        if not _takes(estimator, parameter, value):
            others = [other for other in METHODS if _takes(_class_of(other)(), parameter, value)]
            raise ClusterwiseError(
                f"--{option} is not an option of {method}; leave it out, or choose a --method that takes it: "
                f"{', '.join(others)}."
            )
        estimator.set_params(**{parameter: value})
    return estimator


def prepares(estimator: Any) -> bool:
    """Whether an estimator takes tables as they are, with a preparation of its own."""
    return "preparation" in estimator.get_params(deep=False)
