"""The judge: methods side by side on the same data sets, with time, memory and the oracle's figures.

``run_benchmark`` is the door. A file in ``methods/`` adds a method to every benchmark, a file in
``benchmarks/`` adds a benchmark, a file in ``studies/`` a study with a shape of its own.
"""

from clusterwise.bench.judge import benchmark_names, run_benchmark
from clusterwise.bench.registry import (
    Benchmark,
    BenchmarkError,
    Case,
    Method,
    Metric,
    Outcome,
    Study,
    Truth,
    register,
)

__all__ = [
    "Benchmark",
    "BenchmarkError",
    "Case",
    "Method",
    "Metric",
    "Outcome",
    "Study",
    "Truth",
    "benchmark_names",
    "register",
    "run_benchmark",
]
