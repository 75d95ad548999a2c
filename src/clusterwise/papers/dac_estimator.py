"""Deep Amortized Clustering as a scikit-learn estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from sklearn.utils._param_validation import StrOptions

from clusterwise.exceptions import ClusterwiseError, WeightsFileError
from clusterwise.fitting.refine import Refine
from clusterwise.papers.estimator import AmortizedClusterer, RefineOption
from clusterwise.partition import PartitionPosterior
from clusterwise.pretrained import Weights

__all__ = ["DAC"]


ONE_ANSWER = (
    "minimum-loss filtering alone has one answer and no posterior; use refine='search', "
    "DAC(filtering='anchored') or ACTST."
)


# Searches among flows, from passes with other anchors, of which the best counts.
STARTS = 5
# Anchors that a pass tries where clusters are flows. More were not tried out.
ANCHORS_OF_FLOWS = 4


class DAC(AmortizedClusterer):
    """Deep Amortized Clustering (Lee, Lee & Teh 2019): clusters found one by one, k included.

    A trained network takes the whole data set and picks out one cluster per pass until no row is
    left. ``refine`` says what happens to this partition.

    The weights ``"dac-warped-2d"`` are for bent clusters: each is a normalizing flow instead of a Gaussian.

    Parameters
    ----------
    filtering : {"minimum-loss", "anchored"}, optional
        Whether a pass picks the cluster that it finds easiest, or that of a random row (the anchor). By
        default as the weights do it; without ``weights`` the minimum loss.
    revise : bool or None
        Whether clusters are split and merged by the likelihood of the network's own densities when no row
        is left; without it and with ``refine=None`` the labels are those of the paper. None: for Gaussian
        clusters, unless a search follows, which does the same and more.
    refine : {"auto", "search", "em", "cut"} or None
        As for :class:`AMCP`. "auto" is "search" for clusters that are Gaussians. For flows, of which a search
        for Gaussians would make pieces, it is a search among flows: rows move between clusters, clusters that
        the others can replace are removed, and pairs that one flow describes as well are merged.
    weights, projection, scaling, max_clusters, max_network_points, random_state, verbose, device
        As for :class:`AMCP`; ``weights=None`` stands for those shipped for this filtering. Without a search
        ``max_network_points=None`` is 1,024.

    Attributes
    ----------
    k_posterior_ : dict
        Probability of each number of clusters: the evidences of all mixtures that the partition, or 20 with
        other anchors, lead to. With ``refine=None`` they are shares of these 20, and minimum-loss filtering
        has none.
    steps_ : tuple of ClusteringStep
        The passes in their order.
    labels_, n_clusters_, membership_, probabilities_, outlier_scores_, means_, covariances_, proportions_, \
network_labels_, weights_name_, cap_reached_, n_network_points_
        As for :class:`AMCP`; for flows means and covariances are those of the rows that the network saw.

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> int(cw.DAC(random_state=0).fit(X).n_clusters_)
    7
    """

    _method = "dac"
    _rows_alone = 1024
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "filtering": [StrOptions({"minimum-loss", "anchored"}), None],
        "revise": ["boolean", None],
    }

    def __init__(
        self,
        filtering: Literal["minimum-loss", "anchored"] | None = None,
        *,
        revise: bool | None = None,
        weights: str | Path | Weights | None = None,
        refine: RefineOption | None = "auto",
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        max_clusters: int = 100,
        max_network_points: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.filtering = filtering
        self.revise = revise
        super().__init__(
            weights=weights,
            refine=refine,
            projection=projection,
            scaling=scaling,
            max_clusters=max_clusters,
            max_network_points=max_network_points,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    def _options(self) -> dict[str, Any]:
        revise, weights = self.revise, self._weights()
        gaussian = weights.model.config.density == "diagonal-gaussian" and "encoder" not in weights.recipe
        if revise and not gaussian:
            raise ClusterwiseError(
                f"revise=True goes with clusters that are Gaussians, and those of the weights "
                f"{weights.name!r} are not; leave it out."
            )
        if self._has_flows():
            return {"n_anchors": ANCHORS_OF_FLOWS, "n_starts": STARTS if self.refine == "auto" else 0}
        return {"revise": gaussian and self._how() != "search" if revise is None else revise}

    def _default_weights(self) -> str:
        return f"dac-{self.filtering or 'minimum-loss'}-2d"

    def _weights(self) -> Weights:
        weights = super()._weights()
        trained_for = weights.model.config.filtering
        if self.filtering not in (None, trained_for):
            raise WeightsFileError(
                f"The weights {weights.name!r} are for {trained_for} filtering, not for {self.filtering}; "
                "choose that filtering or other weights."
            )
        return weights

    def _has_flows(self) -> bool:
        return bool(self._weights().model.config.density == "flow")

    def _how(self) -> Refine | None:
        if not self._has_flows():
            return super()._how()
        if self.refine not in ("auto", None):
            raise ClusterwiseError(
                f"refine={self.refine!r} would describe the clusters of the weights "
                f"{self._weights().name!r} by Gaussians, which they are not; pass refine=None or 'auto'."
            )
        return None

    def _has_one_answer(self) -> bool:
        return self._how() is None and self._weights().model.config.filtering == "minimum-loss"

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters; see ``sample_partitions``."""
        if self._has_one_answer():
            raise AttributeError(ONE_ANSWER)
        return super().k_posterior_

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit``, as other estimators do; with anchors each has its own."""
        if self._has_one_answer():
            raise ClusterwiseError(ONE_ANSWER)
        return super().sample_partitions(n_samples)
