"""Files appear whole or not at all, and errors name what the user asked for."""

from __future__ import annotations

import os

import pytest

from clusterwise._files import require_writable, whole_or_nothing


def test_a_failed_block_leaves_what_was_there(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("before")
    with pytest.raises(ValueError, match="half"), whole_or_nothing(path) as temporary:
        temporary.write_text("after")
        raise ValueError("half")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["labels.csv"]


def test_missing_folders_are_made_when_something_is_written(tmp_path):
    path = tmp_path / "new" / "labels.csv"
    require_writable(path)
    assert os.listdir(tmp_path) == []
    with whole_or_nothing(path) as temporary:
        temporary.write_text("labels")
    assert path.read_text() == "labels"


def test_errors_name_the_file_of_the_user(tmp_path):
    (tmp_path / "file").write_text("")
    for path, error in ((tmp_path / "file" / "x.csv", NotADirectoryError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error) as raised, whole_or_nothing(path):
            pass
        assert raised.value.filename == str(path)
