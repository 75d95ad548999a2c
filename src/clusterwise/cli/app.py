"""The commands and their options. What they do is imported when they run: ``--help`` must be quick."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated

import typer

from clusterwise.cli.choices import (
    DEFAULT_METHOD,
    METHODS,
    Columns,
    Dates,
    Filtering,
    Projection,
    Scaling,
)
from clusterwise.cli.messages import (
    one_line_errors,
    one_line_warnings,
    say,
    settings,
    terminated_like_interrupted,
)

__all__ = ["app"]

app = typer.Typer(
    name="clusterwise",
    help="Find the clusters in a table, and how many there are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from clusterwise import __version__

        say(f"clusterwise {__version__}")
        raise typer.Exit


def _names(text: str | None) -> tuple[str, ...] | None:
    """Split a list with commas; names that hold some themselves are in quotation marks."""
    if text is None:
        return None
    (names,) = csv.reader([text.replace("\n", " ")], skipinitialspace=True) if text.strip() else ([],)
    return tuple(name.strip() for name in names if name.strip())


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error that nobody expected.")
    ] = False,
) -> None:
    settings["debug"] = debug


# The options of ``cluster``.
File = Annotated[
    Path,
    typer.Argument(
        help="csv, tsv (or gz, bz2, zst, zip), parquet, arrow, npy, npz, xlsx, h5ad, or a folder of "
        "parquet files; - is standard input"
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Where to write labels (csv, tsv, parquet, arrow, npy). Default: in this folder, like FILE."
    ),
]
Report = Annotated[Path | None, typer.Option(help="Write a report about the clusters, as an HTML page.")]
Append = Annotated[bool, typer.Option("--append", help="Write all columns of FILE before the labels.")]
Trusted = Annotated[
    bool,
    typer.Option(
        "--trusted",
        help="FILE is from a source that you trust: read it however large it becomes when it is unpacked, "
        "and write cells that a spreadsheet takes for formulas as they are.",
    ),
]
Only = Annotated[
    str | None, typer.Option(metavar="A,B", help="Use only these columns, by name or counted from 0.")
]
Drop = Annotated[str | None, typer.Option(metavar="A,B", help="Leave these columns out.")]
Include = Annotated[
    str | None, typer.Option(metavar="A,B", help="Use these columns even if they would be set aside.")
]
RowNames = Annotated[
    str | None, typer.Option(metavar="A", help="The column that names the rows; copied to the results.")
]
DatesAs = Annotated[Dates, typer.Option(help="How included dates are encoded.")]
Raw = Annotated[bool, typer.Option("--raw", help="Cluster numbers as they are; missing values are errors.")]
Method = Annotated[
    str | None,
    typer.Option(
        metavar=f"[{'|'.join(METHODS)}]",
        help=f"How to cluster: {DEFAULT_METHOD}, unless other options call for another method.",
        show_default=False,
    ),
]
FilteringOf = Annotated[
    Filtering | None, typer.Option(help="DAC only; minimum-loss if not given.", show_default=False)
]
Weights = Annotated[
    str | None, typer.Option(help="Name (see `clusterwise models`) or path of a weights file.")
]
Project = Annotated[
    Projection | None, typer.Option(help="Project the table onto as many features as the weights take.")
]
ScalingOf = Annotated[
    Scaling | None, typer.Option(help="Scale all columns by one factor, or each by its own.")
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same labels.")]


@app.command()
def cluster(
    file: File,
    out: Out = None,
    report: Report = None,
    append: Append = False,
    trusted: Trusted = False,
    columns: Only = None,
    drop: Drop = None,
    include: Include = None,
    id: RowNames = None,
    dates: DatesAs = Dates.NUMBER,
    raw: Raw = False,
    method: Method = None,
    filtering: FilteringOf = None,
    weights: Weights = None,
    project: Project = None,
    scaling: ScalingOf = None,
    seed: Seed = 0,
) -> None:
    """Find the clusters in FILE; print them and write a label and its confidence for every row."""
    with one_line_errors("interrupted; run the same command again"), terminated_like_interrupted():
        options = {
            "filtering": filtering,
            "weights": weights,
            "project": project,
            "scaling": scaling,
        }
        from clusterwise.cli.clustering import Task, cluster_file, default_output

        asked = Columns(_names(columns), _names(drop) or (), _names(include) or (), id, str(dates), raw)
        out = default_output(file) if out is None else out
        cluster_file(Task(file, out, report, asked, append, method, options, seed, trusted))


@app.command()
def train(
    recipe: Annotated[
        Path | None, typer.Argument(help="A TOML file; see recipes/ for examples.", show_default=False)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint in the folder --out.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write: a folder for weights and checkpoint or, with --labels, the weights file."
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Stop after this time, and resume later; with --labels: train this long."),
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Learn from the labelled rows of a table instead.")
    ] = None,
    label_column: Annotated[str | None, typer.Option(metavar="A", help="The column of the labels.")] = None,
    group_column: Annotated[
        str | None, typer.Option(metavar="A", help="The column that says which group a row comes from.")
    ] = None,
    drop: Drop = None,
    method: Annotated[
        str | None, typer.Option(help="With --labels: amcp, dac, dac-anchored, chigac, ncp or act-st.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="With --labels: train this many steps.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="With --labels: the same seed, the same weights.")] = 0,
) -> None:
    """Train the network that RECIPE describes, or one for data like the table of --labels."""
    with one_line_errors("interrupted; resume with --resume"), one_line_warnings():
        if labels is not None:
            from clusterwise.cli.training import train_labels

            train_labels(
                labels,
                label_column,
                group_column,
                _names(drop) or (),
                out or Path(f"{labels.name.partition('.')[0]}.safetensors"),
                method=method or "amcp",
                minutes=minutes,
                steps=steps,
                seed=seed,
                other=recipe,
            )
            return
        from clusterwise.cli.training import train_recipe

        train_recipe(recipe, out or Path("trained"), resume, minutes)


@app.command()
def models() -> None:
    """List the weights that come with the package."""
    with one_line_errors():
        from clusterwise.pretrained import describe, list_weights

        known = [describe(name) for name in list_weights()]
        if not known:
            say("no weights are shipped with this build; `clusterwise train` makes them")
            return
        width = max(len(facts["name"]) for facts in known) + 2
        say(f"{'name':<{width}}{'method':<17}{'features':>8}{'parameters':>12}  summary")
        for facts in known:
            say(
                f"{facts['name']:<{width}}{facts['method']:<17}{facts['n_features'] or 'any':>8}"
                f"{facts['n_parameters']:>12,}  {facts['summary']}"
            )
