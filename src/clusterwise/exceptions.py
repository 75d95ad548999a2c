"""Every error and warning that clusterwise raises on purpose."""

__all__ = [
    "CapReachedWarning",
    "ClusterwiseError",
    "FeatureCountError",
    "FileFormatWarning",
    "InvalidDataError",
    "MissingDependencyError",
    "NotConvergedWarning",
    "OneClusterWarning",
    "OutsidePriorWarning",
    "RecipeError",
    "UnknownWeightsError",
    "WeightsFileError",
]


class ClusterwiseError(ValueError):
    """Base class: one sentence that says what is wrong and what to do."""


class InvalidDataError(ClusterwiseError):
    """The data hold something that cannot be clustered (NaN, infinity, text, no rows)."""


class FeatureCountError(ClusterwiseError):
    """The data have another number of features than the weights, or than the data of ``fit``."""


class UnknownWeightsError(ClusterwiseError):
    """No weights of that name are shipped and no such file exists."""


class WeightsFileError(ClusterwiseError):
    """A weights file is truncated, foreign, or made for another method."""


class RecipeError(ClusterwiseError):
    """A training recipe misses a field, has an unknown one, or holds an impossible value."""


class MissingDependencyError(ClusterwiseError, ImportError):
    """An optional dependency is needed and not installed."""


class CapReachedWarning(UserWarning):
    """The cluster-wise loop was ended by its cap on steps, not by running out of points."""


class OutsidePriorWarning(UserWarning):
    """The data look unlike anything that the weights were trained on."""


class FileFormatWarning(UserWarning):
    """A file was read in a way that may not be the one it was written in."""


class NotConvergedWarning(UserWarning):
    """Chains disagree, or a training was still moving when it ended."""


class OneClusterWarning(UserWarning):
    """A fit that may split clusters ended with a single one."""
