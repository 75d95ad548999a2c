"""Amortized Mixing Coupling Processes as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clusterwise._arrays import to_numpy
from clusterwise.estimators.amortized import AmortizedClusterer, Fitted, Prepared, clusters_in_use
from clusterwise.estimators.validation import require_positive
from clusterwise.mixture import DiagonalMixture, mixture_from_labels, refine
from clusterwise.models.amcp import Options
from clusterwise.models.base import Inference
from clusterwise.partition import canonical_labels
from clusterwise.polish import Scored, k_posterior, oddness, polish, probabilities
from clusterwise.posterior import PartitionPosterior

__all__ = ["AMCP"]

# Paths times points of one data set that the loop treats at once: more paths for small sets only.
PATH_POINTS = 60_000
# Clusters odder than this, in the units of ``oddness``, are shown to the network again.
WORTH_A_LOOK = 15.0
# Rows that take part in polishing.
MOST_POLISHED = 10_000
# Mixtures less probable than this beside the others are left out of the posterior.
LEAST_PROBABILITY = 1e-4


@dataclass(frozen=True)
class Beliefs:
    """Mixtures of a data set, all clusters in use, and the probability of each."""

    mixtures: list[DiagonalMixture]
    weights: np.ndarray


class AMCP(AmortizedClusterer):
    """Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters found one by one, k included.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one on the
    stored encodings: the next one starts at a row unlike all that is assigned, a few EM steps say
    who belongs to it, and earlier clusters are revised. The partition is then polished: EM steps, splits
    and mergers of Gaussian summaries, judged by their evidence. The summaries label every row, known or new.

    Parameters
    ----------
    e_step : {"regular", "sinkhorn"}
        How rows are shared out among the clusters inside a step: each by itself, or by optimal
        transport to the clusters' proportions.
    n_em_steps : int or None
        EM steps per cluster (T in the paper); None stands for the number that the weights were trained with.
    proportions : {"free", "balanced"}
        Whether the clusters' shares are estimated or held equal, as the paper prints them.
    update : bool
        Whether a step revises the clusters found before it (AMCP* in the paper).
    first_cluster : {"learned", "k-means"}
        Whether the first cluster comes from the network's own step or from k-means, as the paper prints it.
    n_draws : int
        Further paths whose starting rows are drawn at random; the best of all is the answer. 0 takes the
        likeliest path alone, which is quick; ``k_posterior_`` looks at 20 drawn paths in any case.
    weights : str, path or None
        Name of shipped weights (see ``clusterwise.list_weights()``) or a ``.safetensors`` file; None
        stands for "amcp-2d".
    projection : {"pca"} or None
        What to do when X has another number of features than the weights take: None raises an error,
        "pca" projects on the first principal components (or pads with zeros).
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    zoom_levels : int
        How often found clusters that do not look like one Gaussian are shown to the network again, each by
        itself and at its own scale.
    refine_steps : int
        Number of EM steps on the summaries of the clusters after the network's steps.
    merge : bool
        Split and merge clusters by the evidence of their summaries. False keeps the network's clusters.
    max_clusters : int
        Cap on the steps; a warning says when it was reached.
    max_network_points : int
        The network sees at most this many rows, spread over the data; up to 10,000 rows take part in
        polishing, and all are labelled by the cluster summaries.
    random_state : int, RandomState or None
        Seed of the starting rows, of the choice of rows, and of ``sample``.
    verbose : int
        Print a line after ``fit`` if not 0.
    device : str
        torch device that the network runs on.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row, 0 .. K-1 by first appearance.
    n_clusters_ : int
    membership_ : ndarray of shape (n, K)
        Probability of each cluster; rows sum to 1 and the largest is the label.
    probabilities_ : ndarray of shape (n,)
        Probability of the label.
    outlier_scores_ : ndarray of shape (n,)
        Near 1 for rows farther out than any ordinary row should be, near 0 for ordinary ones.
    k_posterior_ : dict
        Probability of each number of clusters.
    means_, variances_ : ndarrays of shape (K, d)
        Summaries of the clusters in the units of X.
    proportions_ : ndarray of shape (K,)
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order.
    network_labels_ : ndarray of shape (n,)
        The partition as that path left it, before the summaries; -1 for rows not shown to the network.
    weights_name_ : str
    cap_reached_ : bool
    n_network_points_ : int

    Examples
    --------
    >>> import clusterwise as cw
    >>> X, y = cw.datasets.load_demo()
    >>> est = cw.AMCP(random_state=0).fit(X)
    >>> int(est.n_clusters_)
    7
    """

    _method = "amcp"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "e_step": [StrOptions({"regular", "sinkhorn"})],
        "n_em_steps": [Interval(Integral, 1, None, closed="left"), None],
        "proportions": [StrOptions({"free", "balanced"})],
        "update": ["boolean"],
        "first_cluster": [StrOptions({"learned", "k-means"})],
        "n_draws": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        e_step: Literal["regular", "sinkhorn"] = "regular",
        n_em_steps: int | None = None,
        proportions: Literal["free", "balanced"] = "free",
        update: bool = True,
        first_cluster: Literal["learned", "k-means"] = "learned",
        n_draws: int = 0,
        weights: str | Path | None = None,
        projection: Literal["pca"] | None = None,
        scaling: Literal["joint", "feature"] = "joint",
        zoom_levels: int = 1,
        refine_steps: int = 10,
        merge: bool = True,
        max_clusters: int = 100,
        max_network_points: int = 256,
        random_state: Any = None,
        verbose: int = 0,
        device: str = "cpu",
    ) -> None:
        self.e_step = e_step
        self.n_em_steps = n_em_steps
        self.proportions = proportions
        self.update = update
        self.first_cluster = first_cluster
        self.n_draws = n_draws
        super().__init__(
            weights=weights,
            projection=projection,
            scaling=scaling,
            zoom_levels=zoom_levels,
            refine_steps=refine_steps,
            merge=merge,
            max_clusters=max_clusters,
            max_network_points=max_network_points,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    def _default_weights(self) -> str:
        return "amcp-2d"

    def _max_summarized(self) -> int:
        return max(MOST_POLISHED, self.max_network_points)

    def _options(self) -> Options:
        return Options(self.e_step, self.n_em_steps, self.proportions, self.update, self.first_cluster)

    def _infer(
        self, prepared: Sequence[Prepared], seeds: Sequence[int], **options: Any
    ) -> tuple[list[Tensor], list[Inference]]:
        """Run the network with ``n_draws`` further paths, as many as memory should bear."""
        largest = max(len(p.shown) for p in prepared)
        n_draws = options.pop("n_draws", self.n_draws if self.merge else 0)
        n_draws = min(n_draws, max(1, PATH_POINTS // largest))
        return super()._infer(prepared, seeds, options=self._options(), n_draws=n_draws, **options)

    def _deserves_a_second_look(self, points: Tensor) -> bool:
        rows = to_numpy(points, np.float64)
        return not self.merge or oddness(rows, np.ones(len(rows)))[0] > WORTH_A_LOOK

    def _summarize(
        self, prepared: Prepared, inference: Inference, labels: np.ndarray
    ) -> tuple[DiagonalMixture, np.ndarray]:
        """Polish the partition of every path; the one with the largest evidence is the answer."""
        if not self.merge:
            return super()._summarize(prepared, inference, labels)
        scored = self._polish(prepared, inference, labels)
        within = [one for one in scored if one.mixture.n_clusters <= self.max_clusters]
        return clusters_in_use(prepared, (within or scored)[0].mixture)

    def _polish(self, prepared: Prepared, inference: Inference, labels: np.ndarray) -> tuple[Scored, ...]:
        """Mixtures that the partitions of all paths lead to, the best first."""
        paths = [to_numpy(path, np.int64) for path in (inference.labels, *inference.draws)]
        candidates = [_labels_of_all(prepared, path) for path in (labels, *paths)]
        return polish(prepared.features[prepared.summarized], candidates, max(1, self.refine_steps)).scored

    def _store(self, prepared: Prepared, fitted: Fitted, seed: int) -> None:
        super()._store(prepared, fitted, seed)
        self._beliefs: dict[int, Beliefs] = {}

    def _believe(self, n_draws: int) -> Beliefs:
        """Mixtures that ``n_draws`` paths with drawn seeds (Eq 10) lead to, and their probabilities."""
        if n_draws not in self._beliefs:
            _, (inference,) = self._infer([self._prepared], [self._seed], n_draws=n_draws)
            if self.merge:
                scored = self._polish(self._prepared, inference, to_numpy(inference.labels, np.int64))
                weights = probabilities([one.log_evidence for one in scored])
                mixtures = [one.mixture for one in scored]
            else:
                shown = self._prepared.features[self._prepared.shown]
                draws = [to_numpy(draw, np.int64)[: len(shown)] for draw in inference.draws]
                mixtures = [refine(shown, mixture_from_labels(shown, d), self.refine_steps) for d in draws]
                weights = np.full(len(mixtures), 1 / len(mixtures))
            likely = np.flatnonzero(weights >= LEAST_PROBABILITY)
            in_use = [clusters_in_use(self._prepared, mixtures[i])[0] for i in likely]
            self._beliefs[n_draws] = Beliefs(in_use, weights[likely] / weights[likely].sum())
        return self._beliefs[n_draws]

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters, from 20 paths with drawn seeds.

        It allows for clusters that hide within others; see ``polish.posterior``.
        """
        check_is_fitted(self)
        beliefs = self._believe(20)
        if self.merge:
            return k_posterior(beliefs.mixtures, beliefs.weights, len(self._prepared.summarized))
        shares: dict[int, float] = {}
        for mixture, weight in zip(beliefs.mixtures, beliefs.weights, strict=True):
            shares[mixture.n_clusters] = shares.get(mixture.n_clusters, 0.0) + float(weight)
        return dict(sorted(shares.items()))

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit``.

        Paths with drawn seeds (Eq 10) give candidate mixtures; one is drawn by its probability, and then
        a cluster for each row by the memberships.
        """
        check_is_fitted(self)
        require_positive(n_samples)
        beliefs = self._believe(n_samples)
        rng = np.random.default_rng(self._seed)
        drawn = rng.choice(len(beliefs.weights), size=n_samples, p=beliefs.weights)
        labels = np.empty((n_samples, len(self.labels_)), dtype=np.int64)
        for chosen in np.unique(drawn):
            edges = beliefs.mixtures[chosen].memberships(self._prepared.features).cumsum(axis=1)
            for row in np.nonzero(drawn == chosen)[0]:
                labels[row] = self._in_input_order((rng.random((len(edges), 1)) > edges[:, :-1]).sum(axis=1))
        return PartitionPosterior(labels)


def _labels_of_all(prepared: Prepared, labels: np.ndarray) -> np.ndarray:
    """Extend labels of the rows that the network saw to all rows that take part in polishing."""
    labels = canonical_labels(labels[: len(prepared.shown)])
    if len(prepared.shown) == len(prepared.summarized):
        return labels
    mixture = mixture_from_labels(prepared.features[prepared.shown], labels)
    extended: np.ndarray = mixture.memberships(prepared.features[prepared.summarized]).argmax(axis=1)
    return extended
