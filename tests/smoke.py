"""What a new user does in a few minutes, for an environment with the wheel alone; run in an empty folder."""

from __future__ import annotations

import pickle
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import clusterwise as cw


def main() -> None:
    """Fit what can be fitted, predict, pickle, and write a report from the command line."""
    warnings.simplefilter("ignore")
    X, y = cw.datasets.load_demo()
    needs_torch = find_spec("torch") is None
    for name in cw.ESTIMATORS:
        try:
            estimator = getattr(cw, name)(random_state=0).fit(X[:300])
        except cw.exceptions.MissingDependencyError as error:
            assert needs_torch and "clusterwise[networks]" in str(error)
            print(name, "is not installed")
            continue
        again = pickle.loads(pickle.dumps(estimator))
        assert np.array_equal(again.predict(X[:300]), estimator.predict(X[:300])), name
        print(name, estimator.n_clusters_)
    assert cw.Clusterer(random_state=0).fit(X).n_clusters_ == len(np.unique(y))
    assert all(cw.pretrained.describe(name)["steps"] for name in cw.list_weights())
    assert "torch" not in sys.modules or not needs_torch
    np.savetxt("rows.csv", X[:300], delimiter=",", header="east,north", comments="")
    command = [sys.executable, "-m", "clusterwise", "cluster", "rows.csv", "--out", "labels.csv"]
    subprocess.run([*command, "--report", "report.html"], check=True)
    assert len(Path("labels.csv").read_text().splitlines()) == 301
    assert "<svg" in Path("report.html").read_text(encoding="utf-8")
    print(cw.__version__, Path(cw.__file__).parent)


if __name__ == "__main__":
    main()
