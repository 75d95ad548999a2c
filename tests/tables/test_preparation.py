"""The transformer as a whole: units, kinds of columns, gaps, containers, new rows."""

from __future__ import annotations

import datetime
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

import clusterwise as cw
from clusterwise.exceptions import ClusterwiseError, FeatureCountError, InvalidDataError
from clusterwise.tables import TablePreparation
from clusterwise.tables.columns import read_columns
from clusterwise.tables.encoding import fit_encodings


def mixed_columns(n: int = 200, seed: int = 0) -> dict[str, list[Any]]:
    """Columns of all kinds, as plain lists."""
    rng = np.random.default_rng(seed)
    start = datetime.datetime(2021, 1, 1)
    return {
        "customer_id": list(range(1000, 1000 + n)),
        "height": rng.normal(170, 10, n).tolist(),
        "income": rng.lognormal(10, 1, n).tolist(),
        "region": rng.choice(["north", "south", "east"], n).tolist(),
        "member": (rng.random(n) < 0.4).tolist(),
        "since": [start + datetime.timedelta(days=int(day)) for day in rng.integers(0, 900, n)],
        "remark": [f"order {i} came rather late" for i in range(n)],
        "country": ["nl"] * n,
    }


def all_numeric(n: int = 300) -> np.ndarray:
    """Different shapes: Gaussian, lognormal, exponential, Likert, binary, with gaps in two of them."""
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [
            rng.normal(3, 2, n),
            rng.lognormal(0, 1, n),
            rng.exponential(1, n),
            rng.integers(1, 6, n),
            rng.integers(0, 2, n),
            rng.normal(-50, 1, n),
        ]
    )
    X[rng.random(n) < 0.05, 0] = np.nan
    X[rng.random(n) < 0.05, 3] = np.nan
    return X


# -- units, order, rows by themselves --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_units_never_matter(seed: int) -> None:
    X = all_numeric()
    powers = 10.0 ** np.random.default_rng(seed).integers(-6, 7, X.shape[1])
    expected = TablePreparation().fit_transform(X)
    np.testing.assert_allclose(TablePreparation().fit_transform(X * powers), expected, atol=1e-6)


def test_a_shift_changes_nothing_where_there_is_no_curve() -> None:
    X = np.random.default_rng(0).normal(size=(100, 3))
    moved = TablePreparation().fit_transform(X + [1000.0, -5.0, 0.0])
    np.testing.assert_allclose(moved, TablePreparation().fit_transform(X), atol=1e-9)


def test_order_of_rows_does_not_matter() -> None:
    X = all_numeric()
    order = np.random.default_rng(1).permutation(len(X))
    shuffled = TablePreparation().fit_transform(X[order])
    np.testing.assert_allclose(shuffled, TablePreparation().fit_transform(X)[order], atol=1e-6)


def test_each_row_is_treated_by_itself() -> None:
    X = all_numeric()
    preparation = TablePreparation()
    fitted = preparation.fit_transform(X)
    np.testing.assert_array_equal(preparation.transform(X), fitted)
    np.testing.assert_array_equal(preparation.transform(X[17:30]), fitted[17:30])


def test_equal_rows_stay_equal() -> None:
    X = np.repeat(all_numeric(40), 5, axis=0)
    features = TablePreparation().fit_transform(X)
    np.testing.assert_array_equal(features[::5], features[4::5])


def test_scales_are_robust() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 2))
    spoiled = X.copy()
    spoiled[:20, 0] = 1e9
    clean, dirty = TablePreparation().fit_transform(X), TablePreparation().fit_transform(spoiled)
    ratio = np.median(np.abs(dirty[20:, 0])) / np.median(np.abs(clean[20:, 0]))
    assert 0.9 < ratio < 1.1


# -- kinds of columns -----------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_data_frames(library: str) -> None:
    module = pytest.importorskip(library)
    columns = mixed_columns()
    frame = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    preparation = TablePreparation()
    features = preparation.fit_transform(frame)
    assert preparation.used_ == ["height", "income", "region", "member"]
    assert preparation.set_aside_ == {
        "customer_id": "numbers the rows, like an id",
        "since": "holds dates",
        "remark": "holds free text",
        "country": "has the same value in every row",
    }
    names = ["height", "income", "region=east", "region=north", "region=south", "member"]
    assert sorted(preparation.get_feature_names_out()) == sorted(names)
    np.testing.assert_array_equal(preparation.feature_names_in_, list(columns))
    expected = TablePreparation().fit_transform(pd.DataFrame(columns))
    np.testing.assert_allclose(features, expected, atol=1e-9)
    np.testing.assert_array_equal(preparation.transform(frame), features)


def test_declared_categories_dates_and_gaps_of_each_library() -> None:
    polars, arrow = map(pytest.importorskip, ("polars", "pyarrow"))
    words = ["a", "b", None, "c"] * 20
    days = [datetime.date(2020, 1, 1), None, datetime.date(2020, 6, 1), datetime.date(2021, 1, 1)] * 20
    flags = [True, None, False, False] * 20
    frames = [
        pd.DataFrame(
            {
                "w": pd.Categorical(words),
                "d": pd.to_datetime(pd.Series(days)),
                "f": pd.array(flags, dtype="boolean"),
            }
        ),
        polars.DataFrame({"w": polars.Series(words, dtype=polars.Categorical), "d": days, "f": flags}),
        arrow.table({"w": arrow.array(words).dictionary_encode(), "d": days, "f": flags}),
    ]
    results = [TablePreparation(include=["d"]).fit_transform(frame) for frame in frames]
    assert results[0].shape == (80, 5)
    for result in results:
        assert np.isfinite(result).all()
        np.testing.assert_allclose(result, results[0], atol=1e-9)


def test_object_columns_are_read_by_their_values() -> None:
    rows = [["1.5", "x", 3, "2024-01-01"], ["2.5", "y", 4, "2024-02-01"], [None, "x", 9, ""]] * 10
    preparation = TablePreparation().fit(rows)
    assert preparation.used_ == ["x0", "x1", "x2"]
    assert preparation.set_aside_ == {"x3": "holds dates"}


def test_a_few_words_among_numbers_are_gaps() -> None:
    frame = pd.DataFrame(mixed_columns())
    cells = [f"{x:.3f}" for x in np.random.default_rng(0).normal(size=len(frame))]
    frame["income"] = [*cells[:-2], "unknown", "> 90"]
    preparation = TablePreparation().fit(frame)
    assert "income" in preparation.used_
    n = len(frame)
    assert (
        f"words in column 'income' count as missing values: 2 cells (row {n - 2}: 'unknown')."
        in preparation.notes_
    )
    frame["income"] = [cell if row % 5 else "unknown" for row, cell in enumerate(cells)]
    preparation = TablePreparation().fit(frame)
    assert "different words" in preparation.set_aside_["income"]
    (note,) = [note for note in preparation.notes_ if "'income'" in note]
    assert note.endswith("most of them numbers; to use these, empty the cells like 'unknown'.")


def test_structured_arrays_have_named_columns() -> None:
    X = np.array([(1.0, 2), (2.0, 5), (4.0, 3)], dtype=[("a", float), ("b", int)])
    assert TablePreparation().fit(X).used_ == ["a", "b"]


def test_masked_values_are_gaps() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    masked = np.ma.masked_array(X, mask=np.zeros_like(X, dtype=bool))
    masked[4, 1] = np.ma.masked
    X[4, 1] = np.nan
    of_gaps = TablePreparation().fit_transform(X)
    np.testing.assert_array_equal(TablePreparation().fit_transform(masked), of_gaps)


def test_a_category_weighs_like_a_number() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=3000),
            "two": rng.choice(["a", "b"], 3000, p=[0.9, 0.1]),
            "five": rng.choice(list("abcde"), 3000),
            "thirty": rng.choice([f"level {i}" for i in range(30)], 3000),
        }
    )
    preparation = TablePreparation()
    features = preparation.fit_transform(frame)
    of_column = [str(name).partition("=")[0] for name in preparation.get_feature_names_out()]
    for column in frame.columns:
        weight = features[:, [name == column for name in of_column]].var(axis=0).sum()
        assert weight == pytest.approx(1, abs=0.1), column


def test_columns_without_clusters_look_like_one_cloud() -> None:
    """Skew, few values and categories alone make no clusters."""
    rng = np.random.default_rng(5)
    n = 1000
    tables = {
        "lognormal": rng.lognormal(size=(n, 2)),
        "exponential": rng.exponential(size=(n, 2)),
        "likert": np.clip(np.round(3 + rng.normal(size=(n, 4))), 1, 5),
        "flags": np.column_stack([rng.normal(size=(n, 3)), rng.random((n, 2)) < [0.5, 0.1]]),
    }
    found = {
        name: cw.GaussianSearch(random_state=0).fit(TablePreparation().fit_transform(X)).n_clusters_
        for name, X in tables.items()
    }
    assert found == dict.fromkeys(tables, 1)


@pytest.mark.parametrize("library", ["pandas", "pyarrow"])
def test_dates_with_a_time_zone_are_those_of_the_place(library: str) -> None:
    frames = pytest.importorskip(library)
    make = frames.DataFrame if library == "pandas" else frames.Table.from_pandas
    there = pd.Series(pd.date_range("2024-03-30 22:30", periods=40, freq="h", tz="Europe/Berlin"))
    there[3] = pd.NaT
    as_read = [
        read_columns(make(pd.DataFrame({"d": dates}))).columns[0]
        for dates in (there, there.dt.tz_localize(None))
    ]
    assert [column.kind for column in as_read] == ["date", "date"]
    np.testing.assert_array_equal(as_read[0].values, as_read[1].values)
    assert np.isnan(as_read[0].values).sum() == 1


def test_dates_as_numbers_and_cycles() -> None:
    days = pd.date_range("2020-01-01", periods=365 * 4, freq="D")
    frame = pd.DataFrame({"day": days, "value": np.random.default_rng(0).normal(size=len(days))})
    number = TablePreparation(include=["day"]).fit_transform(frame)
    assert (np.diff(number[:, 0]) > 0).all()
    preparation = TablePreparation(include=["day"], dates="cycle")
    cycles = preparation.fit_transform(frame)
    assert cycles.shape == (len(days), 5)
    assert "day, sine of day of week" in preparation.get_feature_names_out()
    np.testing.assert_allclose(cycles[:-7, :2], cycles[7:, :2], atol=1e-9)  # a week later
    assert cycles[:, :4].var(axis=0).sum() == pytest.approx(1, abs=0.01)


# -- choosing columns ------------------------------------------------------------------------------


def test_columns_drop_and_include() -> None:
    frame = pd.DataFrame(mixed_columns())
    assert TablePreparation(drop=["income"]).fit(frame).used_ == ["height", "region", "member"]
    assert "customer_id" in TablePreparation(include=["customer_id"]).fit(frame).used_
    only = TablePreparation(columns=["since", "height"]).fit(frame)
    assert only.used_ == ["since", "height"]
    assert only.notes_ == []
    with pytest.raises(InvalidDataError, match="drop names 'weight', which is not a column; there are"):
        TablePreparation(drop=["weight"]).fit(frame)


def test_notes_say_how_to_force_a_column_in() -> None:
    frame = pd.DataFrame(mixed_columns())
    preparation = TablePreparation().fit(frame)
    assert "column 'since' is set aside: it holds dates; use it with include=['since']." in preparation.notes_
    assert "column 'country' is set aside: it has the same value in every row." in preparation.notes_


@pytest.mark.parametrize(
    ("name", "values", "is_id"),
    [
        ("id", [7 * i for i in range(50)], True),
        ("orderId", [7 * i for i in range(50)], True),
        ("weight", [7 * i for i in range(50)], False),  # distinct whole numbers may be measurements
        ("weight", list(range(50)), True),
        ("id", [1.5 * i for i in range(50)], False),
        ("code", [f"c{i}" for i in range(50)], True),
        ("paid", [i % 7 for i in range(50)], False),
    ],
)
def test_ids(name: str, values: list[Any], is_id: bool) -> None:
    frame = pd.DataFrame({name: values, "x": np.random.default_rng(0).normal(size=len(values))})
    assert (name in TablePreparation().fit(frame).set_aside_) == is_id


def test_nothing_left_names_the_reasons() -> None:
    frame = pd.DataFrame({"id": range(30), "c": ["x"] * 30})
    reasons = r"no column is left to cluster by: 'id' numbers.*, 'c' has the same.*columns="
    with pytest.raises(InvalidDataError, match=reasons):
        TablePreparation().fit(frame)


def test_texts_alone_have_a_remedy_of_their_own() -> None:
    texts = [f"the {i} brown foxes jump over {i * i} lazy dogs" for i in range(40)]
    frame = pd.DataFrame({"text": texts})
    with pytest.raises(InvalidDataError, match=r"free text.*TF-IDF"):
        TablePreparation().fit(frame)


def test_a_constant_table_is_one_constant() -> None:
    np.testing.assert_array_equal(TablePreparation().fit_transform(np.full((5, 2), 7.0)), np.zeros((5, 1)))


# -- gaps -----------------------------------------------------------------------------------------


def test_gaps_are_filled_in_by_neighbours() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    X = rng.normal(size=(400, 4)) + 8 * y[:, None]
    holed = X.copy()
    gaps = rng.random(400) < 0.2
    holed[gaps, 2] = np.nan
    preparation = TablePreparation()
    filled = preparation.fit_transform(holed)[:, 2]
    between = (filled[~gaps & (y == 0)].mean() + filled[~gaps & (y == 1)].mean()) / 2
    assert ((filled[gaps] > between) == (y[gaps] == 1)).all()
    assert f"{gaps.sum()} missing values are filled in from the most similar rows." in preparation.notes_


def test_many_rows_are_filled_in_from_some() -> None:
    X = all_numeric(3000)
    preparation = TablePreparation()
    features = preparation.fit_transform(X)
    assert np.isfinite(features).all()
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_allclose(TablePreparation().fit_transform(X[order]), features[order], atol=1e-6)


def test_rows_and_columns_that_lack_much_are_named() -> None:
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[7, :3] = np.nan
    X[:50, 3] = np.nan
    preparation = TablePreparation().fit(X)
    assert preparation.set_aside_ == {"x3": "is empty in 83 % of the rows"}
    assert preparation.rows_lacking_much_.tolist() == [7]
    assert any("1 row without a value in more than half of the columns (7)" in n for n in preparation.notes_)


def test_gaps_in_new_rows_only() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    new = X[:2].copy()
    new[0, 1] = np.nan
    features = TablePreparation().fit(X).transform(new)
    assert np.isfinite(features).all()
    assert features[0, 1] == 0


# -- many columns ----------------------------------------------------------------------------------


def test_redundant_columns_share_one_weight() -> None:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 500))
    X = np.column_stack([x, 3 * x + 0.01 * rng.normal(size=500), -x + 0.01 * rng.normal(size=500), z])
    preparation = TablePreparation()
    features = preparation.fit_transform(X)
    np.testing.assert_allclose(features.var(axis=0), [1 / 3, 1 / 3, 1 / 3, 1], rtol=0.15)
    assert "columns that say the same as another count less: 'x0', 'x1', 'x2'." in preparation.notes_


def test_sparse_matrices_become_singular_vectors() -> None:
    rng = np.random.default_rng(0)
    topics = rng.integers(0, 2, 200)
    dense = (rng.random((200, 300)) < 0.1) * (np.arange(300) // 150 == topics[:, None])
    X = scipy.sparse.csr_array(dense.astype(float))
    preparation = TablePreparation(n_components=5)
    features = preparation.fit_transform(X)
    assert features.shape == (200, 5)
    assert preparation.get_feature_names_out()[0] == "component0"
    np.testing.assert_allclose(preparation.transform(X[:7]), features[:7], atol=1e-9)
    kmeans = pytest.importorskip("sklearn.cluster").KMeans(2, random_state=0, n_init=5).fit(features)
    assert (kmeans.labels_ == topics).mean() in (0.0, 1.0)
    with pytest.raises(FeatureCountError, match="X has 299 features"):
        preparation.transform(X[:, :299])


def test_embeddings_are_normalized_and_reduced() -> None:
    rng = np.random.default_rng(0)
    X = normalize(rng.normal(size=(6, 128))[rng.integers(0, 6, 500)] + 0.3 * rng.normal(size=(500, 128)))
    preparation = TablePreparation()
    features = preparation.fit_transform(X)
    assert features.shape == (500, 20)
    assert "look like an embedding" in preparation.notes_[0]
    np.testing.assert_allclose(preparation.transform(X[:9]), features[:9], atol=1e-9)
    np.testing.assert_allclose(preparation.transform(3 * X[:9]), features[:9], atol=1e-9)


def test_wide_tables_in_different_units_are_scaled_and_projected() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 60)) * 10.0 ** rng.integers(-3, 4, 60)
    preparation = TablePreparation(max_features=10)
    assert preparation.fit_transform(X).shape == (300, 10)
    assert preparation.notes_ == ["60 features are projected onto 10 principal components."]


# -- new rows that do not fit ----------------------------------------------------------------------


def test_new_frames_are_matched_by_name() -> None:
    frame = pd.DataFrame(mixed_columns())
    preparation = TablePreparation().fit(frame)
    expected = preparation.transform(frame)
    np.testing.assert_array_equal(preparation.transform(frame[frame.columns[::-1]]), expected)
    np.testing.assert_array_equal(preparation.transform(frame[preparation.used_]), expected)
    with pytest.raises(InvalidDataError, match="no column 'income', which fit used"):
        preparation.transform(frame.drop(columns="income"))
    with pytest.raises(InvalidDataError, match=r"'height' of X contains text .row 0: 'tall'. where fit saw"):
        preparation.transform(frame.assign(height="tall"))
    with pytest.raises(FeatureCountError, match="X has 2 features, but TablePreparation is expecting 8"):
        preparation.transform(np.zeros((3, 2)))


def test_new_categories_are_gaps() -> None:
    frame = pd.DataFrame(mixed_columns())
    preparation = TablePreparation().fit(frame)
    assert np.isfinite(preparation.transform(frame.assign(region="moon"))).all()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("customers.csv", "X is the name of a file .'customers.csv'.; read it first"),
        ({"a": [1, 2]}, "X is a dict; make a data frame of it first"),
        (np.zeros(4), "Expected 2D array, got 1D array"),
        ([[1, 2], [3]], "rows of X differ in length"),
        (np.ones((3, 2)) * 1j, "Complex data not supported"),
        (np.zeros((0, 2)), r"0 sample\(s\)"),
        ([[1.0, 2.0], [np.inf, 3.0], [0.0, 1.0]], "infinity at row 1 column 0"),
        (np.array([["2020-01-01"], ["2020-01-05"]], dtype="datetime64[D]"), "'x0' holds dates"),
    ],
)
def test_what_is_no_table(X: Any, message: str) -> None:
    with pytest.raises(ClusterwiseError, match=message):
        TablePreparation().fit(X)


def test_lazy_frames_are_to_be_collected() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(InvalidDataError, match=r"lazy frame.*X\.collect\(\)"):
        TablePreparation().fit(polars.LazyFrame({"a": [1.0, 2.0]}))


# -- scikit-learn -----------------------------------------------------------------------------------


def test_in_a_pipeline_with_names() -> None:
    frame = pd.DataFrame(mixed_columns())
    pipeline = make_pipeline(TablePreparation(), cw.GaussianSearch(random_state=0)).fit(frame)
    assert pipeline.predict(frame).shape == (200,)
    features = TablePreparation().set_output(transform="pandas").fit_transform(frame)
    assert list(features.columns) == list(TablePreparation().fit(frame).get_feature_names_out())
    assert clone(TablePreparation(drop=["a"])).drop == ["a"]


def test_arrays_need_no_data_frame_library() -> None:
    code = """
import sys

class NotInstalled:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("pandas", "polars", "pyarrow"):
            raise ImportError(name)

sys.meta_path.insert(0, NotInstalled())
import numpy as np, clusterwise as cw
X = np.random.default_rng(0).normal(size=(50, 3))
X[3, 1] = np.nan
assert cw.TablePreparation().fit_transform(X).shape == (50, 3)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_components_are_taken_as_they_are() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((300, 12)) @ rng.standard_normal((12, 12))
    components = PCA(6).fit_transform(rows)
    frame = pd.DataFrame(components, columns=[f"PC{i + 1}" for i in range(6)])
    preparation = TablePreparation()
    np.testing.assert_array_equal(preparation.fit_transform(frame), components)
    np.testing.assert_array_equal(preparation.transform(frame[::-1]), components[::-1])
    assert list(preparation.get_feature_names_out()) == list(frame.columns)
    assert any("principal components" in note for note in preparation.notes_)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_survey_answers_keep_what_they_have_in_common(share: float) -> None:
    rng, truth = np.random.default_rng(1), np.arange(900) % 3
    answers = {f"q{j}": np.array(list("abc"))[(truth + j) % 3] for j in range(8)}
    for column in answers.values():
        column[:] = np.where(rng.random(900) < share, rng.choice(list("abc"), 900), column)
    features = TablePreparation().fit_transform(pd.DataFrame(answers))
    if share:  # each column weighs like one number; those that say the same count less
        np.testing.assert_allclose(features.var(axis=0).sum(), 8, rtol=0.1)
    found = KMeans(3, n_init=3, random_state=0).fit_predict(features)
    assert adjusted_rand_score(truth, found) > 0.95


def test_the_noise_of_two_columns_is_shared_by_many() -> None:
    words = np.array(["no", "yes"])[np.random.default_rng(0).integers(0, 2, 400)]
    column = read_columns(pd.DataFrame({"answer": words})).columns[0]
    (alone,), several = fit_encodings([column], "number"), fit_encodings([column] * 4, "number")
    assert [one.noise for one in several] == [alone.noise / 2] * 4  # type: ignore[union-attr]
    numbers = read_columns(pd.DataFrame({"score": np.arange(400) % 5})).columns[0]
    for encoding in fit_encodings([numbers] * 3, "number"):
        noise = np.random.default_rng(1).standard_normal((400, 1))
        assert encoding.finish(encoding.clean(numbers), noise).var() == pytest.approx(1, rel=0.1)
