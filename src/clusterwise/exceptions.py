"""Every error and warning that clusterwise raises on purpose."""

__all__ = [
    "CapReachedWarning",
    "ClusterwiseError",
    "FeatureCountError",
    "FewClassesWarning",
    "FileFormatWarning",
    "InvalidDataError",
    "InvalidTypeError",
    "MisfitWarning",
    "MissingDependencyError",
    "NotConvergedWarning",
    "OneClusterWarning",
    "OtherKWarning",
    "OutsidePriorWarning",
    "RecipeError",
    "UnknownWeightsError",
    "WeightsFileError",
]


class ClusterwiseError(ValueError):
    """Base class: one sentence that says what is wrong and what to do."""


class InvalidDataError(ClusterwiseError):
    """The data hold something that cannot be clustered (NaN, infinity, text, no rows)."""


class InvalidTypeError(InvalidDataError, TypeError):
    """The data are of a type, or hold objects, that cannot be read as numbers."""


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


class FewClassesWarning(UserWarning):
    """There are too few labelled classes to learn what sets unseen ones apart."""


class OtherKWarning(UserWarning):
    """P(K) is largest for another number of clusters than the labels have."""


class OutsidePriorWarning(UserWarning):
    """The data look unlike anything that the weights were trained on."""


class FileFormatWarning(UserWarning):
    """A file was read in a way that may not be the one it was written in."""


class MisfitWarning(UserWarning):
    """The clusters are not what the data look like: the message says what was seen and what to try."""


class NotConvergedWarning(UserWarning):
    """Chains disagree, or a training was still moving when it ended."""


class OneClusterWarning(UserWarning):
    """A fit that may split clusters ended with a single one."""
