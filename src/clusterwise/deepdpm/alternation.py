"""Feature learning and clustering in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from clusterwise.affine import AffineMap, fit_scaling
from clusterwise.deepdpm.features import Autoencoder, FeatureLearner
from clusterwise.deepdpm.fitting import Snapshot, run
from clusterwise.deepdpm.history import History
from clusterwise.deepdpm.neighbours import Vary
from clusterwise.deepdpm.net_clusters import weighted_rows
from clusterwise.deepdpm.settings import Settings
from clusterwise.gaussian.rows import Rows

__all__ = ["Code", "alternate"]

# Training steps of the autoencoder before the first clustering, and in each turn after it.
FIRST_STEPS, STEPS = 2000, 500
TURNS = 2


@dataclass(frozen=True)
class Code:
    """A trained autoencoder, and the scaling of its latent features to unit spread."""

    autoencoder: Autoencoder
    scaling: AffineMap

    def encode(self, features: np.ndarray) -> np.ndarray:
        """Learned features (n, l) of features (n, f), scaled."""
        return self.scaling.apply(self.autoencoder.encode(features))

    def decode(self, learned: np.ndarray) -> np.ndarray:
        """Features (n, f) of learned features (n, l)."""
        return self.autoencoder.decode(self.scaling.inverse(learned))


def alternate(
    seed: int,
    features: np.ndarray,
    encoder: nn.Module | None,
    n_latent: int,
    k_init: int,
    make_settings: Callable[[int], Settings],
    before: tuple[Code, Snapshot] | None,
    report: Callable[[History], object],
    vary: Vary | None = None,
    say: Callable[[str], object] = lambda _: None,
) -> tuple[Code, Snapshot]:
    """Learn features, cluster them, pull rows to their clusters, cluster again.

    ``make_settings`` gives the settings for a number of learned features. With ``before`` the turns go on
    from there. ``vary`` draws variants of features. ``report`` hears of every epoch, ``say`` what comes next.
    An interrupt from the keyboard ends the turns, once there are clusters.
    """
    settings = make_settings(n_latent)
    device = settings.device
    code = None if before is None else before[0]
    snapshot = None if before is None else before[1]
    old = None if code is None else code.autoencoder
    say("neighbours of the rows and their layout")
    learner = FeatureLearner(seed, features, encoder, n_latent, device, old, vary)
    if code is None:
        say("training of the autoencoder")
        learner.train(FIRST_STEPS)
        latent = learner.autoencoder.encode(features)
        code = Code(learner.autoencoder, fit_scaling(latent))
        settings = make_settings(latent.shape[1])
    turn = 0
    while True:
        say(f"clustering of the learned features, turn {turn + 1} of {TURNS + 1}")
        learned = code.encode(features)
        if snapshot is not None:  # the features have moved since then
            _, statistics = weighted_rows(Rows(learned), snapshot.weights, settings.prior)
            snapshot = replace(snapshot, statistics=statistics, quiet_rounds=0)
            settings = replace(settings, max_epochs=settings.max_epochs + len(snapshot.history))
        snapshot = run(seed + turn, Rows(learned), settings, k_init, snapshot, report)
        if turn == TURNS or snapshot.interrupted:
            break
        labels = snapshot.weights.memberships(learned).argmax(axis=1)
        centres = code.scaling.inverse(settings.prior.posterior(snapshot.statistics).mean)
        try:
            learner.pull(centres, labels)
            learner.train(STEPS)
        except KeyboardInterrupt:
            snapshot = replace(snapshot, interrupted=True)
            break
        code, turn = replace(code, autoencoder=learner.autoencoder), turn + 1
    return code, snapshot
