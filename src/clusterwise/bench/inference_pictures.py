"""Pictures of the study of CHiGac's inference: likelihood over steps, and one data set over steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from clusterwise.plotting.clusters import ClusterDisplay
from clusterwise.plotting.palette import BASE

__all__ = ["draw_generation", "draw_likelihoods"]


def draw_likelihoods(values: Mapping[str, np.ndarray], steps: Sequence[int], path: Path) -> None:
    """Write a picture with one line for each strategy: values (n_steps, n_seeds) over steps."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    for (name, of_strategy), colour in zip(values.items(), BASE, strict=False):
        ax.plot(steps, of_strategy, color=colour, linewidth=0.6, alpha=0.4)
        ax.plot(
            steps, of_strategy.mean(axis=1), color=colour, linewidth=2.0, marker="o", markersize=3, label=name
        )
    ax.set_xscale("log")
    ax.set_xticks(list(steps), [str(step) for step in steps])
    ax.minorticks_off()
    ax.set_xlabel("optimizer steps")
    ax.set_ylabel("log-likelihood of a cluster, nats")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(path, dpi=150)


def draw_generation(
    points: np.ndarray, labels: np.ndarray, found: Mapping[int, np.ndarray], path: Path
) -> None:
    """Write a picture of points (n, 2): the true partition, and the one found after each number of steps."""
    from matplotlib.figure import Figure

    panels = {"truth": labels} | {f"{step} steps": of_step for step, of_step in found.items()}
    figure = Figure(figsize=(2.3 * len(panels), 2.5), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    for ax, (title, of_panel) in zip(axes, panels.items(), strict=True):
        ClusterDisplay(points.astype(np.float64), of_panel).plot(ax)
        ax.set_title(f"{title}: {len(np.unique(of_panel))} clusters", fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
    figure.savefig(path, dpi=150)
