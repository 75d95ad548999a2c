"""``python -m benchmarks NAME ... [--quick] [--sets N] [--out DIR] [--methods A;B] [--redo] [--stale]``."""

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.runner import run_suite
from benchmarks.status import status
from benchmarks.suite import suite_names
from clusterwise.exceptions import ClusterwiseError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run suites one after the other; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure our estimators and their peers; repeat an interrupted run to continue it.",
        epilog=f"Suites: {', '.join(suite_names())}.",
    )
    parser.add_argument("names", metavar="NAME", nargs="+", help="which suites; 'all', or 'status'")
    parser.add_argument("--quick", action="store_true", help="few and small data sets; files NAME.quick.*")
    parser.add_argument("--sets", type=int, metavar="N", help="at most N data sets of each kind")
    results = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=results, metavar="DIR", help="where results go")
    parser.add_argument("--methods", metavar="A;B", help="measure only these; names with semicolons between")
    parser.add_argument("--redo", action="store_true", help="measure methods again that have rows already")
    parser.add_argument("--stale", action="store_true", help="measure rows again that are of other code")
    parser.add_argument("--here", action="store_true", help="run methods in this process, for a debugger")
    given = parser.parse_args(arguments)
    chosen = None if given.methods is None else [name.strip() for name in given.methods.split(";")]
    options = {"sets": given.sets, "redo": given.redo, "stale": given.stale, "here": given.here}
    if given.names == ["status"]:
        print(status(given.out))
        return 0
    code = 0
    for name in suite_names() if given.names == ["all"] else given.names:
        try:
            run_suite(name, given.out, given.quick, chosen, partial(print, flush=True), **options)
        except ClusterwiseError as error:  # such as data that are not there: the next suite may have its own
            print(f"error: {error}", file=sys.stderr)
            code = 1
        except KeyboardInterrupt:
            print("interrupted; the same command goes on from here", file=sys.stderr)
            return 130
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that methods' processes are ended, too
    sys.exit(main())
