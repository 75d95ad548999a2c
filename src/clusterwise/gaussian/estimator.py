"""A Gaussian mixture that finds its number of clusters by evidence, as a scikit-learn estimator."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import Interval, StrOptions

from clusterwise.affine import fit_column_map
from clusterwise.fitting.fitting import Pipeline
from clusterwise.fitting.pipelined import PipelinedClusterer
from clusterwise.gaussian.cell_proposer import CellProposer
from clusterwise.gaussian.niw import CovarianceType

__all__ = ["GaussianSearch"]


class GaussianSearch(PipelinedClusterer):
    """Gaussian mixture that finds its number of clusters by Bayesian evidence, in any number of features.

    Small cells of rows are merged into clusters, which are fitted by EM, then split and merged as long as
    the evidence of the mixture (its probability with all parameters integrated out) grows. It needs no
    network and no tuning, and replaces fitting a mixture for every k and comparing them by BIC.

    Parameters
    ----------
    covariance_type : {"auto", "full", "diag", "spherical"}
        Shape of a cluster. "auto": full for up to 32 features with at least ten rows for each, else diagonal.
    random_state : int, RandomState or None
        Seed of the choice of rows where there are more than 10,000, of ``sample`` and ``sample_partitions``.
    scaling, max_clusters, verbose
        As for :class:`AMCP`.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters by the evidences of all mixtures that the search has visited.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
cap_reached_
        As for :class:`AMCP`.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> int(cw.GaussianSearch().fit(X).n_clusters_)
    7
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "covariance_type": [StrOptions({"auto", "full", "diag", "spherical"})],
        "scaling": [StrOptions({"joint", "feature"})],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        covariance_type: CovarianceType | Literal["auto"] = "auto",
        scaling: Literal["joint", "feature"] = "feature",
        max_clusters: int = 100,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.covariance_type = covariance_type
        self.scaling = scaling
        self.max_clusters = max_clusters
        self.random_state = random_state
        self.verbose = verbose

    def _pipeline(self) -> Pipeline:
        return Pipeline(
            partial(fit_column_map, joint=self.scaling == "joint"),
            CellProposer(self.covariance_type, self.max_clusters),
            how="search",
            covariance_type=self.covariance_type,
            max_clusters=self.max_clusters,
        )
