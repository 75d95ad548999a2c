"""The page: complete, self-contained, whole or not at all."""

from __future__ import annotations

import base64
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from clusterwise import Clusterer
from clusterwise.exceptions import HeavyTailsWarning, InvalidDataError, MissingDependencyError
from clusterwise.report import page, write_report


class Page(HTMLParser):
    """Collects the elements and the text of a page, and checks that elements are closed in order."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += " ".join(data.split()) + " "

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(estimator, X, tmp_path, **options) -> Page:
    write_report(estimator, X, tmp_path / "report.html", **options)
    return Page((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_page_is_complete_and_loads_nothing(make_fitted, tmp_path):
    estimator, X = make_fitted(3)
    html = page_of(estimator, X, tmp_path, title="Three heaps", seconds=1.25, warned=["one row is odd"])
    assert not html.of("script")
    assert not html.of("link")
    sources = [image["src"] for image in html.of("img")]
    assert len(sources) == 3  # points, confidences, steps; this method has no P(K)
    for source in sources:
        head, _, data = source.partition(",")
        assert head == "data:image/png;base64"
        assert base64.b64decode(data).startswith(b"\x89PNG")
    assert all(image["alt"] for image in html.of("img"))
    raw = (tmp_path / "report.html").read_text()
    assert "http://" not in raw
    assert "https://" not in raw
    parts = ("Three heaps", "rows 90", "method Known", "run time 1.25 s", "one row is odd", "3 passes")
    assert [part for part in parts if part not in html.text] == []
    assert "How many clusters" not in html.text


def test_posterior_over_k_is_shown_where_there_is_one(make_fitted, tmp_path):
    estimator, X = make_fitted(3)
    estimator.k_posterior_ = {2: 0.2, 3: 0.8}
    estimator.steps_ = ()
    html = page_of(estimator, X, tmp_path)
    assert "How many clusters" in html.text
    assert "How they were found" not in html.text


def test_clusters_are_described_in_the_columns_of_the_table(make_fitted, tmp_path):
    estimator, X = make_fitted(3)
    table = pd.DataFrame({"age": 40 + X[:, 1], "town": np.where(estimator.labels_ == 1, "Oslo", "Bergen")})
    table.loc[3, "age"] = None
    options = {"table": table, "notes": ["in use: age, town.", "column 'id' is set aside"]}
    html = page_of(estimator, X, tmp_path, row_names=[f"nest {i}" for i in range(len(X))], **options)
    for part in ("What distinguishes them", "town = Oslo", "100 %", "mean age", "in use: age, town."):
        assert part in html.text, part
    assert html.of("rect")
    assert "columns 2" in html.text
    with pytest.raises(InvalidDataError, match="table has 5 rows"):
        write_report(estimator, X, tmp_path / "report.html", table=table[:5])


def test_misfits_are_shown_without_being_passed(make_fitted, tmp_path):
    estimator, X = make_fitted(2)
    estimator.misfits_ = [HeavyTailsWarning(share=0.1, expected=1e-3)]
    assert page_of(estimator, X, tmp_path, warned=["one row is odd"]).text.count("their tails are heavy") == 1
    passed = page_of(estimator, X, tmp_path, warned=estimator.misfits_)
    assert passed.text.count("their tails are heavy") == 1


def test_known_classes_are_compared(make_fitted, tmp_path):
    estimator, X = make_fitted(3)
    html = page_of(estimator, X, tmp_path, y=estimator.labels_)
    assert "Adjusted Rand index 1.000" in html.text
    assert "100.0 % of the rows are correct" in html.text


def test_names_and_warnings_cannot_break_out(make_fitted, tmp_path):
    estimator, X = make_fitted(2)
    attack = "<script>alert('x')</script>"
    html = page_of(estimator, X, tmp_path, title=attack, column_names=[attack, "b"], warned=[attack])
    assert not html.of("script")
    assert html.text.count("alert('x')") > 3


@pytest.mark.filterwarnings("error")
def test_names_in_letters_that_the_font_of_pictures_lacks(make_fitted, tmp_path):
    estimator, X = make_fitted(2)
    assert "温度" in page_of(estimator, X, tmp_path, column_names=["温度", "b"]).text


def test_one_cluster_one_row_many_clusters_many_columns(make_fitted, tmp_path):
    estimator, X = make_fitted(1)
    assert "No row has an outlier score" in page_of(estimator, X, tmp_path).text
    single = estimator.fit(X[:1])
    assert "row 1 " in page_of(single, X[:1], tmp_path).text
    estimator, X = make_fitted(13, n_features=11)
    html = page_of(estimator, X, tmp_path)
    assert "5 more columns are not shown" in html.text
    assert "first two principal components" in html.text


def test_names_come_from_the_data_frame(make_fitted, tmp_path):
    estimator, X = make_fitted(2)
    assert "mean height" in page_of(estimator, pd.DataFrame(X, columns=["height", "age"]), tmp_path).text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column_names": ["a"]}, "1 column names for 2 columns"),
        ({"y": [0, 1]}, "one class for each of the 60 rows"),
    ],
)
def test_bad_options(make_fitted, tmp_path, options, message):
    estimator, X = make_fitted(2)
    with pytest.raises(InvalidDataError, match=message):
        write_report(estimator, X, tmp_path / "report.html", **options)
    assert list(tmp_path.iterdir()) == []


def test_failure_leaves_the_old_page(make_fitted, tmp_path, monkeypatch):
    estimator, X = make_fitted(2)
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_, **__):
        raise RuntimeError("no picture")

    monkeypatch.setattr(page.StepsDisplay, "from_estimator", fail)
    with pytest.raises(RuntimeError):
        write_report(estimator, X, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_jinja2_the_extra_is_named(make_fitted, tmp_path, monkeypatch):
    estimator, X = make_fitted(2)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'clusterwise\[report\]'"):
        write_report(estimator, X, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def drawn(monkeypatch):
    """Points and names of axes of the first picture of each page; the picture stays empty."""
    found = []

    def keep(estimator, points, ax, column_names):
        found.append((points, column_names))

    monkeypatch.setattr(page.ClusterDisplay, "from_estimator", keep)
    return found


@pytest.mark.filterwarnings("ignore::clusterwise.exceptions.MisfitWarning")
def test_axes_are_in_the_units_of_their_names(tmp_path, drawn):
    rng = np.random.default_rng(0)
    prices = np.concatenate([rng.normal(10, 1, 150), rng.normal(30, 1, 150)])
    frame = pd.DataFrame({"price": prices})
    page_of(Clusterer(random_state=0).fit(frame), frame, tmp_path)
    frame["kind"] = np.where(rng.random(300) < 0.5, "a", "b")
    page_of(Clusterer(random_state=0).fit(frame), frame, tmp_path)
    (points, names), (_, scaled) = drawn
    assert names == ["price"]
    np.testing.assert_array_equal(points[:, 0], prices)
    assert all(name.endswith("(scaled)") for name in scaled)


def test_columns_that_were_clustered_as_they_are_keep_their_names(make_fitted, tmp_path, drawn):
    estimator, X = make_fitted(2)  # Gaussian clusters, with ellipses
    page_of(estimator, X, tmp_path, table=pd.DataFrame(X, columns=["a", "b"]))
    page_of(estimator, X, tmp_path, table=pd.DataFrame(1 + 2 * X, columns=["a", "b"]))
    assert [names for _, names in drawn] == [["a", "b"], ["feature 0 (scaled)", "feature 1 (scaled)"]]


def test_a_cluster_without_values_has_no_mean(make_fitted, tmp_path):
    estimator, X = make_fitted(2)
    frame = pd.DataFrame(X.copy(), columns=["a", "b"])
    frame.loc[np.asarray(estimator.labels_) == 1, "b"] = np.nan
    html = page_of(estimator, X, tmp_path, table=frame)
    assert "–" in html.text


def test_the_page_says_how_to_label_new_rows(make_fitted, tmp_path):
    estimator, X = make_fitted(2)
    call = " ".join(repr(estimator).split())
    assert f"estimator = cw.{call}" in page_of(estimator, X, tmp_path).text
