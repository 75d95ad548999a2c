"""Seeds of test data: no two kinds of data draw the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import benchmarks
from benchmarks.suites.mixtures import DAC_SIZES
from benchmarks.synthetic import TEST_SEED, Word, generator_of

SOURCES = {path: path.read_text(encoding="utf-8") for path in Path(benchmarks.__path__[0]).rglob("*.py")}


def test_words_are_distinct_and_smaller_than_what_stands_in_their_place_in_mog() -> None:
    words = [*map(int, Word), *(n_max for n_max, _ in DAC_SIZES.values())]
    assert len(set(words)) == len(words) == len(Word.__members__) + len(DAC_SIZES)


def test_each_word_is_used_once() -> None:
    text = "\n".join(SOURCES.values())
    for name in Word.__members__:
        assert len(re.findall(rf"\bWord\.{name}\b", text)) == 1, name


def test_no_file_makes_a_test_seed_of_its_own() -> None:
    users = {path.name for path, text in SOURCES.items() if "TEST_SEED" in text}
    assert users == {"synthetic.py"}


def test_a_key_decides_the_numbers() -> None:
    first = generator_of(Word.CRP, 200, 4).random()
    assert first == np.random.default_rng([TEST_SEED, 41, 200, 4]).random()
    assert first != generator_of(Word.CHIGAC, 200, 4).random()
