"""``clusterwise cluster``: results, files, and everything that can be wrong with them."""

from __future__ import annotations

import html
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterwise.cli.clustering import default_output
from clusterwise.tables.readers import read_table


def dac(make_weights):
    """Options for a tiny network of DAC."""
    return ("--method", "dac", "--weights", make_weights("dac"))


def only_error(result) -> str:
    """Return the one line of a failed command."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def test_labels_and_summary(run, data, folder, make_weights):
    result = run("cluster", data, "--columns", "x,y", *dac(make_weights))
    assert result.exit_code == 0, result.output
    table = pd.read_csv("data.labels.csv")
    assert list(table.columns) == ["row", "label", "confidence", "outlier_score"]
    assert table["row"].tolist() == list(range(60))
    labels = table["label"].to_numpy()
    n_clusters = labels.max() + 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{n_clusters} cluster")
    assert "in 60 rows (DAC, tiny, " in lines[0]
    sizes = [int(line.split()[1]) for line in lines[2 : 2 + n_clusters]]
    assert sizes == np.bincount(labels).tolist()
    assert f"mean confidence {table['confidence'].mean():.3f}" in lines
    assert lines[-1] == "labels: data.labels.csv"
    assert sorted(os.listdir(folder)) == ["data.csv", "data.labels.csv"]


@pytest.mark.parametrize("raw", [True, False])
def test_same_seed_same_labels_and_the_library_agrees(run, data, make_weights, raw):
    import clusterwise as cw

    for out in ("a.npy", "b.npy"):
        options = [*dac(make_weights), "--seed", 3, "--out", out, *["--raw"] * raw]
        assert run("cluster", data, "--columns", "x,y", *options).exit_code == 0
    X = pd.read_csv(data)[["x", "y"]].to_numpy()
    X = X if raw else cw.TablePreparation().fit_transform(X)
    estimator = cw.DAC(weights=make_weights("dac"), random_state=3)
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    np.testing.assert_array_equal(np.load("a.npy"), estimator.fit_predict(X))


def test_the_default_method_weighs_columns_as_in_python(run, folder):
    """Four columns of numbers with three clusters, and three of categories with none."""
    import clusterwise as cw

    rng = np.random.default_rng(1)
    group = rng.integers(0, 3, 300)
    frame = pd.DataFrame(rng.normal(0, 2.2, (3, 4))[group] + rng.normal(size=(300, 4)), columns=list("abcd"))
    for name, n_levels in (("e", 2), ("f", 5), ("g", 6)):
        shares = rng.dirichlet(np.full(n_levels, 0.7))
        frame[name] = [f"level {i}" for i in rng.choice(n_levels, 300, p=shares)]
    expected = cw.Clusterer(random_state=0).fit_predict(frame)
    frame.to_csv("table.csv", index=False)
    os.mkdir("parts")
    frame.to_parquet("parts/0.parquet")
    for name in ("table.csv", "parts"):
        result = run("cluster", name, "--out", "labels.npy")
        assert result.exit_code == 0, result.output
        np.testing.assert_array_equal(np.load("labels.npy"), expected)
    assert adjusted_rand_score(group, expected) > 0.9


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_messy_table_gives_the_labels_of_the_data_frame(run, folder, ending):
    """Money, per cent, decimal commas and words for gaps mean the same, whoever has read them."""
    import clusterwise as cw

    rng = np.random.default_rng(2)
    group = rng.integers(0, 3, 240)
    money, share, weight = (
        rng.normal(0, 1, (3, 240)) + 8 * np.array([[1, 0, 2], [0, 2, 1], [2, 1, 0]])[:, group]
    )
    frame = pd.DataFrame(
        {
            "paid": [f"${1000 * x:,.2f}" for x in money],
            "share": [f"{x:.2f} %" if i % 20 else "n/a" for i, x in enumerate(share)],
            "weight": [f"{x:.3f}".replace(".", ",") for x in weight],
        }
    )
    if ending == "csv":
        frame.to_csv("t.csv", index=False, sep="|")
        read = pd.read_csv("t.csv", sep="|")
    else:
        pytest.importorskip("openpyxl")
        frame.to_excel("t.xlsx", index=False)
        read = pd.read_excel("t.xlsx")
    result = run("cluster", f"t.{ending}", "--out", "labels.npy")
    assert result.exit_code == 0, result.output
    np.testing.assert_array_equal(np.load("labels.npy"), cw.Clusterer(random_state=0).fit_predict(read))
    assert adjusted_rand_score(group, np.load("labels.npy")) == 1


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npy"])
def test_every_format_in_and_out(run, folder, make_weights, ending):
    points = np.random.default_rng(0).normal(size=(20, 2))
    frame = pd.DataFrame(points, columns=["a", "b"])
    source = folder / f"points.{ending}"
    if ending == "npy":
        np.save(source, points)
    elif ending == "parquet":
        frame.to_parquet(source)
    else:
        frame.to_csv(source, index=False, sep="\t" if ending == "tsv" else ";")
    result = run("cluster", source, *dac(make_weights), "--out", f"new/labels.{ending}")
    assert result.exit_code == 0, result.output
    path = folder / "new" / f"labels.{ending}"
    labels = np.load(path) if ending == "npy" else read_table(path).column("label").to_numpy()
    assert labels.shape == (20,)
    assert os.listdir("new") == [f"labels.{ending}"]


def test_columns_are_chosen_and_said(run, data):
    result = run("cluster", data)
    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert line == (
        "note: column 'name' is set aside: it has a different value in nearly every row, like an id; "
        "use it with --include name."
    )
    table = pd.read_csv("data.labels.csv")
    assert list(table.columns) == [
        "name",
        "label",
        "confidence",
        "outlier_score",
    ]  # what looks like an id is it
    assert table["name"].tolist() == [f"nest {i}" for i in range(60)]
    assert table["label"].tolist() == [0] * 30 + [1] * 30


def test_id_drop_include_and_append(run, folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"]).assign(
        day=pd.date_range("2024-01-01", periods=40), label=[f"old {i % 2}" for i in range(40)]
    )
    frame.to_csv("t.csv", index=False)
    result = run("cluster", "t.csv", "--id", "day", "--drop", "label,a", "--append", "--out", "u.csv")
    assert result.exit_code == 0, result.output
    table = pd.read_csv("u.csv")
    assert list(table.columns) == [*frame.columns, "cluster_label", "confidence", "outlier_score"]
    np.testing.assert_array_equal(table["a"], frame["a"])
    result = run("cluster", "t.csv", "--include", "day", "--dates", "cycle")
    assert "'day'" not in result.stderr
    assert run("cluster", "t.csv", "--id", "nobody").exit_code == 2


def test_results_never_replace_a_column(run, folder):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["label", "cluster_label"])
    frame.to_csv("t.csv", index=False)
    assert run("cluster", "t.csv", "--append", "--method", "gaussian-search").exit_code == 0
    table = pd.read_csv("t.labels.csv")
    assert list(table.columns) == [*frame.columns, "cluster_label (2)", "confidence", "outlier_score"]
    np.testing.assert_allclose(table[frame.columns], frame)


def test_names_with_commas_in_quotation_marks(run, folder):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["a, first", "b", "c"])
    frame.to_csv("t.csv", index=False)
    for columns in ('"a, first", b', "0,1"):
        result = run("cluster", "t.csv", "--columns", columns, "--report", "r.html", "--method", "dp-mixture")
        assert result.exit_code == 0, result.output
        assert "in use: a, first, b." in html.unescape((folder / "r.html").read_text())
    assert "'a', which is not a column" in only_error(run("cluster", "t.csv", "--columns", "a, first"))


def test_labels_of_the_working_folder(folder):
    assert default_output(Path()) == default_output(folder) == Path(f"{folder.name}.labels.csv")


def test_standard_input(folder):
    code = "from clusterwise.cli import main; main()"
    text = "a;b\n" + "\n".join(f"{x},5;{x % 3}" for x in range(30))
    done = subprocess.run(
        [sys.executable, "-c", code, "cluster", "-"], input=text, text=True, capture_output=True, check=True
    )
    assert "in 30 rows" in done.stdout
    assert os.listdir(folder) == ["labels.csv"]


def test_report_and_posterior_of_act_st(run, data, folder, make_weights):
    options = ["--columns", "0,1", "--method", "act-st", "--weights", make_weights("act-st")]
    result = run("cluster", data, *options, "--report", "r.html")
    assert result.exit_code == 0, result.output
    assert "probability of k: " in result.stdout
    assert result.stdout.splitlines()[-1] == "report: r.html"
    page = (folder / "r.html").read_text()
    assert "Clusters in data.csv" in page
    assert "mean x" in page


def test_projection_of_more_columns(run, folder, make_weights):
    np.save("wide.npy", np.random.default_rng(0).normal(size=(20, 6)))
    message = only_error(run("cluster", "wide.npy", *dac(make_weights)))
    assert "6 features" in message
    assert "take 2" in message
    assert "--columns" in message
    assert "--project pca" in message
    assert "--method clusterer" in message
    assert "projection=" not in message
    for scaling in ("joint", "feature"):
        options = [*dac(make_weights), "--project", "pca", "--scaling", scaling]
        assert run("cluster", "wide.npy", *options).exit_code == 0


def test_warnings_are_one_line_each_and_in_the_report(run, folder, make_weights):
    points = np.random.default_rng(0).normal(size=(300, 2))
    points[0] = 1e6
    np.save("far.npy", points)
    result = run("cluster", "far.npy", *dac(make_weights), "--report", "r.html")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: some rows lie ")
    assert "some rows lie " in (folder / "r.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv"], "there is no file nothing.csv"),
        (["data.doc"], "use one of .csv, .txt, .tsv"),
        (
            ["data.csv", "--columns", "x,z"],
            "--columns names 'z', which is not a column; there are 'x', 'y', 'name'",
        ),
        (["data.csv", "--drop", "z"], "--drop names 'z', which is not a column"),
        (["data.csv", "--id", "z"], "--id names 'z', which is not a column; there are 'x', 'y', 'name'"),
        (
            ["data.csv", "--columns", "name", "--raw"],
            "column 'name' holds no numbers; leave it out with --drop",
        ),
        (["data.csv", "--drop", "x,y"], "'name' has a different value in nearly every row"),
        (["data.csv", "--out", "labels.txt"], "written to one of .csv, .tsv, .parquet, .arrow, .npy"),
        (["data.csv", "--out", "labels.npy", "--append"], "choose another ending for --append"),
        (["data.csv", "--report", "report.pdf"], "must end in .html"),
        (["data.csv", "--columns", "x,y", "--weights", "nonesuch"], "There are no weights 'nonesuch'"),
        (["data.csv", "--columns", "x,y", "--weights", "data.csv"], "no safetensors file"),
        (["data.csv", "--columns", "x,y", "--weights", "node-judge"], "choose other weights"),
        (
            ["data.csv", "--method", "kmeans"],
            "there is no method 'kmeans'; choose one of clusterer, amcp, dac",
        ),
    ],
)
def test_errors_are_one_line(run, data, folder, arguments, message):
    assert message in only_error(run("cluster", *arguments))
    assert os.listdir(folder) == ["data.csv"]


def test_errors_speak_of_options(run, data):
    message = only_error(run("cluster", data, "--drop", "x,y"))
    assert message.endswith("; name those to use with --columns.")


def test_missing_values_are_filled_in_or_named(run, folder, make_weights):
    (folder / "holes.csv").write_text("x,y\n1,2.5\n3,\n5,6\n4,1\n")
    result = run("cluster", "holes.csv", *dac(make_weights))
    assert result.exit_code == 0
    assert "note: 1 missing value is filled in from the most similar rows." in result.stderr
    for method in (dac(make_weights), []):
        message = only_error(run("cluster", "holes.csv", *method, "--raw"))
        assert "NaN at row 1 column 1" in message


@pytest.mark.parametrize("name", ["data.csv", "./data.csv", "link.csv"])
def test_the_input_is_never_overwritten(run, data, folder, name):
    (folder / "link.csv").symlink_to(data)
    before = data.read_text()
    assert "would overwrite" in only_error(run("cluster", "data.csv", "--columns", "x,y", "--out", name))
    assert data.read_text() == before


def test_failed_write_leaves_nothing(run, data, folder, make_weights):
    (folder / "file").write_text("not a folder")
    result = run("cluster", data, "--columns", "x,y", *dac(make_weights), "--out", "file/labels.csv")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line == "error: file/labels.csv: file is not a folder; choose another place."
    assert sorted(os.listdir(folder)) == ["data.csv", "file"]


def test_failed_report_leaves_the_labels_and_no_half_page(run, data, folder, make_weights, monkeypatch):
    from clusterwise.report import page

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(page.ClusterDisplay, "from_estimator", interrupt)
    result = run("cluster", data, "--columns", "x,y", *dac(make_weights), "--report", "r.html")
    assert result.exit_code == 130
    assert result.stderr == "interrupted; run the same command again\n"
    assert sorted(os.listdir(folder)) == ["data.csv", "data.labels.csv"]
