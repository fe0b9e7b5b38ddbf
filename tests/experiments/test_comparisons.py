from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from crossview.experiments import Search, Split
from crossview.experiments.comparisons import FILE, Comparison

ONE = Comparison(
    data="folder/a.npz",
    options={"size": [8, 8]},
    contents="f",
    split=Split("samples", 20, 5),
    search=Search(n_iter=4, members=8),
    methods=("MvHE", "PCA"),
    committees=("MvHE",),
    commands=("crossview compare a",),
)


def test_a_comparison_comes_back_from_its_file(tmp_path):
    assert Comparison.load(tmp_path) is None
    ONE.save(tmp_path)
    assert Comparison.load(tmp_path) == ONE
    assert ONE.panel.rows == ["MvHE", "MvHE × 8", "PCA"]
    assert ONE.panel.columns == ["a.npz"]


def test_later_methods_are_added_behind_earlier_ones():
    more = replace(ONE, methods=("PCA", "MvDA"), committees=("MvDA",), commands=("crossview compare b",))
    both = more.with_methods_of(ONE)
    assert both.methods == ("MvHE", "PCA", "MvDA")
    assert both.committees == ("MvHE", "MvDA")
    assert both.commands == ("crossview compare a", "crossview compare b")
    assert ONE.with_methods_of(ONE) == ONE


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"methods": ("LDA",), "committees": ()}, []),
        ({"data": "b.npz"}, ["data: folder/a.npz, now b.npz"]),
        ({"options": {}}, ["size: 8/8, now none"]),
        ({"contents": "g"}, ["the data have changed"]),
        ({"split": Split("samples", 0.5, 2)}, ["train: 20, now 0.5", "repeats: 5, now 2"]),
        ({"search": Search(n_iter=4, members=8, pca=(20, 40))}, ["pca: none, now 20/40"]),
        ({"search": Search(members=8)}, ["draws: 4, now none"]),
    ],
)
def test_what_differs_is_named_as_the_options_are(change, difference):
    assert ONE.differences(replace(ONE, **change)) == difference


@pytest.mark.parametrize(
    ("old", "new"), [("{", ""), ("}", ""), ("PCA", "X"), ('"samples"', '"X"'), ('"methods"', '"m"'), ("20", "-1")]
)
def test_a_damaged_file_is_told_of(tmp_path, old, new):
    ONE.save(tmp_path)
    (tmp_path / FILE).write_text((tmp_path / FILE).read_text().replace(old, new))
    with pytest.raises(ValueError, match=rf"{FILE} is damaged, or belongs to another version.*--overwrite"):
        Comparison.load(tmp_path)


def test_no_flipped_bit_changes_a_comparison(tmp_path):
    ONE.save(tmp_path)
    whole = (tmp_path / FILE).read_bytes()
    chance = random.Random(0)
    for _ in range(2000):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / FILE).write_bytes(flipped)
        try:
            found = Comparison.load(tmp_path)
        except ValueError as error:
            assert "is damaged, or belongs to another version" in str(error)  # noqa: PT017
        else:
            assert found == ONE


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "7", '{"split": 5}'])
def test_another_file_is_told_of(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match="is damaged, or belongs to another version"):
        Comparison.load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / FILE)
    with pytest.raises(OSError, match="is a device, a pipe or a socket"):
        Comparison.load(tmp_path)
