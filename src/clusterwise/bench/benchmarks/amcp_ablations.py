"""Which choices in AMCP matter: section 4.3 and appendix C.2.3, on mixtures of both kinds.

Test sets of their own, so that what is read here cannot leak into the choice of defaults that `mog` and
`crp` judge.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clusterwise.bench.ablation_picture import draw_ablations
from clusterwise.bench.benchmarks import crp, mog
from clusterwise.bench.methods.amcp import ABLATIONS, BASE
from clusterwise.bench.methods.amortized import alone, with_search
from clusterwise.bench.registry import Benchmark, Case, register
from clusterwise.bench.synthetic import Word, case_of, generator_of
from clusterwise.priors.base import LabelledSet

__all__ = ["SETTINGS", "draw_case"]

SETTINGS: dict[str, Callable[[np.random.Generator], LabelledSet]] = {
    "mog (1000, 4)": lambda rng: mog.draw_mixture(rng, 1000, 4),
    "mog (3000, 12)": lambda rng: mog.draw_mixture(rng, 3000, 12),
    "crp (200, 4)": lambda rng: crp.draw_mixture(rng, 200, 4, "NCP's scale"),
    "crp (400, 6)": lambda rng: crp.draw_mixture(rng, 400, 6, "NCP's scale"),
}


def draw_case(setting: str, index: int) -> Case:
    """Draw test set ``index`` of a setting."""
    rng = generator_of(Word.ABLATIONS, list(SETTINGS).index(setting), index)
    return case_of(SETTINGS[setting](rng), index)


register(
    Benchmark(
        "amcp-ablations",
        "AMCP with one choice changed at a time",
        draw_case,
        tuple(SETTINGS),
        n_sets=100,
        quick_n_sets=10,
        methods=("oracle", alone("AMCP"), *ABLATIONS, with_search("AMCP")),
        time_reference=BASE,
        second_picture=draw_ablations,
    )
)
