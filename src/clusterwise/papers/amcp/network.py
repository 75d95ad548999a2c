"""Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters one by one on stored encodings.

An encoder runs once per data set and gives every point an encoding x_i in (0, 1)^D. Step k of the
cluster-wise loop (``generate_clusters``) then works on these encodings alone:

1. *InterCC* draws the seed of the next cluster among the unassigned points S_k (Eqs 8-10);
2. *IntraCM* runs T EM steps of a mixture with one reference phi_j for each cluster so far, one for the
   new cluster, started at the seed, and one component for the rest (Eqs 3-7);
3. the plan's column k says who joins C_k; earlier clusters are revised by their own columns (AMCP*);
4. when no point is left, IntraCM goes on over the data themselves, and a learned judge splits and merges
   clusters (``revision``).

Objective (``loss``; Eq 11), unrolled over the T steps, at random states of the loop::

    - log p(C_k | .)                      cross-entropy of the plan against the true columns
    - w sum_j q_ij log(pi_j p_ij / q_ij)  the bound of IntraCM (Eq 4), the components' width held fixed
    - v log sum_i s_i exp(-loss_i)        the chance that a drawn seed i leads to a right cluster (Eqs 9-10)
    + densities and decisions of step 4   if the configuration asks for them

=====================  ================================================  =================================
symbol                 meaning                                           here
=====================  ================================================  =================================
x_i                    encoding of a point                               ``AMCPNetwork.encode``
phi_j, f_theta(phi_j)  reference of a component, its decoded centre      ``Decoder``
log p(x_i | phi_j)     Gaussian, fixed covariance; the rest: a constant  ``log_joint`` (Eq 3)
q_ij                   responsibility, or transport plan                 ``e_step`` (Eq 4, Eqs 5-6)
epsilon                of the transport, learned                         ``log_epsilon`` (Eq 6)
phi_j, pi_j updates    gradient step or closed form; mean of q           ``m_step`` (Eq 7)
M, its column means    similarity of unassigned to assigned points       ``similarity_to_assigned`` (Eq 9)
s_i, seed of C_k       probability of a seed, one draw of it             ``seed_logits`` (Eq 10)
=====================  ================================================  =================================

Departures from the paper, corrections of it and readings of ours; the largest one first.

(1) The paper's x_i are the data, scaled to the cube. Here they are encodings by a network of set attention
    that sees the whole data set, so that clusters of any width and shape may be round; ``encoder="none"`` is
    the printed one.
(2) Eq 6 puts p where log p belongs.
(3) Eq 7's sign is that of ascent on the error; we step along sum_i q_ij (x_i - f(phi_j)) grad f, divided by
    the mass of component j, or the step would grow with N.
(4) Columns of the plan sum to 1/k as printed, which forces equal clusters and stays as an option. Free ones
    are asked to be those of the step before; the kernel is without them. How strictly they hold
    (unbalanced transport), and epsilon, are learned: strictness 0 and epsilon 1 are the regular E-step.
(5) Eq 9 does not type-check; barycentric projections of assigned and unassigned points are compared, on
    rows centred in the cube and normalized. Eq 10 needs column sums of M only, one product with the mean
    projection of the assigned points.
(6) One draw of Eq 10 is a point, so it is the seed of C_k. How much the similarity counts is learned, and so
    is the loss to be expected of the cluster that a seed leads to, which counts as well.
(7) Algorithm 1 loops while S_k is *not* empty; its first cluster comes from the same step with nothing
    assigned, k-means stays as an option.
(8) The component of the rest has a constant density on the cube: what is left is many clusters, which no
    single reference describes.
(9) With a linear f_theta, the default, the M-step has a closed form, in which W cancels: the centre is the
    mean of the encodings under q.
(10) Splits and merges after the loop are not in the paper; some states of training have two clusters as one.
     Their mixture is one of the data, as Eq 3 has it, with a covariance for each cluster, which is learned.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from clusterwise.nn.attention import SetEncoder
from clusterwise.papers.amcp.loss import loop_loss, revision_loss
from clusterwise.papers.amcp.mixing import (
    ABSENT,
    UNASSIGNED,
    Decoder,
    Encodings,
    first_by_k_means,
    generate_clusters,
    uniform_numbers,
)
from clusterwise.papers.amcp.revision import ClusterJudge, revise_partitions
from clusterwise.papers.estimator import AmortizedClusterer
from clusterwise.papers.model import AmortizedModel, Inference, TrainingTask

__all__ = ["AMCP", "AMCPConfig", "AMCPNetwork"]

# Points of the paths that run together; with more of them the processor's cache would not do.
POINTS_AT_A_TIME = 16384


@dataclass(frozen=True)
class AMCPConfig:
    """What defines an AMCP network and its loop; stored in the header of its weights file."""

    n_features: int = 2
    decoder: Literal["linear", "mlp"] = "linear"
    width: int = 96
    n_heads: int = 4
    n_inducing: int = 16
    n_encoder_blocks: int = 5
    n_wavelengths: int = field(default=6, metadata={"least": 0})
    n_coordinates: int = 32  # D
    n_hidden: int = 64  # of the MLP decoder
    n_em_steps: int = 3  # T
    n_states: int = 4  # states of the loop that a training step looks at, per data set
    encoder: Literal["set", "none"] = "set"  # "none", as printed: the mixture is one of the scaled data
    e_step: Literal["regular", "sinkhorn"] = "regular"
    sinkhorn_iterations: int = 8
    proportions: Literal["free", "balanced"] = "free"
    coupling: bool = True  # InterCC: whether a seed's chance depends on what is assigned
    update: bool = True  # AMCP*: whether a step revises earlier clusters
    first_cluster: Literal["learned", "k-means"] = "learned"  # "k-means", as printed
    merged_share: float = field(default=0.25, metadata={"least": 0})  # of states with two clusters as one
    revision: bool = False  # whether clusters are split and merged at the end
    trained: Literal["all", "revision"] = "all"  # "revision" leaves all else as it is at the start


class AMCPNetwork(AmortizedModel):
    """Encoder, decoder f_theta, and what is learned of the cluster-wise loop of Algorithm 1."""

    method = "amcp"
    config_class = AMCPConfig

    def __init__(self, config: AMCPConfig) -> None:
        super().__init__()
        self.config = config
        n_coordinates = config.n_features
        if config.encoder == "set":
            n_coordinates = config.n_coordinates
            self.encoder = SetEncoder(
                config.n_features,
                config.width,
                config.n_heads,
                config.n_inducing,
                config.n_encoder_blocks,
                config.n_wavelengths,
            )
            self.to_encoding = nn.Linear(config.width, n_coordinates)
            self.log_seed_loss = nn.Sequential(nn.Linear(config.width, 32), nn.ReLU(), nn.Linear(32, 1))
        self.decoder = Decoder(config.decoder, n_coordinates, config.n_hidden)
        self.log_sd = nn.Parameter(torch.tensor(-1.5))  # of a component, the same in all directions
        self.log_density_of_rest = nn.Parameter(torch.tensor(-4.0))
        # Eq 10: weights of the dissimilarity to what is assigned, and of the loss expected from a seed.
        self.log_weight_of_dissimilarity = nn.Parameter(torch.tensor(math.log(10.0)))
        self.log_weight_of_expected_loss = nn.Parameter(torch.tensor(math.log(2.0)))
        if config.e_step == "sinkhorn":
            self.log_epsilon = nn.Parameter(torch.tensor(0.0))
            self.strictness = nn.Parameter(torch.tensor(0.0))  # its logit
        self.judge = ClusterJudge() if config.revision else None

    def encode(self, points: Tensor, mask: Tensor | None) -> tuple[Encodings, Tensor]:
        """Encodings of B data sets, and the log loss expected of each point as a seed, (B, N)."""
        if self.config.encoder == "none":
            return Encodings.of(in_cube(points, mask), mask), torch.zeros_like(points[..., 0])
        h = self.encoder(points, mask)
        # The head reads the encoding but does not shape it.
        log_seed_loss = self.log_seed_loss(h.detach()).squeeze(-1)
        return Encodings.of(torch.sigmoid(self.to_encoding(h)), mask), log_seed_loss

    # -- training and inference ------------------------------------------------------------------

    def loss(self, task: TrainingTask, generator: torch.Generator) -> Tensor:
        """Eq 11 at random states of the loop, and what is learned of splits and merges, if they are."""
        if self.judge is None:
            return loop_loss(self, task, generator)
        loss = revision_loss(self, self.judge, task, generator)
        return loss if self.config.trained == "revision" else loss + loop_loss(self, task, generator)

    @torch.inference_mode()
    def infer(
        self,
        points: Tensor,
        mask: Tensor,
        seeds: Sequence[int] | None = None,
        max_clusters: int = 100,
        n_draws: int = 0,
        revise: bool = True,
    ) -> list[Inference]:
        """Partitions of B data sets; one path takes the likeliest seeds, ``n_draws`` more draw them (Eq 10).

        With ``revise`` and weights that have learned it, clusters are split and merged at the end.
        """
        of_set = torch.arange(len(points), device=points.device).repeat_interleave(1 + n_draws)
        encodings, log_seed_loss = self.encode(points, None if bool(mask.all()) else mask)
        uniform = uniform_numbers(seeds or [0] * len(points), n_draws, max_clusters).to(points.device)
        columns = torch.where(mask, UNASSIGNED, ABSENT)
        if self.config.first_cluster == "k-means":
            columns = columns.masked_fill(first_by_k_means(points, mask), 0)
        found = []
        for paths in torch.arange(len(of_set)).split(max(1, POINTS_AT_A_TIME // points.shape[1])):
            sets = of_set[paths]
            begun = (encodings.rows(sets), log_seed_loss[sets], columns[sets], uniform[paths])
            found.append(generate_clusters(self, *begun))
        parts, caps, steps = zip(*found, strict=True)
        labels, capped = torch.cat(parts), torch.cat(caps)
        if revise and self.judge is not None and self.config.revision:
            # The last number of a path chooses no seed, unless the loop comes to its cap.
            probability = torch.where(uniform[:, -1] < 0, 0.5, uniform[:, -1])
            logits = torch.logit(probability, eps=1e-9)
            labels, capped, _ = revise_partitions(
                self.judge, points[of_set], mask[of_set], labels, max_clusters, logits
            )
        inferences, of_answers = [], [*itertools.chain.from_iterable(steps)][:: 1 + n_draws]
        for first, own in zip(range(0, len(labels), 1 + n_draws), of_answers, strict=True):
            answer, *draws = labels[first : first + 1 + n_draws]
            inferences.append(Inference(answer, tuple(own), bool(capped[first]), tuple(draws)))
        return inferences


def in_cube(points: Tensor, mask: Tensor | None) -> Tensor:
    """Each data set (B, N, d) in (0, 1), with one scale for all features, as f_theta's sigmoid asks."""
    present = torch.ones_like(points[..., :1], dtype=torch.bool) if mask is None else mask.unsqueeze(-1)
    lowest = points.masked_fill(~present, torch.inf).amin(1, keepdim=True)
    highest = points.masked_fill(~present, -torch.inf).amax(1, keepdim=True)
    extent = (highest - lowest).amax(-1, keepdim=True).clamp(min=1e-9)
    return 0.05 + 0.9 * (points - lowest) / extent


# -- estimator --------------------------------------------------------------------------------------


class AMCP(AmortizedClusterer):
    """Amortized Mixing Coupling Processes (Liu & Jing 2022): clusters found one by one, k included.

    A trained encoder looks at the whole data set once. Clusters are then generated one by one on the
    stored encodings: the next one starts at a row unlike those assigned so far, a few EM steps
    decide which rows belong to it, and earlier clusters are revised. At the end a small network, trained with
    the weights, splits and merges clusters. New rows, and rows that the network did not see, go to its
    clusters as Gaussians. With weights of :func:`train_from_labels` rows are encoded first, and the answer is
    a cut through Ward's tree of the encodings, learned on classes held out.

    Parameters
    ----------
    weights : str, path, Weights or None
        Name of shipped weights (see ``clusterwise.list_weights()``), a ``.safetensors`` file, or weights in
        memory; None stands for those shipped for the method.
    projection : {"pca"} or None
        What to do when X has another number of features than the weights take: None raises an error,
        "pca" projects on the first principal components (or pads with zeros).
    scaling : {"joint", "feature"}
        One scale for all features, which keeps the shape of the data, or one for each, for columns
        in different units.
    max_clusters : int
        Cap on the number of clusters; a warning says when it was reached.
    max_network_points : int or None
        The network sees at most this many rows, spread over the data; None stands for 1,024. All others are
        labelled by the clusters.
    random_state : int, RandomState or None
        Seed of what the network draws, and of ``sample``.
    verbose : int
        1: say every two seconds how far the fit is, and one line at its end.
    device : str
        torch device that the network runs on.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each row, 0 .. K-1 by first appearance.
    n_clusters_ : int
        Number of clusters K that were found.
    membership_ : ndarray of shape (n, K)
        Probability of each cluster; rows sum to 1 and the largest is the label.
    probabilities_ : ndarray of shape (n,)
        Probability of the label.
    outlier_scores_ : ndarray of shape (n,)
        Near 1 for rows farther out than any ordinary row should be, near 0 for ordinary ones.
    means_ : ndarray of shape (K, d)
    covariances_ : ndarray of shape (K, d, d)
    proportions_ : ndarray of shape (K,)
        Of the Gaussian clusters, in the units of X.
    k_posterior_ : dict
        Probability of each number of clusters: shares of 50 drawn paths, which ``sample_partitions`` shows.
    steps_ : tuple of ClusteringStep
        The steps of the likeliest path in their order, before any revision.
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
    _max_rows = 1024
