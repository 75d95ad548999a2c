"""Changes of a line that no test notices: ``python -m benchmarks.mutants [FILE ...] [--sample N]``.

One mutation at a time is made in a copy of the checkout, and the tests that mirror the file are run there. A
mutant survives if they pass: then no test depends on that line in that way.
"""

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("clusterer", "gaussian", "dp", "deepdpm", "papers", "fitting")
COPIED = ("src", "tests", "benchmarks", "recipes", "examples", "docs")
# The time that tests have, as a multiple of what they take without a mutation, and some seconds.
PATIENCE, SECONDS = 3.0, 20.0

# What is exchanged, both ways.
PAIRS: list[tuple[Any, Any]] = [
    (ast.Lt, ast.Gt), (ast.LtE, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn),
    (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr), (ast.And, ast.Or),
    ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("exp", "log"),
]  # fmt: skip
OTHER = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])} | {ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult}
WITHOUT = (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)
NUMERIC = ("float", "int", "ndarray", "Tensor")  # what a returned sign makes sense of


@dataclass(frozen=True)
class Mutant:
    """One change of one file: bytes ``start`` to ``end`` become ``text``."""

    file: str  # relative to the checkout
    line: int
    start: int
    end: int
    before: str
    text: str

    def applied(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def _changed(node: ast.AST) -> Iterator[ast.expr]:
    """Every expression that may stand in the place of this node."""
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                others = [*ops[:place], OTHER[type(op)](), *ops[place + 1 :]]
                yield ast.Compare(left, others, comparators)
        case ast.BinOp(left, op, right) if type(op) in OTHER:
            yield ast.BinOp(left, OTHER[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OTHER[type(op)](), values)
        case ast.UnaryOp(ast.USub() | ast.Not(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield ast.Constant(2 * value or 1.0)
        case ast.Name(name) if name in OTHER:
            yield ast.Name(OTHER[name])
        case ast.Attribute(value, name) if name in OTHER:
            yield ast.Attribute(value, OTHER[name])


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The children that hold code: no annotations, decorators, messages or imports."""
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            children = value if isinstance(value, list) else [value]
            yield from (one for one in children if isinstance(one, ast.AST) and not isinstance(one, WITHOUT))


def _expressions(node: ast.AST, numeric: bool = False) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Every (expression, what may stand in its place) below a node."""
    if isinstance(node, ast.FunctionDef):
        numeric = node.returns is not None and ast.unparse(node.returns).split(".")[-1] in NUMERIC
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.Return) and node.value is not None and numeric:
        yield node.value, ast.UnaryOp(ast.USub(), node.value)
    if isinstance(node, ast.expr):
        yield from ((node, changed) for changed in _changed(node))
    for child in _parts(node):
        yield from _expressions(child, numeric)


def mutants_of(source: bytes, file: str) -> list[Mutant]:
    """All mutants of a file, in the order of its lines."""
    starts = [0]  # of lines, in bytes, as the columns of the syntax tree are
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = {}
    for node, changed in _expressions(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        before = " ".join(source[start:end].decode().split())
        text = f"({ast.unparse(ast.fix_missing_locations(changed))})"
        found[start, end, text] = Mutant(file, node.lineno, start, end, before, text)
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.end))


def mirror_of(file: str, root: Path) -> list[str]:
    """The tests of a file: those of its name, else those of its room."""
    room, name = Path(file).parent.relative_to("src/clusterwise"), Path(file).stem
    folder = root / "tests" / room
    named = sorted(folder.glob(f"test_{name}.py")) or sorted(folder.glob(f"test_{name}_*.py")) or [folder]
    return [str(path.relative_to(root)) for path in named]


def callers_of(file: str, root: Path) -> set[Path]:
    """Files that import this one, directly or not: their machine code may hold some of its functions."""
    texts = {path: path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py")}
    found, new = set[Path](), {root / file}
    while new:
        found |= new
        words = "|".join(re.escape(path.stem) for path in new)
        imports = re.compile(rf"^\s*(from|import) .*\b({words})\b", re.MULTILINE)
        new = {path for path, text in texts.items() if imports.search(text)} - found
    return found


def _copy(source: Path, target: Path, copy: Callable[[str, str], object]) -> None:
    for name in COPIED:
        if (source / name).exists():
            shutil.copytree(source / name, target / name, copy_function=copy)
    shutil.copy2(source / "pyproject.toml", target)


def run_tests(root: Path, tests: Sequence[str], limit: float | None) -> str:
    """Run tests of the copy at ``root``: "passed", "failed" or "time-out"."""
    command = [sys.executable, "-m", "pytest", *tests, "-x", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    settings = {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    options: dict[str, Any] = {"cwd": root, "env": os.environ | settings, "start_new_session": True}
    nothing = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=nothing, stderr=nothing, **options) as process:
        try:
            return "failed" if process.wait(limit) else "passed"
        except subprocess.TimeoutExpired:
            return "time-out"
        finally:  # an interrupted run, too, leaves no process behind
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def outcome(mutant: Mutant, clean: Path, tests: Sequence[str], limit: float) -> str:
    """What the tests say of one mutant, in a copy of its own that shares unchanged files with ``clean``."""
    with tempfile.TemporaryDirectory(dir=clean.parent) as folder:
        root = Path(folder)
        _copy(clean, root, os.link)
        path = root / mutant.file
        source = path.read_bytes()
        path.unlink()  # the other copies keep theirs
        path.write_bytes(mutant.applied(source))
        if b"@compiled" in source:
            for caller in callers_of(mutant.file, root):
                for kept in (caller.parent / "__pycache__").glob(f"{caller.stem}.*.nb?"):
                    kept.unlink()
        return run_tests(root, tests, limit)


def run(files: Sequence[str], sample: int | None, seed: int, minutes: float, root: Path = ROOT) -> str:
    """Try mutants of some files in random order; return the report."""
    mutants = [mutant for file in files for mutant in mutants_of((root / file).read_bytes(), file)]
    random.Random(seed).shuffle(mutants)
    end, limits = time.monotonic() + 60 * minutes, dict[tuple[str, ...], float]()
    tried: list[tuple[Mutant, str]] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        clean = Path(folder) / "clean"
        _copy(root, clean, shutil.copy2)
        for mutant in mutants[:sample]:
            if time.monotonic() > end:
                break
            tests = tuple(mirror_of(mutant.file, clean))
            if tests not in limits:
                limits[tests] = _limit(clean, tests)
            if limits[tests] > 0:
                tried.append((mutant, outcome(mutant, clean, tests, limits[tests])))
                print(f"{tried[-1][1]:9}{mutant.file}:{mutant.line}", file=sys.stderr)
    failing = sorted({test for tests, limit in limits.items() if limit == 0 for test in tests})
    return report(tried, len(mutants), failing)


def _limit(clean: Path, tests: Sequence[str]) -> float:
    """Seconds that these tests may take; 0 if they fail as they are."""
    if run_tests(clean, tests, None) == "failed":  # compiles what is not yet compiled
        return 0.0
    started = time.monotonic()
    run_tests(clean, tests, None)
    return PATIENCE * (time.monotonic() - started) + SECONDS


def report(tried: Sequence[tuple[Mutant, str]], n_mutants: int, failing: Sequence[str] = ()) -> str:
    """How many mutants of each file survived, and which, as Markdown."""

    def row(cells: Sequence[object]) -> str:
        return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"

    survivors = sorted((one for one, said in tried if said == "passed"), key=lambda one: (one.file, one.line))
    lines = [f"{len(survivors)} of {len(tried)} mutants survived; {n_mutants} are possible.", ""]
    lines += [row(("file", "tried", "survived")), "|---|---|---|"]
    for file in sorted({mutant.file for mutant, _ in tried}):
        of_file = [said for mutant, said in tried if mutant.file == file]
        lines.append(row((file, len(of_file), of_file.count("passed"))))
    if survivors:
        lines += ["", row(("survivor", "line", "code", "mutant")), "|---|---|---|---|"]
        lines += [row((one.file, one.line, f"`{one.before}`", f"`{one.text}`")) for one in survivors]
    lines += (
        [f"\nNot tried, as their tests fail without any mutation: {', '.join(failing)}."] if failing else []
    )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"files or folders; else {', '.join(ROOMS)}")
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants at random, else all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), metavar="M", help="then no new one begins"
    )
    given = parser.parse_args(arguments)
    named = [Path(name) for name in given.files] or [ROOT / "src" / "clusterwise" / room for room in ROOMS]
    paths = [path for name in named for path in (sorted(name.rglob("*.py")) if name.is_dir() else [name])]
    files = [str(path.resolve().relative_to(ROOT)) for path in paths]
    print(run(files, given.sample, given.seed, given.minutes), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
