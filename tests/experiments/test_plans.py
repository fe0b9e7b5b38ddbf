from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from crossview.experiments import Search, Split
from crossview.experiments.plans import COMPARISON_FILE, Comparison, comparison

ONE = Comparison(
    data="folder/a.npz",
    options={"size": [8, 8]},
    contents="f",
    split=Split("samples", 20, 5),
    search=Search(n_iter=4, n_members=8),
    methods=("MvHE", "PCA"),
    committees=("MvHE",),
    commands=("crossview compare a",),
)


def test_a_comparison_has_every_method_and_repeat():
    search = Search(pca=(10, 20), n_iter=4, n_members=3)
    panel = comparison("digits", {}, ["PCA", "MvHE"], Split("samples", 20, 3, 5), search, ["MvHE"])
    assert [(place.row, place.part, place.cell.repeat) for place in panel.places] == [
        (row, part, repeat)
        for row, part in (("PCA", ""), ("MvHE", ""), ("MvHE × 3", "committee"))
        for repeat in range(3)
    ]
    assert {(place.cell.method, place.cell.search.n_members) for place in panel.places} == {("PCA", 1), ("MvHE", 3)}
    assert {place.cell.seed for place in panel.places} == {5, 6, 7}
    assert panel.columns == ["digits"]
    assert (ONE.panel.rows, ONE.panel.columns) == (["MvHE", "MvHE × 8", "PCA"], ["a.npz"])


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
        ({"search": Search(n_iter=4, n_members=8, pca=(20, 40))}, ["pca: none, now 20/40"]),
        ({"search": Search(n_members=8)}, ["n_iter: 4, now none"]),
    ],
)
def test_what_differs_is_named_as_the_options_are(change, difference):
    assert ONE.differences(replace(ONE, **change)) == difference


def test_a_damaged_file_never_gives_another_comparison(tmp_path):
    path = tmp_path / COMPARISON_FILE
    assert Comparison.load(tmp_path) is None
    ONE.save(tmp_path)
    assert Comparison.load(tmp_path) == ONE
    whole, chance = path.read_bytes(), random.Random(0)
    replaced = [
        (b"{", b""),
        (b"}", b""),
        (b"PCA", b"X"),
        (b'"samples"', b'"X"'),
        (b'"methods"', b'"m"'),
        (b"20", b"-1"),
    ]
    others = [whole.replace(*pair) for pair in replaced] + [b"[" * 100_000, b"[]", b"7", b'{"split": 5}']
    for _ in range(2000):
        flipped = bytearray(whole)
        flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        others.append(bytes(flipped))
    refused = []
    for k, content in enumerate(others):
        path.write_bytes(content)
        try:
            assert Comparison.load(tmp_path) == ONE
        except ValueError as error:
            assert f"{COMPARISON_FILE} is damaged, or belongs to another version" in str(error)  # noqa: PT017
            assert "--overwrite" in str(error)  # noqa: PT017
            refused.append(k)
    assert refused[:9] == list(range(9))
    assert len(refused) > 1500


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / COMPARISON_FILE)
    with pytest.raises(OSError, match="is a device, a pipe or a socket"):
        Comparison.load(tmp_path)
