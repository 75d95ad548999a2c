"""The chosen partition is the answer, and everything that is said is said of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.clusterer.cluster import MAX_UNIFORM, uniform_share
from clusterwise.partition import canonical_labels


@pytest.mark.parametrize("n_rows", [8, 1_000, 4_000, 100_000])
def test_the_posterior_of_narrow_tables_is_the_judges_own(n_rows: int) -> None:
    assert uniform_share(n_rows, 16) == 0.0


def test_the_uniform_share_of_wide_tables_grows_with_the_rows() -> None:
    shares = [uniform_share(n_rows, 17) for n_rows in (8, 500, 1_000, 1_500, 2_000, 4_000, 100_000)]
    assert shares[0] == shares[2] == 0.0
    assert shares == sorted(shares)
    assert shares[2] < shares[3] < shares[4] < shares[-1] == MAX_UNIFORM < 1.0


def tables() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    overlapping = rng.standard_normal((400, 2)) + 2.2 * rng.standard_normal((6, 2))[rng.integers(6, size=400)]
    wide = rng.standard_normal((200, 30)) + 1.5 * rng.standard_normal((4, 30))[rng.integers(4, size=200)]
    return [make_moons(300, noise=0.15, random_state=1)[0], overlapping, wide, np.round(overlapping)]


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.ClusterwiseWarning")
@pytest.mark.parametrize("number", range(4))
def test_judged_rows_have_the_labels_that_were_chosen(number: int) -> None:
    X = tables()[number]
    est = cw.Clusterer(random_state=0).fit(X)
    chosen = est._chosen
    rows = est._rows.order[chosen.context.judged]
    np.testing.assert_array_equal(
        canonical_labels(est.labels_[np.sort(rows)]), canonical_labels(chosen.candidates[0][np.argsort(rows)])
    )
    np.testing.assert_array_equal(est.predict(X), est.labels_)
    np.testing.assert_array_equal(est.predict(X[::-1]), est.labels_[::-1])
    assert est.n_clusters_ == chosen.candidates[0].max() + 1
    np.testing.assert_array_equal(est.labels_at(est.n_clusters_), est.labels_)


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.ClusterwiseWarning")
def test_other_rows_go_with_those_that_were_judged() -> None:
    X, y = make_moons(3000, noise=0.06, random_state=0)
    est = cw.Clusterer(max_context=400, random_state=0).fit(X)
    assert len(est._chosen.context.judged) == 400
    assert adjusted_rand_score(y, est.labels_) > 0.95
    np.testing.assert_array_equal(est.predict(X), est.labels_)
