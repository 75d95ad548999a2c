"""The other commands, and what happens when something is missing or interrupted."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import clusterwise
from clusterwise import cli
from clusterwise.pretrained import get_weights


def test_version_and_help(run):
    assert run("--version").stdout == f"clusterwise {clusterwise.__version__}\n"
    text = run("--help").stdout
    assert all(command in text for command in ("cluster", "train", "models"))


def test_the_package_is_a_command_too(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["clusterwise", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("clusterwise", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"clusterwise {clusterwise.__version__}\n"


def test_unknown_options_and_values(run):
    assert run("cluster").exit_code == 2
    assert run("cluster", "x.csv", "--method", "kmeans").exit_code == 2
    assert run("nonsense").exit_code == 2


def test_models(run, make_weights, monkeypatch, folder):
    from clusterwise.pretrained import lookup

    monkeypatch.setattr(lookup, "_shipped", lambda: folder)
    assert "no weights are shipped" in run("models").stdout
    shutil.copy(make_weights("dac"), folder)
    head, line = run("models").stdout.splitlines()
    assert head.split() == ["name", "method", "features", "parameters", "summary"]
    assert line.split()[:3] == ["tiny", "dac", "2"]
    assert line.endswith("hardly trained")


def test_training_writes_weights_and_never_throws_a_checkpoint_away(run, recipe, folder):
    result = run("train", recipe, "--out", "made")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"weights: {os.path.join('made', 'tiny.safetensors')}\n"
    assert get_weights(folder / "made" / "tiny.safetensors").name == "tiny"
    again = run("train", recipe, "--out", "made")
    assert again.exit_code == 2
    (line,) = again.stderr.splitlines()
    assert "go on with --resume" in line
    assert run("train", recipe, "--out", "made", "--resume").exit_code == 0
    text = (folder / recipe).read_text()
    (folder / recipe).write_text(text.replace("width = 8", "widht = 8"))
    for options in ((), ("--resume",)):  # the checkpoint hides no error
        assert "no option 'widht'" in run("train", recipe, "--out", "made", *options).stderr


def test_training_stops_at_its_time_and_goes_on(run, recipe, folder):
    stopped = run("train", recipe, "--minutes", 0)
    assert stopped.exit_code == 0, stopped.output
    assert stopped.stdout == "stopped after 0 minutes; resume with --resume\n"
    assert not (folder / "trained" / "tiny.safetensors").exists()
    assert run("train", recipe, "--resume").exit_code == 0
    assert (folder / "trained" / "tiny.safetensors").exists()


def test_bad_recipe_is_one_line(run, folder):
    (folder / "bad.toml").write_text('name = "x"\n')
    result = run("train", "bad.toml")
    assert result.exit_code == 2
    assert (
        result.stderr
        == "error: The recipe lacks method, model, prior; see the files in recipes/ for examples.\n"
    )


def test_interrupted_training_says_how_to_go_on(run, recipe, monkeypatch):
    from clusterwise import training

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "train", interrupt)
    result = run("train", recipe)
    assert result.exit_code == 130
    assert result.stderr == "interrupted; resume with --resume\n"


@pytest.fixture
def default_handlers():
    """Signals as in a foreground shell: a background one lets its children ignore SIGINT."""
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("default_handlers")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_after_the_step_and_the_run_goes_on(run, recipe, folder, monkeypatch, number):
    from clusterwise.training import loop

    train_steps = loop.train_steps

    def train_steps_with_ctrl_c(recipe, state, prior, callbacks):
        signal.raise_signal(number)
        train_steps(recipe, state, prior, callbacks)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "train_steps", train_steps_with_ctrl_c)
        result = run("train", recipe)
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted; resume with --resume"
    assert os.listdir("trained") == ["tiny.checkpoint.safetensors"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert run("train", recipe, "--resume").exit_code == 0
    run("train", recipe, "--out", "straight")
    assert (folder / "trained/tiny.safetensors").exists()
    resumed, straight = (load_file(folder / f"{d}/tiny.safetensors") for d in ("trained", "straight"))
    assert all(torch.equal(resumed[name], straight[name]) for name in straight)


def test_unexpected_errors_are_one_line_and_a_log(run, recipe, monkeypatch):
    from clusterwise import training

    def fail(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(training, "train", fail)
    failed = run("train", recipe)
    assert failed.exit_code == 70
    (line,) = failed.stderr.splitlines()
    found = re.fullmatch(r"error: .*ZeroDivisionError: a bug\); please report it with (.*)\.", line)
    log = Path(found[1])
    assert "Traceback" in log.read_text()
    log.unlink()
    assert isinstance(run("--debug", "train", recipe).exception, ZeroDivisionError)


def test_without_typer_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "typer", None)
    for name in [name for name in sys.modules if name.startswith("clusterwise.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(cli, "app", raising=False)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert str(caught.value) == "error: the command line needs typer; run: pip install 'clusterwise[cli]'"


def test_help_needs_none_of_the_heavy_packages():
    code = (
        "import sys; import clusterwise; before = set(sys.modules); import clusterwise.cli.app; "
        "print(*(set(sys.modules) - before), sep='\\n')"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"matplotlib", "jinja2", "pyarrow", "pandas", "clusterwise.report"} & set(loaded)
