"""Training on labelled rows: tasks that the step decides, bad labels, weights that repeat."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.metrics import adjusted_rand_score

import clusterwise as cw
from clusterwise.exceptions import (
    ClusterwiseError,
    FewClassesWarning,
    InvalidDataError,
    RecipeError,
    WeightsFileError,
)
from clusterwise.nn.feature_encoder import EncoderConfig
from clusterwise.pretrained.weights_file import load_weights
from clusterwise.training import from_labels, train
from clusterwise.training.calibration import groups_as_sets
from clusterwise.training.from_labels import METHODS, recipe_for
from clusterwise.training.labelled import LabelledSource, started
from clusterwise.training.loop import train_weights
from clusterwise.training.recipe import recipe_from_dict


@pytest.fixture(autouse=True)
def _short_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_labels, "STEPS_OF_PILOT", 20)


def classes(n_classes: int = 12, each: int = 20, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), each)
    return 5 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(len(y), d)), y


def test_few_images_are_spliced_in_training_and_whole_in_validation() -> None:
    X, y = classes(n_classes=4, d=36)
    recipe = recipe_for("amcp", "auto", 36, (6, 6), 5, 3, prior={"spliced_sets": 1.0})
    source = LabelledSource(recipe, X, y)
    task = source.task(0)
    assert not (task.rows[:, None] == torch.from_numpy(X.astype(np.float32))).all(-1).any(1).all()
    assert source.unseen.options.spliced_sets == 0


def test_the_step_decides_what_is_drawn() -> None:
    X, y = classes()
    recipe = recipe_for("amcp", "auto", 4, None, 5, 3)
    one, other = LabelledSource(recipe, X, y), LabelledSource(recipe, X, y)
    one.task(0)
    first, second = one.task(7), other.task(7)
    assert torch.equal(first.rows, second.rows)
    assert torch.equal(first.index, second.index)
    assert not torch.equal(first.rows, one.task(8).rows)
    assert len(torch.unique(first.rows, dim=0)) == len(first.rows)  # every row once


def test_groups_are_calibrated_on_as_they_are() -> None:
    X, y = classes(n_classes=20, each=10)
    recipe = recipe_for("amcp", "identity", 4, None, 2, 0)
    source = LabelledSource(recipe, X, y, np.array([f"from {label // 2}" for label in y]))
    sets = groups_as_sets(source.unseen, recipe)
    assert len(sets) == 2  # a fifth of ten
    for one in sets:
        assert len(set(source.unseen.groups[one.index[0]])) == 1  # type: ignore[index]
        assert sorted(np.bincount(one.labels[0])) == [10, 10]
    assert groups_as_sets(LabelledSource(recipe, X, y).unseen, recipe) == []


@pytest.mark.parametrize(
    ("n_classes", "held_out", "n_out"), [(5, "rows", 2), (8, "classes", 4), (40, "classes", 8)]
)
def test_folds_leave_every_class_out(n_classes: int, held_out: str, n_out: int) -> None:
    X, y = classes(n_classes=n_classes)
    recipe = recipe_for("amcp", "identity", 4, None, 10, 0)
    source = LabelledSource(recipe, X, y)
    assert source.held_out == held_out
    never = set(range(n_classes))
    folds = list(source.folds())
    for fold in folds:
        unseen = set(map(tuple, fold.unseen[0].rows.tolist()))
        known = set(map(tuple, np.concatenate([fold.source.prior.rows, fold.source.unseen.rows]).tolist()))
        assert not unseen & known
        assert len(np.unique(fold.unseen[0].y)) == n_out
        never -= set(fold.unseen[0].y.tolist())
        if held_out == "rows":  # and rows of all classes that nothing was learned from
            assert not known & set(map(tuple, fold.unseen[1].rows.tolist()))
    assert not never
    assert len({tuple(np.unique(fold.unseen[0].y)) for fold in folds}) == 5


def test_features_are_turned_where_classes_are_long_in_a_direction_that_says_nothing() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 30)
    round_ones = 2.5 * rng.normal(size=(20, 4))[y] + rng.normal(size=(600, 4))
    useless = 6.0 * rng.normal(size=(600, 3))
    recipe = recipe_for("amcp", "identity", 7, None, 2, 0)
    long = LabelledSource(recipe, np.c_[round_ones, useless] @ np.linalg.qr(rng.normal(size=(7, 7)))[0], y)
    start = long.choose_start(EncoderConfig(7, "identity"), False).start
    assert start.share < 1
    assert not start.directions  # classes in one direction differ in how far away they are


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    X, y = classes()
    one, other = (cw.train_from_labels(X, y, steps=3, random_state=4, verbose=0) for _ in range(2))
    path = one.save(tmp_path / "own.safetensors")
    again = load_weights(path)
    for name, tensor in other.model.state_dict().items():
        assert torch.equal(tensor, one.model.state_dict()[name]), name
        assert torch.equal(tensor, again.model.state_dict()[name]), name
    assert again.facts["held_out"] == "classes"
    assert set(again.facts["cut"]) == {"threshold", "spread"}
    with pytest.raises(WeightsFileError, match="safetensors"):
        one.save(tmp_path / "own.bin")


def test_minutes_decide_the_number_of_steps() -> None:
    X, y = classes()
    weights = cw.train_from_labels(X, y, minutes=1e-6, random_state=0, verbose=0)
    assert weights.facts["steps"] == 20


def test_few_classes_bring_a_warning_and_leave_features_as_they_are() -> None:
    X, y = classes(n_classes=4)
    with pytest.warns(FewClassesWarning, match="4 classes"):
        weights = cw.train_from_labels(X, y, steps=1, random_state=0, verbose=0)
    assert weights.recipe["encoder"]["kind"] == "identity"
    assert weights.facts["held_out"] == "rows"
    assert "cut" in weights.facts  # learned on classes that small encoders were trained without


def test_a_learned_cut_finds_unseen_classes_and_knows_no_other_k() -> None:
    X, y = classes(n_classes=12, each=40)
    weights = cw.train_from_labels(X, y, steps=2, random_state=0, verbose=0)
    unseen, truth = classes(n_classes=5, each=40, seed=1)
    found = cw.AMCP(weights=weights, random_state=0).fit(unseen)
    assert adjusted_rand_score(truth, found.labels_) > 0.9
    assert max(found.k_posterior_, key=lambda k: found.k_posterior_[k]) == found.n_clusters_
    drawn = found.sample_partitions(5)
    assert np.mean([adjusted_rand_score(truth, labels) for labels in drawn.labels]) > 0.8
    assert adjusted_rand_score(found.predict(unseen), found.labels_) > 0.9


def test_many_features_of_few_classes_as_they_are_train_without_diverging() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=1500)
    X = 0.8 * rng.normal(size=(4, 128))[y] + rng.normal(size=(1500, 128))
    source = LabelledSource(recipe := recipe_for("amcp", "identity", 128, None, 40, 0), X, y)
    model = started(recipe, source)
    assert model.loss(source.task(1), torch.Generator().manual_seed(0)) < 10  # 20 with the usual widths
    weights = train_weights(recipe, lambda *_: source, verbose=False)
    assert weights is not None
    assert weights.facts["history"][-1]["loss"] < 3


def test_training_learns_to_find_unseen_classes() -> None:
    X, y = classes(n_classes=30, each=30, d=6)
    weights = cw.train_from_labels(X, y, steps=60, random_state=0, verbose=0)
    assert weights.facts["history"][-1]["nmi"] > 0.8


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 240, "all rows have the same label"),
        (list(range(240)), "have a single row"),
        ([None] + ["a", "b"] * 119 + ["a"], "have no label"),
        (["a", ""] + ["a", "b"] * 118 + ["a", " "], r"2 of the 240 rows have no label \(row 1"),
        ([pd.NA] + ["a", "b"] * 119 + ["a"], "have no label"),
        (np.ma.masked_equal(np.arange(240) % 12, 3), r"20 of the 240 rows have no label \(row 3"),
        (np.where(np.arange(240) == 7, np.datetime64("NaT"), np.datetime64("2026-11-18")), "row 7"),
        (["a", "b"], "one entry for each of the 240 rows"),
    ],
)
def test_labels_that_are_no_use_are_errors(y: Any, message: str) -> None:
    X, _ = classes()
    labels = np.array(y, dtype=object) if isinstance(y, list) else y
    with pytest.raises(InvalidDataError, match=message):
        cw.train_from_labels(X, labels, steps=1, verbose=0)


@pytest.mark.parametrize("gap", [np.nan, None, ""])
def test_groups_with_gaps_are_errors(gap: Any) -> None:
    X, y = classes()
    groups = np.array([gap, "b", "c", "d", "e", "f"], dtype=object).repeat(40)
    with pytest.raises(InvalidDataError, match=r"40 of the 240 rows have no group \(row 0"):
        cw.train_from_labels(X, y, groups=groups, steps=1, verbose=0)


def test_bad_rows_and_options_are_errors() -> None:
    X, y = classes()
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(InvalidDataError, match="row 3 column 1"):
        cw.train_from_labels(broken, y, steps=1, verbose=0)
    with pytest.raises(InvalidDataError, match="holds no numbers"):
        cw.train_from_labels([["a", 1.0]] * 240, y, steps=1, verbose=0)
    for rows, message in (
        (np.empty((0, 3)), "empty"),
        (scipy.sparse.csr_matrix(X), "sparse matrix; pass X.toarray"),
        (np.ma.masked_greater(X, 3.0), "masked entries"),
        (1e300 * X, "larger units"),
    ):
        with pytest.raises(InvalidDataError, match=message):
            cw.train_from_labels(rows, y[: rows.shape[0]], steps=1, verbose=0)
    for options, message in (
        ({"steps": 0}, "steps"),
        ({"minutes": -1.0}, "minutes"),
        ({"minutes": "5"}, "minutes"),
        ({"steps": 1, "minutes": 1.0}, "one of them"),
        ({"method": "k-means"}, "method"),
        ({"encoder": "convolution"}, "images"),
        ({"encoder": "deep"}, "encoder"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": "a"}, "random_state"),
    ):
        with pytest.raises(ClusterwiseError, match=message):
            cw.train_from_labels(X, y, verbose=0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS)
def test_recipes_of_all_methods_are_complete(method: str) -> None:
    recipe = recipe_for(method, "auto", 64, (8, 8), 10, 0)
    assert recipe.encoder is not None
    assert recipe.encoder["kind"] == "convolution"
    assert recipe_from_dict(recipe.to_dict()) == recipe


def test_a_recipe_names_a_file(tmp_path: Path) -> None:
    X, y = classes(d=36)
    np.savez(tmp_path / "rows.npz", X=X.reshape(-1, 6, 6), species=y, split=(y >= 11).astype(int))
    values = recipe_for("amcp", "convolution", 36, (6, 6), 2, 0, "own").to_dict()
    values["encoder"] = {"kind": "convolution", "channels": [4, 8]}
    values["prior"] |= {"file": str(tmp_path / "rows.npz"), "label_column": "species", "split": "train"}
    path = train(recipe_from_dict(values), tmp_path, verbose=False)
    assert path is not None
    weights = load_weights(path)
    assert weights.recipe["encoder"]["image_shape"] == [6, 6]
    assert weights.facts["n_classes"] < 11
    assert "own.toml" in path.with_suffix(".md").read_text()
    assert cw.AMCP(weights=path, random_state=0).fit(X).n_features_in_ == 36
    with pytest.raises(RecipeError, match="file"):
        train(recipe_from_dict({**values, "prior": {"name": "labelled"}}), tmp_path)
    values["prior"]["label_column"] = "genus"
    with pytest.raises(InvalidDataError, match="no array 'genus'"):
        train(recipe_from_dict(values), tmp_path)
