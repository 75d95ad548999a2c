"""Every error and warning that clusterwise raises on purpose.

A warning keeps the numbers that its sentence needs. ``str()`` is the sentence for who calls the library;
``finding()`` is the part that is the same everywhere, and what to do is said in other words by the command
line and the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, dataclass_transform

__all__ = [
    "BentClustersWarning",
    "CapReachedWarning",
    "ChainsDisagreeWarning",
    "ClusterwiseError",
    "ClusterwiseWarning",
    "CorrelatedColumnsWarning",
    "DiscreteColumnsWarning",
    "FarRowsWarning",
    "FeatureCountError",
    "FewClassesWarning",
    "FileFormatWarning",
    "FirstSheetWarning",
    "GuessedEncodingWarning",
    "HeavyTailsWarning",
    "InterruptedWarning",
    "InvalidDataError",
    "InvalidTypeError",
    "LowConfidenceWarning",
    "MisfitWarning",
    "MissingDependencyError",
    "NoColumnError",
    "NotConvergedWarning",
    "OneClusterWarning",
    "OneGaussianWarning",
    "OtherKWarning",
    "OutsidePriorWarning",
    "RecipeError",
    "SeveralGroupsWarning",
    "SkewedClustersWarning",
    "StillMovingWarning",
    "TooManyClustersWarning",
    "UnknownColumnError",
    "UnknownWeightsError",
    "UnusualTableWarning",
    "ValuesFollowedWarning",
    "WeightsFileError",
    "WeightsWidthError",
]


@dataclass_transform(kw_only_default=True, eq_default=False)
@dataclass(kw_only=True, eq=False)
class _Sentence:
    """A sentence about what was found and what to do about it in Python; subclasses are dataclasses."""

    template: ClassVar[str]  # of what was found; {0} is the error or warning with its fields
    remedy: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(kw_only=True, eq=False)(cls)

    def finding(self) -> str:
        """The part about what was found, without a full stop."""
        return self.template.format(self)

    def __str__(self) -> str:
        return f"{self.finding()}{'; ' * bool(self.remedy)}{self.remedy}."

    def __reduce__(self) -> tuple[Any, ...]:
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return partial(type(self), **known), ()


# -- errors -----------------------------------------------------------------------------------------


class ClusterwiseError(ValueError):
    """Base class: one sentence that says what is wrong and what to do."""


class InvalidDataError(ClusterwiseError):
    """The data hold something that cannot be clustered (NaN, infinity, text, no rows)."""


class InvalidTypeError(InvalidDataError, TypeError):
    """The data are of a type, or hold objects, that cannot be read as numbers."""


class UnknownColumnError(_Sentence, InvalidDataError):
    """A parameter names a column that the table does not have."""

    parameter: str
    column: str
    known: Sequence[str]

    def finding(self) -> str:
        known = ", ".join(map(repr, self.known[:20])) + ", ..." * (len(self.known) > 20)
        return (
            f"{self.parameter} names {self.column!r}, which is not a column; there are {known or 'no names'}"
        )


class NoColumnError(_Sentence, InvalidDataError):
    """All columns of a table were set aside."""

    set_aside: Mapping[str, str]  # why each was
    has_texts: bool = False
    remedy: str = "name those to use with columns="

    def finding(self) -> str:
        reasons = [f"{name!r} {reason}" for name, reason in list(self.set_aside.items())[:20]]
        if len(self.set_aside) > len(reasons):
            reasons.append(f"{len(self.set_aside) - len(reasons)} more")
        if self.has_texts:
            reasons.append("texts must become numbers first, such as a TF-IDF matrix or embeddings")
        return f"no column is left to cluster by: {', '.join(reasons)}"


class FeatureCountError(ClusterwiseError):
    """The data have another number of features than the weights, or than the data of ``fit``."""


class WeightsWidthError(_Sentence, FeatureCountError):
    """The data have another number of features than weights take."""

    name: str = "X"
    width: int
    weights: str
    expected: int
    from_labels: bool = False  # they were trained on labelled rows: each column has its meaning
    remedy: str = "select that many columns, pass projection='pca', or use weights made for your features"

    def finding(self) -> str:
        take = "were trained on" if self.from_labels else "take"
        return (
            f"{self.name} has {self.width} features, but the weights {self.weights!r} {take} {self.expected}"
        )


class UnknownWeightsError(ClusterwiseError):
    """No weights of that name are shipped and no such file exists."""


class WeightsFileError(ClusterwiseError):
    """A weights file is truncated, foreign, or made for another method."""


class RecipeError(ClusterwiseError):
    """A training recipe misses a field, has an unknown one, or holds an impossible value."""


class MissingDependencyError(ClusterwiseError, ImportError):
    """An optional dependency is needed and not installed."""


# -- warnings ---------------------------------------------------------------------------------------


class ClusterwiseWarning(_Sentence, UserWarning):
    """Base class: what was found, and what to do about it."""

    estimator: str = ""  # the class that was fitted
    name: str = ""  # of the data set, where there are several: "Xs[0]"

    def __str__(self) -> str:
        where = (f"{place}: " for place in (self.name, self.estimator) if place)
        return f"{''.join(where)}{super().__str__()}"


class CapReachedWarning(ClusterwiseWarning):
    """The fit was ended by ``max_clusters``, not by running out of rows to divide."""

    max_clusters: int
    remedy: str = "raise max_clusters if you expect more"
    template = "the fit reached its cap of {0.max_clusters} clusters and made no more"


class OtherKWarning(ClusterwiseWarning):
    """P(K) is largest for another number of clusters than the labels have."""

    n_clusters: int
    likeliest: int
    probability: float  # of the likeliest
    reason: str  # why they differ

    def finding(self) -> str:
        labels = f"the labels have {self.n_clusters:,} cluster{'s' * (self.n_clusters != 1)}"
        likelier = f"{self.likeliest} {'is' if self.likeliest == 1 else 'are'} likelier"
        return f"{labels}, but {likelier} ({self.probability:.2f}): {self.reason}"


class OneClusterWarning(ClusterwiseWarning):
    """A fit that may split clusters ended with a single one."""

    remedy: str = (
        "if you expect more, try scaling='feature' for columns in different units, a smaller "
        "covariance_prior, covariance_type='diag' for many features and few rows, feature_learning='mlp' "
        "for raw features, or k_init=10"
    )
    template = "the fit ended with one cluster"


class FewClassesWarning(ClusterwiseWarning):
    """There are too few labelled classes to learn what sets unseen ones apart."""

    n_classes: int
    remedy: str = "compare with an estimator that needs no training, such as clusterwise.Clusterer"
    template = (
        "there are {0.n_classes} classes to learn from, and what sets unseen classes apart takes ten or more"
    )


class NotConvergedWarning(ClusterwiseWarning):
    """Chains disagree, or a training was still moving when it ended."""


class InterruptedWarning(NotConvergedWarning):
    """A fit was interrupted, and what it had found until then is kept."""

    kept: str
    template = "the fit was interrupted; {0.kept}"


class StillMovingWarning(NotConvergedWarning):
    """Clusters were still being split or merged when the fit ended."""

    n_epochs: int
    remedy: str = "see history_, and raise max_epochs or go on with warm_start=True"
    template = "clusters were still splitting or merging after {0.n_epochs} epochs"


class ChainsDisagreeWarning(NotConvergedWarning):
    """Chains have found different clusterings."""

    within: float  # agreement of two draws of one chain
    between: float  # of different chains
    r_hat: float
    remedy: str = "see convergence_, and raise n_warm_up or go on with warm_start=True"
    template = (
        "the chains have found different clusterings: two draws of one chain agree to "
        "{0.within:.2f}, of different chains to {0.between:.2f} (R-hat {0.r_hat:.2f})"
    )


class OutsidePriorWarning(ClusterwiseWarning):
    """The data look unlike anything that the weights were trained on."""


class FarRowsWarning(OutsidePriorWarning):
    """Some rows lie farther out than any that the weights were trained on."""

    weights: str
    distance: float  # of the farthest row, in spreads
    known: float | None = None  # distances in training; None: the spread is that of the other rows
    remedy: str = "remove extreme rows or transform the features (log, ranks)"

    def finding(self) -> str:
        if self.known is None:
            lie = f"a few rows lie {self.distance:.0f} spreads of the others away from them, unlike"
        else:
            lie = f"some rows lie {self.distance:.0f} spreads from the centre, beyond the {self.known:.0f} of"
        return f"{lie} the data that the weights {self.weights!r} were trained on"


class UnusualTableWarning(OutsidePriorWarning):
    """Many features of the candidates are outside the range that they had in training."""

    fraction: float
    remedy: str = "look at the clusters before you trust them, or transform the columns (log, ranks)"

    def finding(self) -> str:
        where = f"{100 * self.fraction:.0f} % of what they see is out of range"
        return f"this table is unlike those that the networks were trained on: {where}"


class FileFormatWarning(ClusterwiseWarning):
    """A file was read in a way that may not be the one it was written in."""


class GuessedEncodingWarning(FileFormatWarning):
    """A text is not UTF-8."""

    file: str
    line: int  # the first that is not
    encoding: str
    remedy: str = "save it as UTF-8 if letters look wrong"
    template = "{0.file} is not UTF-8 (line {0.line}) and is read as {0.encoding}"


class FirstSheetWarning(FileFormatWarning):
    """A workbook has several sheets."""

    file: str
    sheets: Sequence[str]
    remedy: str = "save another one as a file of its own to cluster it"

    def finding(self) -> str:
        return f"{self.file} has {len(self.sheets)} sheets, and the first, {self.sheets[0]!r}, is read"


# -- clusters that are not what the data look like --------------------------------------------------


class MisfitWarning(ClusterwiseWarning):
    """The clusters are not what the data look like: the message says what was seen and what to try."""


class DiscreteColumnsWarning(MisfitWarning):
    """All columns have few values, and clusters may be no more than these."""

    n_clusters: int
    remedy: str = "spread them with clusterwise.TablePreparation"
    template = (
        "all columns have few distinct values, and the {0.n_clusters} clusters may be no more than these"
    )


class ValuesFollowedWarning(MisfitWarning):
    """Clusters are the values of a column."""

    columns: Sequence[str]
    n_values: int  # of the first column
    remedy: str = "spread its values with clusterwise.TablePreparation, or leave it out"

    def finding(self) -> str:
        others = f" (and of {len(self.columns) - 1} more columns)" if len(self.columns) > 1 else ""
        return (
            f"the clusters follow the {self.n_values} values of {self.columns[0]}{others}, which no density "
            "can describe"
        )


class HeavyTailsWarning(MisfitWarning):
    """More rows lie far from their cluster than Gaussians have."""

    share: float
    expected: float
    remedy: str = "remove extreme rows, or try clusterwise.TablePreparation"

    def finding(self) -> str:
        return (
            f"{100 * self.share:.0f} % of the rows lie farther from their cluster than one in "
            f"{1 / self.expected:,.0f} should if clusters were Gaussian: their tails are heavy"
        )


class CorrelatedColumnsWarning(MisfitWarning):
    """Columns are correlated within clusters, whose covariances are diagonal."""

    correlation: float
    remedy: str = "try covariance_type='full', or fewer columns"
    template = (
        "columns are correlated within clusters (up to {0.correlation:.2f}), which diagonal "
        "covariances cannot describe"
    )


class SeveralGroupsWarning(MisfitWarning):
    """One cluster falls into groups along an axis."""

    depth: float  # density between them as a share of the lower peak
    remedy: str = "try clusterwise.Clusterer"
    template = (
        "there is one cluster, but the rows fall into groups that can be seen along a single axis "
        "(between them the density is {0.depth:.2f} of the lower peak)"
    )


class TooManyClustersWarning(MisfitWarning):
    """Several clusters look like parts of fewer."""

    n_clusters: int
    share: float  # of the rows

    @property
    def clusters(self) -> str:
        """The clusters and their share of the rows, in words."""
        plural = "s" * (self.n_clusters != 1)
        return f"{self.n_clusters:,} cluster{plural} with {100 * self.share:.0f} % of the rows"


class OneGaussianWarning(TooManyClustersWarning):
    """Several clusters are described better by one Gaussian."""

    remedy: str = "compare with clusterwise.GaussianSearch"
    template = "{0.clusters} together look like one Gaussian"


class SkewedClustersWarning(TooManyClustersWarning):
    """Several clusters are parts of skewed ones."""

    columns: Sequence[str]
    remedy: str = "try clusterwise.TablePreparation"

    def finding(self) -> str:
        return (
            f"{self.clusters} run into each other without a gap, and {', '.join(self.columns)} would be "
            "easier to describe by logarithms or roots: they may be parts of skewed clusters"
        )


class BentClustersWarning(TooManyClustersWarning):
    """Many clusters are parts of fewer that are not Gaussian."""

    remedy: str = "try clusterwise.Clusterer"
    template = (
        "{0.clusters} run into each other without a gap: they look like parts of fewer clusters that are not "
        "Gaussian"
    )


class LowConfidenceWarning(MisfitWarning):
    """The clusters are expected to agree little with the truth."""

    n_clusters: int
    expected_ari: float
    remedy: str = "look at k_posterior_ and at labels_at for other numbers of them"

    def finding(self) -> str:
        found = f"{self.n_clusters:,} cluster{'s' * (self.n_clusters != 1)} found"
        expected = f"expected adjusted Rand index with the truth {self.expected_ari:.2f}"
        return f"{found}, with little confidence ({expected}): the table may have no clear clusters"
