"""Estimators that are four stages, prepare, propose, refine and describe, with a proposer of their own."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted

from clusterwise._threads import one_thread
from clusterwise.exceptions import CapReachedWarning, ClusterwiseWarning, MisfitWarning
from clusterwise.fitting.base import BaseClusterer
from clusterwise.fitting.batches import fit_batches
from clusterwise.fitting.describe import Description, network_labels
from clusterwise.fitting.fitting import Stages
from clusterwise.fitting.misfit import rows_to_check
from clusterwise.fitting.posterior import Beliefs, beliefs_of_refined, k_posterior, sample_partitions
from clusterwise.fitting.prepare import Prepared
from clusterwise.fitting.progress import batch_progress, stage_progress
from clusterwise.fitting.propose import ClusteringStep, Proposal, steps_in_input_order
from clusterwise.fitting.sampled import FittedSample, fitted_sample
from clusterwise.fitting.validation import as_points, require_positive
from clusterwise.partition import PartitionPosterior
from clusterwise.rows import Batch, RowSource, as_source

__all__ = ["PipelinedClusterer"]

# Candidates behind the posterior over k where ``fit`` itself draws none.
DRAWS_OF_POSTERIOR = 20
N_STAGES = 4


class PipelinedClusterer(BaseClusterer):
    """Base of the estimators that name a proposer. Not for direct use."""

    @abstractmethod
    def _pipeline(self) -> Stages:
        """The stages with this estimator's proposer and settings."""

    # -- fitting ---------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> PipelinedClusterer:
        """Find the clusters of X, (n, d), and how many there are; ``y`` is ignored."""
        source = as_source(X)
        if source is not None:
            return self._fit_source(source)
        started = time.perf_counter()
        pipeline, seed = self._pipeline(), self._draw_seed()
        with one_thread(), stage_progress(type(self).__name__, self.verbose, N_STAGES) as begin:
            begin("preparing")
            points = self._points(X)
            self._remember_columns(X)
            prepared = pipeline.prepare(points, seed)
            begin("proposing clusters")
            (proposal,) = pipeline.propose([prepared], seed)
            begin("refining them")
            refined = pipeline.refine(prepared, proposal)
            begin("describing them")
            description = pipeline.describe(prepared, proposal, refined)
        self._store(prepared, proposal, description, seed)
        if refined is not None and pipeline.n_draws > 0:
            self._beliefs[pipeline.n_draws] = beliefs_of_refined(prepared, refined, prepared.order)
        self.misfits_ = self._find_misfits(prepared, description, pipeline)
        self._warn(prepared, self.cap_reached_, self.misfits_)
        if self.verbose:
            print(
                f"{type(self).__name__}: {self.n_clusters_} clusters in {len(points)} rows, "
                f"{time.perf_counter() - started:.2f} s"
            )
        return self

    def _fit_source(self, source: RowSource) -> PipelinedClusterer:
        """Fit a sample of the rows of a source, and hold all of them against it; see ``pipeline.batches``."""
        started = time.perf_counter()
        pipeline, seed = self._pipeline(), self._draw_seed()
        self._set_columns(source)

        def fit_sample(data: Any, weights: np.ndarray | None) -> FittedSample:
            read = self._sample_reader(data)
            points = read(Batch(data, 0, "the sample", 0)).astype(np.float64)
            prepared = pipeline.prepare(points, seed)
            (proposal,) = pipeline.propose([prepared], seed)
            refined = pipeline.refine(prepared, proposal)
            description = pipeline.describe(prepared, proposal, refined)
            return fitted_sample(read, prepared, proposal, refined, description, weights, source.n_rows)

        progress = batch_progress(type(self).__name__, self.verbose)
        with one_thread():
            found = fit_batches(
                source,
                self._survey_reader(source),
                fit_sample,
                pipeline.most_sampled(source.n_features),
                seed,
                progress,
            )
        fitted: FittedSample = found.fitted
        self._store_proposal(fitted.prepared, fitted.proposal, fitted.description, seed)
        self._store_clusters_of(
            source,
            fitted.prepared.space,
            fitted.clusters.select(found.in_use),
            fitted.assigner.select(found.in_use),
        )
        self.proportions_ = found.shares
        self.sample_rows_ = found.rows
        self._stand_for: np.ndarray | None = found.weights
        if fitted.refined is not None and pipeline.n_draws > 0:
            order = fitted.prepared.order
            self._beliefs[pipeline.n_draws] = beliefs_of_refined(
                fitted.prepared, fitted.refined, order, found.weights
            )
        self.misfits_ = self._find_misfits(fitted.prepared, fitted.description, pipeline)
        self._warn(fitted.prepared, self.cap_reached_, self.misfits_)
        if self.verbose:
            print(
                f"{type(self).__name__}: {self.n_clusters_} clusters in {source.n_rows} rows, "
                f"{time.perf_counter() - started:.2f} s"
            )
        return self

    def _survey_reader(self, source: RowSource) -> Callable[[Batch], np.ndarray] | None:
        """What checks every batch before anything is fitted; None if that needs a fit."""
        return self._batch_reader()

    def _sample_reader(self, data: Any) -> Callable[[Batch], np.ndarray]:
        """What turns rows of the source into numbers, perhaps learned from a sample of them."""
        return self._batch_reader()

    def _fit_many(self, Xs: Sequence[Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Labels (n,) and memberships (n, K) of many data sets, proposed in few batches.

        The sets may differ in rows and in numbers of clusters. Each comes out as ``fit_predict``
        with the same ``random_state`` would label it.
        """
        self._validate_params()
        pipeline, seed = self._pipeline(), self._draw_seed()
        names = [f"Xs[{index}]" for index in range(len(Xs))]
        points = [self._points(X, name) for X, name in zip(Xs, names, strict=True)]
        found = []
        with one_thread():
            prepared = [pipeline.prepare(of_set, seed) for of_set in points]
            for name, one, proposal in zip(names, prepared, pipeline.propose(prepared, seed), strict=True):
                description = pipeline.describe(one, proposal, pipeline.refine(one, proposal))
                found.append((description.labels, description.membership))
                misfits = self._find_misfits(one, description, pipeline)
                self._warn(one, self._is_capped(proposal, description), misfits, name)
        return found

    def _points(self, X: Any, name: str = "X") -> np.ndarray:
        """X as an array (n, d), checked."""
        return as_points(X, self, name)

    def _is_capped(self, proposal: Proposal, description: Description) -> bool:
        return proposal.cap_reached or description.beyond_cap

    def _store_proposal(
        self, prepared: Prepared, proposal: Proposal, description: Description, seed: int
    ) -> None:
        """Keep what there is besides the clusters."""
        self._prepared, self._proposal, self._seed = prepared, proposal, seed
        self._beliefs: dict[int, Beliefs] = {}
        self._stand_for = None  # how many rows each row of a sample stands for
        self.cap_reached_ = self._is_capped(proposal, description)

    def _store(self, prepared: Prepared, proposal: Proposal, description: Description, seed: int) -> None:
        self._store_proposal(prepared, proposal, description, seed)
        self._store_clusters(
            prepared.space,
            description.clusters,
            description.assigner,
            description.membership,
            description.outlier_scores,
        )

    def _find_misfits(
        self, prepared: Prepared, description: Description, pipeline: Stages
    ) -> list[MisfitWarning]:
        rows = rows_to_check(prepared.n_rows)
        labels = description.labels[prepared.order[rows]]
        judged = pipeline.how == "search"
        return self._misfits(prepared.space, description.clusters, prepared.features[rows], labels, judged)

    def _warn(
        self,
        prepared: Prepared,
        cap_reached: bool,
        misfits: Sequence[MisfitWarning],
        name: str = "",
    ) -> None:
        """Say what a user should know of a data set."""
        for warning in (*self._notes(prepared, cap_reached), *misfits):
            warning.name = name
            self._issue(warning)

    def _notes(self, prepared: Prepared, cap_reached: bool) -> Iterator[ClusterwiseWarning]:
        if cap_reached:
            yield CapReachedWarning(max_clusters=self.max_clusters)

    # -- besides the answer -----------------------------------------------------------------------

    def _draws_of_posterior(self) -> int:
        """Number of drawn candidates behind ``k_posterior_``."""
        return DRAWS_OF_POSTERIOR

    @one_thread()
    def _believe(self, n_draws: int) -> Beliefs:
        if n_draws not in self._beliefs:
            stand_for = self._stand_for
            self._beliefs[n_draws] = self._pipeline().believe(self._prepared, self._seed, n_draws, stand_for)
        return self._beliefs[n_draws]

    @property
    def k_posterior_(self) -> dict[int, float]:
        """Probability of each number of clusters; see ``sample_partitions``."""
        check_is_fitted(self)
        return self._with_other_k_said(k_posterior(self._believe(self._draws_of_posterior())))

    def _why_other_k(self, likeliest: int) -> tuple[str, str]:
        why = "the probabilities also count candidates that fit did not consider"
        if "n_draws" in self.get_params(deep=False):
            return why, f"fit with n_draws={DRAWS_OF_POSTERIOR} to consider them"
        return why, "see sample_partitions for them"

    def sample_partitions(self, n_samples: int = 50) -> PartitionPosterior:
        """Draw partitions of the rows of ``fit``.

        Mixtures that candidates lead to count by their evidence; one is drawn, and then a cluster for each
        row by its memberships. With ``refine=None`` the candidates themselves are the draws, as the network
        gives them; rows that it did not see join a cluster by the Gaussians of the draw.
        """
        check_is_fitted(self)
        require_positive(n_samples)
        pipeline = self._pipeline()
        beliefs = self._believe(n_samples if pipeline.how is None else self._draws_of_posterior())
        return sample_partitions(self._prepared, beliefs, n_samples, self._seed)

    # -- the proposer's own path -----------------------------------------------------------------

    @property
    def steps_(self) -> tuple[ClusteringStep, ...]:
        """The steps of the proposer's likeliest path in their order; empty if it has none."""
        check_is_fitted(self)
        rows = self._prepared.order[self._prepared.shown]
        return steps_in_input_order(self._proposal, rows, self._prepared.n_rows)

    @property
    def network_labels_(self) -> np.ndarray:
        """The proposer's own partition, (n,), before refining; -1 for rows that it was not shown."""
        check_is_fitted(self)
        return network_labels(self._prepared, self._proposal)
