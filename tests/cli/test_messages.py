"""The command line names its own options where the library names parameters and classes."""

from __future__ import annotations

import pytest

from clusterwise.cli.messages import in_words_of_the_command_line


@pytest.mark.parametrize(
    ("library", "here"),
    [
        ("; use it with include=['day'].", "; use it with --include day."),
        ("; use it with include=['first day'].", "; use it with --include 'first day'."),
        ('; use it with include=["the day\'s"].', "; use it with --include 'the day'\"'\"'s'."),
        ("; use it with include=['a, b'].", "; use it with --include '\"a, b\"'."),
        ("drop names 'z', which is not a column", "--drop names 'z', which is not a column"),
        ("Name those to use with columns=.", "Name those to use with --columns."),
        ("; try clusterwise.Clusterer.", "; try --method clusterer."),
        (
            "; try refine='search', or clusterwise.GaussianSearch.",
            "; try --refine search, or --method gaussian-search.",
        ),
        ("; compare with clusterwise.GaussianSearch.", "; compare with --method gaussian-search."),
        ("; try covariance_type='full', or fewer", "; try --method gaussian-search, or fewer"),
        ("in k_posterior_; see labels_at(2) for the best of those.", "in the probability of k."),
        ("; choose others with `weights=`.", "; choose others with --weights."),
        ("; pass filtering='minimum-loss' or other", "; pass --filtering minimum-loss or other"),
        ("; pass refine=None or 'auto'.", "; leave out --refine."),
        ("AMCP: others; fit with n_draws=20 to consider them.", "AMCP: others; try --method clusterer."),
        ("Clusterer: bent clusters; try clusterwise.Clusterer.", "Clusterer: bent clusters."),
        ("AMCP: bent clusters; try clusterwise.Clusterer.", "AMCP: bent clusters; try --method clusterer."),
        (
            "after 9 epochs (see history_): raise max_epochs, or go on with warm_start=True.",
            "after 9 epochs: call it from Python with a larger max_epochs.",
        ),
        ("of its last epoch; go on with warm_start=True.", "of its last epoch."),
    ],
)
def test_words(library: str, here: str) -> None:
    assert in_words_of_the_command_line(library) == here


@pytest.mark.parametrize(
    ("library", "here", "if_raw"),
    [
        (
            "; remove extreme rows, or try clusterwise.TablePreparation.",
            "; remove extreme rows.",
            "; remove extreme rows, or leave out --raw.",
        ),
        (
            "skewed clusters; try clusterwise.TablePreparation.",
            "skewed clusters.",
            "skewed clusters; leave out --raw.",
        ),
    ],
)
def test_a_table_is_prepared_already(library: str, here: str, if_raw: str) -> None:
    assert in_words_of_the_command_line(library) == here
    assert in_words_of_the_command_line(library, raw=True) == if_raw
