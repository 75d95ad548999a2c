"""Dirichlet-process mixture of Gaussians by Markov chain Monte Carlo, as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.dp.chain import Agreement, Convergence, Sampler
from clusterwise.dp.chain_method import ChainMethod, Draws
from clusterwise.exceptions import ClusterwiseError
from clusterwise.fitting.base import BaseClusterer
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.rows import RowSource
from clusterwise.rows.batches import NumberReader

__all__ = ["DPMixture"]


class DPMixture(BaseClusterer):
    """Dirichlet-process mixture of Gaussians, sampled by Markov chain Monte Carlo.

    Nothing needs tuning: the concentration alpha and the hyper-parameters of the Normal-Inverse-Wishart prior
    are inferred with the clusters, unless they are given.

    Parameters
    ----------
    covariance_type : {"full", "diag", "spherical"}
        Shape of a cluster. The cost grows with the square of the number of features for "full".
    sampler : {"split-merge", "gibbs"}
        "split-merge" draws all labels at once and splits and merges whole clusters: any number of rows.
        "gibbs" is Neal's (2000) algorithm 3, one point at a time: small data, and as a check.
    projection : {"auto"} or None
        "auto": tables with more than 32 columns are projected onto their first 20 principal components,
        unless they are read from a file or priors are given by column. None: all columns count.
    prior : {"inferred", "weak"}
        What is assumed of the clusters where no number is given below. "inferred": the hyper-parameters have
        priors of their own, so the clusters are as narrow and as alike as the data say; for data that are a
        mixture of Gaussians, or nearly so. "weak": the fixed, weak prior of DeepDPM (kappa = 1e-4, nu =
        d + 2, covariance 0.005 times the variance of the data), under which every further cluster must pay
        for itself; for real data with many rows, whose groups are not Gaussian and would otherwise be
        described by many small clusters each.
    alpha : float, optional
        Concentration of the Dirichlet process; by default it has a Gamma(1, 1) prior.
    mean_prior : array-like of shape (d,), optional
        Prior mean of the clusters' means; by default the mean of the data.
    mean_precision_prior : float, optional
        kappa: the prior mean counts as much as this many points.
    degrees_of_freedom_prior : float, optional
        nu, how alike the clusters' covariances are; above d - 1 for "full".
    covariance_prior : float or array-like of shape (d,), optional
        Prior variance of a cluster by feature, in the units of X; Psi is nu times it.
    n_warm_up, n_draws, n_chains : int
        Steps before the first draw, most draws of each chain, and chains. Chains that agree end sooner.
    warm_start : bool
        Go on with the chains of the last ``fit``, which must have seen the same X, and add to their draws.
    random_state : int, RandomState or None
    verbose : int
        Print progress.
    device : str
        Only "cpu"; here because all estimators have it.

    Attributes
    ----------
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_
        Of the partition that is closest to all drawn ones (least expected Variation of Information).
    k_posterior_ : dict of int to float
        Share of the draws with each number of clusters.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
    alpha_ : float
        Mean of alpha over the draws.
    trace_ : dict of str to ndarray of shape (n_chains, draws)
        Number of clusters, log joint probability, alpha and share of the largest cluster of every draw.
    convergence_ : Convergence
        R-hat and effective sample size of these.
    agreement_ : Agreement
        How alike the partitions of one chain are, and those of different chains (adjusted Rand index).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(9, 1, (50, 2))])
    >>> DPMixture(n_draws=100, random_state=0).fit(X).n_clusters_
    2
    """

    _other_k = (
        "the labels are the partition that is closest to all draws, and small clusters that come and go are "
        "not part of it",
        "see sample_partitions for the draws",
    )
    _keeps_mapped = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "sampler": [StrOptions({"split-merge", "gibbs"})],
        "projection": [StrOptions({"auto"}), None],
        "prior": [StrOptions({"inferred", "weak"})],
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "mean_prior": ["array-like", None],
        "mean_precision_prior": [Interval(Real, 0, None, closed="neither"), None],
        "degrees_of_freedom_prior": [Interval(Real, 0, None, closed="neither"), None],
        "covariance_prior": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "n_warm_up": [Interval(Integral, 0, None, closed="left")],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "device": [StrOptions({"cpu"})],
    }

    def __init__(
        self,
        *,
        covariance_type: CovarianceType = "full",
        sampler: Sampler = "split-merge",
        projection: Literal["auto"] | None = "auto",
        prior: Literal["inferred", "weak"] = "inferred",
        alpha: float | None = None,
        mean_prior: Any = None,
        mean_precision_prior: float | None = None,
        degrees_of_freedom_prior: float | None = None,
        covariance_prior: Any = None,
        n_warm_up: int = 60,
        n_draws: int = 100,
        n_chains: int = 2,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.covariance_type = covariance_type
        self.sampler = sampler
        self.projection = projection
        self.prior = prior
        self.alpha = alpha
        self.mean_prior = mean_prior
        self.mean_precision_prior = mean_precision_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.covariance_prior = covariance_prior
        self.n_warm_up = n_warm_up
        self.n_draws = n_draws
        self.n_chains = n_chains
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    # -- fitting ---------------------------------------------------------------------------------

    def _make_method(self) -> ChainMethod:
        """The method, which goes on with the chains of the last ``fit`` if it is to."""
        before = self._found.details if self.warm_start and hasattr(self, "_found") else None
        shared = {one.name: getattr(self, one.name) for one in fields(ChainMethod) if hasattr(self, one.name)}
        # Chains that go on were asked for more draws.
        return ChainMethod(**shared, before=before, in_one_round=self.warm_start)

    def _reader_of(self, source: RowSource) -> NumberReader:
        if self.sampler == "gibbs" or self.warm_start:
            raise ClusterwiseError(
                "DPMixture needs data in memory for sampler='gibbs' and for warm_start=True; pass an array, "
                "or leave these out."
            )
        return NumberReader(source.n_features, source.names)

    # -- what was found --------------------------------------------------------------------------

    @property
    def _draws(self) -> Draws:
        check_is_fitted(self)
        draws: Draws = self._found.details
        return draws

    @property
    def trace_(self) -> dict[str, np.ndarray]:
        """Number of clusters, log joint probability, alpha and share of the largest cluster of every draw."""
        return self._draws.trace

    @property
    def convergence_(self) -> Convergence:
        """R-hat and effective sample size of the trace."""
        return self._draws.convergence

    @property
    def agreement_(self) -> Agreement:
        """Adjusted Rand indices of partitions of one chain, and of different chains."""
        return self._draws.agreement

    @property
    def alpha_(self) -> float:
        """Mean of alpha over the draws."""
        return float(self.trace_["alpha"].mean())
