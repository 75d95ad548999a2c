"""Warnings and errors are sentences made of fields: in Python's words, and in those of the command line."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import fields

import pytest

from clusterwise import exceptions
from clusterwise.cli.messages import error_line, include_option, one_line_warnings, warning_line
from clusterwise.exceptions import (
    BentClustersWarning,
    CapReachedWarning,
    ClusterwiseWarning,
    FewClassesWarning,
    HeavyTailsWarning,
    NoColumnError,
    OneGaussianWarning,
    OtherKWarning,
    SeveralGroupsWarning,
    SkewedClustersWarning,
    UnknownColumnError,
    WeightsWidthError,
)

EXAMPLES = {"str": "word", "int": 3, "float": 0.28, "float | None": 0.28, "bool": False}
EXAMPLES |= {"Sequence[str]": ["a", "b"], "Mapping[str, str]": {"a": "is empty"}}
WITH_FIELDS = [
    kind
    for kind in map(exceptions.__dict__.get, exceptions.__all__)
    if hasattr(kind, "finding") and fields(kind)[3:] and not kind.__subclasses__()
]


@pytest.mark.parametrize("kind", WITH_FIELDS, ids=lambda kind: kind.__name__)
def test_every_sentence_is_made_of_fields_that_survive_a_process(kind):
    made = kind(**{field.name: EXAMPLES[field.type] for field in fields(kind) if field.name != "remedy"})
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is kind
    assert {field.name: getattr(again, field.name) for field in fields(kind)} == {
        field.name: getattr(made, field.name) for field in fields(kind)
    }
    sentence = str(again)
    assert sentence.endswith(".") and made.finding() in sentence and made.remedy in sentence
    line = warning_line(made) if isinstance(made, Warning) else error_line(made)
    assert not any(word in line for word in ("clusterwise.", "=", "_;", "_ ")), line


SKEWED = SkewedClustersWarning(n_clusters=4, share=0.8, columns=["income"])


@pytest.mark.parametrize(
    ("warning", "python", "here"),
    [
        (
            OtherKWarning(n_clusters=7, likeliest=9, probability=0.28, reason="why", remedy="see more"),
            "the labels have 7 clusters, but 9 are likelier (0.28): why; see more.",
            "9 clusters are likelier (28 %): see --report",
        ),
        (
            CapReachedWarning(max_clusters=1, estimator="AMCP", name="Xs[0]"),
            "Xs[0]: AMCP: the fit reached its cap of 1 clusters and made no more; raise max_clusters",
            "call it from Python with a larger max_clusters",
        ),
        (FewClassesWarning(n_classes=4), "such as clusterwise.Clusterer.", "compare with --method clusterer"),
        (OneGaussianWarning(n_clusters=2, share=1, estimator="AMCP"), "100 % of", "with --method gaussian-"),
        (
            BentClustersWarning(n_clusters=9, share=1, estimator="AMCP"),
            "try clusterwise.Clu",
            "; try --method",
        ),
    ],
)
def test_words(warning, python, here):
    assert python in str(warning)
    assert here in warning_line(warning)


def test_a_table_is_prepared_already():
    heavy = HeavyTailsWarning(share=0.1, expected=1e-3)
    assert warning_line(SKEWED) == f"{SKEWED.finding()}."
    assert warning_line(SKEWED, raw=True) == f"{SKEWED.finding()}; leave out --raw."
    assert warning_line(heavy).endswith("; remove extreme rows.")
    assert warning_line(heavy, raw=True).endswith("; remove extreme rows, or leave out --raw.")


def test_a_method_does_not_recommend_itself():
    groups = SeveralGroupsWarning(depth=0.1, estimator="Clusterer")
    assert warning_line(groups) == f"{groups.finding()}."
    one = OneGaussianWarning(n_clusters=2, share=0.5, estimator="GaussianSearch")
    assert warning_line(one) == f"{one.finding()}."


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            UnknownColumnError(parameter="drop", column="z", known=["a", "b"]),
            "--drop names 'z', which is not a column; there are 'a', 'b'.",
        ),
        (
            NoColumnError(set_aside={"id": "numbers the rows, like an id"}),
            "no column is left to cluster by: 'id' numbers the rows, like an id; name those to use with "
            "--columns.",
        ),
        (
            WeightsWidthError(width=6, weights="tiny", expected=2),
            "after its preparation the table has 6 features, but the weights 'tiny' take 2; choose columns "
            "with --columns, add --project pca, or take --method clusterer.",
        ),
        (
            WeightsWidthError(width=6, weights="own", expected=2, from_labels=True, remedy="pass others"),
            "X has 6 features, but the weights 'own' were trained on 2; pass others.",
        ),
    ],
)
def test_errors(error, line):
    assert error_line(error) == line


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("day", "--include day"),
        ("first day", "--include 'first day'"),
        ("the day's", "--include 'the day'\"'\"'s'"),
        ("a, b", "--include '\"a, b\"'"),
    ],
)
def test_names_are_quoted_for_the_shell(name, option):
    assert include_option(name) == option


def test_each_line_is_printed_once_and_ours_are_kept(capsys):
    with one_line_warnings() as ours:
        for _ in range(2):
            warnings.warn(SKEWED, stacklevel=1)
            warnings.warn("two\nlines", UserWarning, stacklevel=1)
        warnings.warn("not for users", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == f"warning: {SKEWED.finding()}.\nwarning: two lines\n"
    assert all(isinstance(warning, ClusterwiseWarning) for warning in ours) and SKEWED in ours
