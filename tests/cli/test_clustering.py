"""``clusterwise cluster``: results, files, and everything that can be wrong with them."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

from clusterwise.datasets import read_table


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
    table = read_table("data.labels.csv")
    assert table.column_names == ("label", "probability", "outlier_score")
    labels = table.values[:, 0].astype(int)
    assert len(labels) == 60
    n_clusters = labels.max() + 1
    lines = result.stdout.splitlines()
    assert lines[0].startswith(f"{n_clusters} cluster")
    assert "in 60 rows (DAC, tiny, " in lines[0]
    sizes = [int(line.split()[1]) for line in lines[2 : 2 + n_clusters]]
    assert sizes == np.bincount(labels).tolist()
    assert f"mean confidence {table.values[:, 1].mean():.3f}" in lines
    assert lines[-1] == "labels: data.labels.csv"
    assert sorted(os.listdir(folder)) == ["data.csv", "data.labels.csv"]


def test_same_seed_same_labels_and_the_library_agrees(run, data, make_weights):
    import clusterwise as cw

    for out in ("a.npy", "b.npy"):
        run("cluster", data, "--columns", "x,y", *dac(make_weights), "--seed", 3, "--out", out)
    estimator = cw.DAC(weights=make_weights("dac"), random_state=3)
    np.testing.assert_array_equal(np.load("a.npy"), np.load("b.npy"))
    np.testing.assert_array_equal(
        np.load("a.npy"), estimator.fit_predict(read_table(data, ["x", "y"]).values)
    )


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
    labels = np.load("new/labels.npy") if ending == "npy" else read_table(f"new/labels.{ending}").values[:, 0]
    assert labels.shape == (20,)
    assert os.listdir("new") == [f"labels.{ending}"]


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
    assert "--method gaussian-search" in message
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


def test_text_column_is_named(run, data):
    message = only_error(run("cluster", data))
    assert message == "error: column 'name' holds text (row 0: 'nest 0'); leave it out with --columns."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.csv"], "there is no file nothing.csv"),
        (["data.xlsx"], "use one of .csv, .tsv, .parquet, .npy"),
        (["data.csv", "--columns", "x,z"], "there is no column 'z'; the file has 'x', 'y', 'name'"),
        (["data.csv", "--out", "labels.txt"], "use one of .csv, .tsv, .parquet, .npy"),
        (["data.csv", "--report", "report.pdf"], "must end in .html"),
        (["data.csv", "--columns", "x,y", "--weights", "nonesuch"], "There are no weights 'nonesuch'"),
        (["data.csv", "--columns", "x,y", "--weights", "data.csv"], "not a safetensors file"),
        (["data.csv", "--method", "kmeans"], "there is no method 'kmeans'; choose one of amcp, dac, act-st"),
    ],
)
def test_errors_are_one_line(run, data, folder, arguments, message):
    assert message in only_error(run("cluster", *arguments))
    assert os.listdir(folder) == ["data.csv"]


def test_missing_values_are_named(run, folder, make_weights):
    (folder / "holes.csv").write_text("x,y\n1,2\n3,\n5,6\n")
    message = only_error(run("cluster", "holes.csv", *dac(make_weights)))
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
    assert line.startswith("error: file: ")
    assert sorted(os.listdir(folder)) == ["data.csv", "file"]


def test_failed_report_leaves_the_labels_and_no_half_page(run, data, folder, make_weights, monkeypatch):
    from clusterwise.report import pictures

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pictures, "clusters_picture", interrupt)
    result = run("cluster", data, "--columns", "x,y", *dac(make_weights), "--report", "r.html")
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"
    assert sorted(os.listdir(folder)) == ["data.csv", "data.labels.csv"]
