"""DeepDPM as a scikit-learn estimator: a deep Dirichlet-process mixture, fitted to one data set."""

from __future__ import annotations

from dataclasses import fields
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import torch
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from clusterwise.deepdpm.feature_learning import Variants
from clusterwise.deepdpm.method import History
from clusterwise.deepdpm.net_method import NetMethod, NetState
from clusterwise.exceptions import (
    ClusterwiseError,
)
from clusterwise.fitting.base import BaseClusterer
from clusterwise.gaussian.niw import CovarianceType
from clusterwise.rows import RowSource
from clusterwise.rows.batches import NumberReader

__all__ = ["DeepDPM"]


class DeepDPM(BaseClusterer):
    """Deep Dirichlet-process mixture (Ronen et al. 2022): a network learns the memberships, and k is found.

    For one large data set. A clustering net gives each
    row its memberships; it learns to follow a Gaussian mixture that is re-estimated from them, and clusters
    split and merge by the Hastings ratio of a Dirichlet-process mixture until nothing changes. On raw
    features an autoencoder can take turns with the clustering (``feature_learning``).

    Parameters
    ----------
    k_init : int
        Number of clusters to start from; the result hardly depends on it.
    feature_learning : None, "mlp" or torch.nn.Module
        None clusters the features as they are. "mlp" learns ``n_latent`` features with an autoencoder that
        takes turns with the clustering; a module of your own maps rows (n, d) to features (n, f) and gets a
        decoder. It is copied, not changed.
    variants : callable, optional
        For feature learning: ``variants(X, rng)`` draws a variant of each row that belongs to the same
        cluster, such as a shifted image (``clusterwise.ImageVariants``). Rows are then neighbours whatever
        such variation lies between them.
    n_latent : int
        Number of learned features for "mlp".
    covariance_type : {"full", "diag", "spherical"}
        Shape of a cluster. The cost grows with the square of the number of features for "full".
    scaling : {"pareto", "joint", "feature"}
        "pareto" divides each feature by the square root of its standard deviation: wide features stay wider
        than narrow ones, but less so. "joint" keeps the shape of the data; "feature" brings every feature to
        unit variance, for columns in different units.
    alpha : float
        Concentration of the Dirichlet process. Its logarithm is compared with sums over all rows.
    mean_precision_prior : float
        kappa: the prior mean, that of the data, counts as much as this many rows.
    degrees_of_freedom_prior : float, optional
        nu: the prior covariance counts as much as about this many rows; d + 2 by default.
    scatter_share : float
        How fine the clusters are where rows are many: nu Psi is this share of the data's scatter, or 0.005 nu
        of its variance if that is more. 0, the default, is the paper's prior, with which the number of
        clusters may grow with the number of rows; larger shares, such as 1e-4, keep it down.
    covariance_prior : float or array-like of shape (d,), optional
        Prior variance of a cluster by feature in the units of X, instead of ``scatter_share``; nu Psi is nu
        times it.
    n_hidden : int
        Hidden units of each net.
    batch_size : int
        Rows in a training step. An epoch has at most 64 of them.
    learning_rate : float
        Adam's step for the clustering net.
    max_epochs : int
        Most epochs; a fit ends before that when three rounds of splits and merges move nothing.
    max_clusters : int
        Splits end here.
    warm_start : bool
        Go on from the last ``fit``, which must have seen the same X: after an interrupt, or to train for
        longer. A pickled estimator is a checkpoint.
    random_state : int, RandomState or None
    verbose : int
        Print progress.
    device : str
        Where torch runs the nets.

    Attributes
    ----------
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_
        Memberships are those of the clustering net.
    k_posterior_ : dict of int to float
        Distribution of K after one more round of the last splits and merges that were proposed: how settled
        the fit is. For a posterior over partitions use ``DPMixture``.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
        Of the mixture, in the units of X. With ``feature_learning`` the means are decoded, and the
        covariances (K, f, f) are those of the learned features.
    history_ : History
        K, loss, accepted splits and merges of every epoch; ``clusterwise.plotting.HistoryDisplay`` draws it.
    n_iter_ : int
        Number of epochs.
    interrupted_ : bool
        Whether the keyboard ended the fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (200, 2)), rng.normal(9, 1, (200, 2))])
    >>> DeepDPM(random_state=0).fit(X).n_clusters_
    2
    """

    _other_k = ("the fit ended while clusters were still being split or merged", "raise max_epochs")
    _keeps_mapped = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "k_init": [Interval(Integral, 1, None, closed="left")],
        "feature_learning": [StrOptions({"mlp"}), torch.nn.Module, None],
        "variants": [callable, None],
        "n_latent": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "scaling": [StrOptions({"pareto", "joint", "feature"})],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "mean_precision_prior": [Interval(Real, 0, None, closed="neither")],
        "degrees_of_freedom_prior": [Interval(Real, 0, None, closed="neither"), None],
        "scatter_share": [Interval(Real, 0, None, closed="left")],
        "covariance_prior": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "n_hidden": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "max_clusters": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "device": [str],
    }

    def __init__(
        self,
        *,
        k_init: int = 1,
        feature_learning: Literal["mlp"] | torch.nn.Module | None = None,
        variants: Variants | None = None,
        n_latent: int = 10,
        covariance_type: CovarianceType = "full",
        scaling: Literal["pareto", "joint", "feature"] = "pareto",
        alpha: float = 10.0,
        mean_precision_prior: float = 1e-4,
        degrees_of_freedom_prior: float | None = None,
        scatter_share: float = 0.0,
        covariance_prior: Any = None,
        n_hidden: int = 50,
        batch_size: int = 1024,
        learning_rate: float = 5e-3,
        max_epochs: int = 300,
        max_clusters: int = 500,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.k_init = k_init
        self.feature_learning = feature_learning
        self.variants = variants
        self.n_latent = n_latent
        self.covariance_type = covariance_type
        self.scaling = scaling
        self.alpha = alpha
        self.mean_precision_prior = mean_precision_prior
        self.degrees_of_freedom_prior = degrees_of_freedom_prior
        self.scatter_share = scatter_share
        self.covariance_prior = covariance_prior
        self.n_hidden = n_hidden
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.max_clusters = max_clusters
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    # -- fitting ---------------------------------------------------------------------------------

    def _make_method(self) -> NetMethod:
        """The method, which goes on from the last ``fit`` if it is to."""
        try:
            torch.zeros(1, device=self.device)
        except (AssertionError, RuntimeError) as error:  # torch's ways to say that there is no such device
            raise ClusterwiseError(
                f"The nets cannot run on device {self.device!r} ({str(error).splitlines()[0]}); "
                "pass device='cpu'."
            ) from error
        before = self._found.details if self.warm_start and hasattr(self, "_found") else None
        shared = {one.name: getattr(self, one.name) for one in fields(NetMethod) if hasattr(self, one.name)}
        return NetMethod(**shared, before=before)

    def _reader_of(self, source: RowSource) -> NumberReader:
        raise ClusterwiseError(
            "DeepDPM is fitted to data in memory or to a numpy.memmap; load the rows, or part of them, "
            "and pass the rest to predict."
        )

    # -- what was found --------------------------------------------------------------------------

    @property
    def _state(self) -> NetState:
        check_is_fitted(self)
        state: NetState = self._found.details
        return state

    @property
    def history_(self) -> History:
        """Clusters, loss, splits and merges of every epoch."""
        return self._state.snapshot.history

    @property
    def n_iter_(self) -> int:
        """Number of epochs."""
        return len(self.history_)

    @property
    def interrupted_(self) -> bool:
        """Whether the keyboard ended the fit."""
        return self._state.snapshot.interrupted

    @property
    def sample_partitions(self) -> Any:
        """There is none, and the error says why."""
        raise AttributeError(
            "DeepDPM learns one partition and has no posterior to draw others from; use DPMixture for that."
        )
