"""Estimators whose network draws several paths to a partition, each of which is polished and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from clusterwise._tensors import to_numpy
from clusterwise.estimators.amortized import AmortizedClusterer, Fitted, Prepared, clusters_in_use
from clusterwise.estimators.averaging import AveragedMixture, Beliefs, averaged
from clusterwise.estimators.validation import require_positive
from clusterwise.mixture import DiagonalMixture, mixture_from_labels, refine
from clusterwise.models.base import Inference
from clusterwise.partition import canonical_labels
from clusterwise.polish import Scored, k_posterior, oddness, polish, probabilities
from clusterwise.posterior import PartitionPosterior

__all__ = ["PolishedClusterer", "labels_of_all"]

# Paths times points of one data set that the loop treats at once: more paths for small sets only.
PATH_POINTS = 60_000
# Clusters odder than this, in the units of ``oddness``, are shown to the network again.
WORTH_A_LOOK = 15.0
# Rows that take part in polishing.
MOST_POLISHED = 10_000
# Mixtures less probable than this beside the others are left out of the posterior.
LEAST_PROBABILITY = 1e-4
# Drawn paths behind the posterior over k where ``fit`` itself draws none.
DRAWS_OF_POSTERIOR = 20


class PolishedClusterer(AmortizedClusterer):
    """Base of the estimators that polish the partitions of likely and of drawn paths. Not for direct use."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AmortizedClusterer._parameter_constraints,
        "n_draws": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(self, *, n_draws: int = 0, **shared: Any) -> None:
        self.n_draws = n_draws
        super().__init__(**shared)

    def _loop_options(self) -> dict[str, Any]:
        """Options of the network's loop, beside the number of drawn paths."""
        return {}

    def _max_summarized(self) -> int:
        return max(MOST_POLISHED, self.max_network_points)

    def _infer(
        self, prepared: Sequence[Prepared], seeds: Sequence[int], **options: Any
    ) -> tuple[list[Tensor], list[Inference]]:
        """Run the network with ``n_draws`` further paths, as many as memory should bear."""
        largest = max(len(p.shown) for p in prepared)
        n_draws = options.pop("n_draws", self.n_draws if self.merge else 0)
        n_draws = min(n_draws, max(1, PATH_POINTS // largest))
        return super()._infer(prepared, seeds, n_draws=n_draws, **self._loop_options(), **options)

    def _deserves_a_second_look(self, points: Tensor) -> bool:
        rows = to_numpy(points, np.float64)
        return not self.merge or oddness(rows, np.ones(len(rows)))[0] > WORTH_A_LOOK

    def _summarize(
        self, prepared: Prepared, inference: Inference, labels: np.ndarray
    ) -> tuple[DiagonalMixture, np.ndarray]:
        """Polish the partition of every path; the one with the largest evidence is the answer.

        Where paths were drawn its memberships are averages over all that is probable.
        """
        if not self.merge:
            return super()._summarize(prepared, inference, labels)
        scored = self._polish(prepared, inference, labels)
        within = [one for one in scored if one.mixture.n_clusters <= self.max_clusters]
        best = (within or scored)[0].mixture
        return clusters_in_use(prepared, _average(prepared, best, scored) if self.n_draws else best)

    def _polish(self, prepared: Prepared, inference: Inference, labels: np.ndarray) -> tuple[Scored, ...]:
        """Mixtures that the partitions of all paths lead to, the best first."""
        paths = [to_numpy(path, np.int64) for path in (inference.labels, *inference.draws)]
        candidates = [labels_of_all(prepared, path) for path in (labels, *paths)]
        return polish(prepared.features[prepared.summarized], candidates, max(1, self.refine_steps)).scored

    def _store(self, prepared: Prepared, fitted: Fitted, seed: int) -> None:
        super()._store(prepared, fitted, seed)
        self._beliefs: dict[int, Beliefs] = {}
        if isinstance(fitted.mixture, AveragedMixture):
            self._beliefs[self.n_draws] = fitted.mixture.beliefs

    def _believe(self, n_draws: int) -> Beliefs:
        """Mixtures that ``n_draws`` drawn paths lead to, and their probabilities."""
        if n_draws not in self._beliefs:
            _, (inference,) = self._infer([self._prepared], [self._seed], n_draws=n_draws)
            if self.merge:
                scored = self._polish(self._prepared, inference, to_numpy(inference.labels, np.int64))
                self._beliefs[n_draws] = _weighed(self._prepared, scored)
            else:
                shown = self._prepared.features[self._prepared.shown]
                draws = [to_numpy(draw, np.int64)[: len(shown)] for draw in inference.draws]
                mixtures = [refine(shown, mixture_from_labels(shown, d), self.refine_steps) for d in draws]
                weights = np.full(len(mixtures), 1 / len(mixtures))
                self._beliefs[n_draws] = _likely(self._prepared, mixtures, weights)
        return self._beliefs[n_draws]

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters, from ``n_draws`` drawn paths, or 20 if that is 0.

        It allows for clusters that hide within others; see ``polish.posterior``.
        """
        check_is_fitted(self)
        beliefs = self._believe(self.n_draws or DRAWS_OF_POSTERIOR)
        if self.merge:
            return k_posterior(beliefs.mixtures, beliefs.weights, len(self._prepared.summarized))
        shares: dict[int, float] = {}
        for mixture, weight in zip(beliefs.mixtures, beliefs.weights, strict=True):
            shares[mixture.n_clusters] = shares.get(mixture.n_clusters, 0.0) + float(weight)
        return dict(sorted(shares.items()))

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit``.

        Drawn paths give candidate mixtures; one is drawn by its probability, and then
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


def _weighed(prepared: Prepared, scored: Sequence[Scored]) -> Beliefs:
    """Weigh mixtures by their evidence."""
    weights = probabilities([one.log_evidence for one in scored])
    return _likely(prepared, [one.mixture for one in scored], weights)


def _likely(prepared: Prepared, mixtures: list[DiagonalMixture], weights: np.ndarray) -> Beliefs:
    """Keep the mixtures that are probable, and of these the clusters in use."""
    likely = np.flatnonzero(weights >= LEAST_PROBABILITY)
    in_use = [clusters_in_use(prepared, mixtures[i])[0] for i in likely]
    return Beliefs(in_use, weights[likely] / weights[likely].sum())


def _average(prepared: Prepared, best: DiagonalMixture, scored: Sequence[Scored]) -> AveragedMixture:
    """Give the best mixture memberships that are averages over all mixtures by their evidence."""
    # Clusters in the order of the sorted rows: averages of shuffled rows are the same, rounding included.
    by_value = replace(prepared, order=np.arange(len(prepared.order)))
    answer = clusters_in_use(by_value, best)[0]
    return averaged(answer, _weighed(by_value, scored), prepared.features)


def labels_of_all(prepared: Prepared, labels: np.ndarray) -> np.ndarray:
    """Extend labels of the rows that the network saw to all rows that take part in polishing."""
    labels = canonical_labels(labels[: len(prepared.shown)])
    if len(prepared.shown) == len(prepared.summarized):
        return labels
    mixture = mixture_from_labels(prepared.features[prepared.shown], labels)
    extended: np.ndarray = mixture.memberships(prepared.features[prepared.summarized]).argmax(axis=1)
    return extended
