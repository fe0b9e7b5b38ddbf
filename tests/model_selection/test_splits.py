import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crossview as cv
from crossview.model_selection.splits import folds, matching_folds

labels = st.lists(st.integers(0, 9), min_size=8, max_size=60).filter(lambda y: len(set(y)) > 5)


@settings(max_examples=50, deadline=None)
@given(y=labels, seed=st.integers(0, 2**32 - 1), share=st.floats(0.34, 0.66))
def test_no_class_leaks_and_the_seed_decides(y, seed, share):
    y = np.array(y)
    for splitter in (cv.ClassSplit(3, share, seed), cv.ClassSplit(3, 2, seed)):
        splits, again = list(splitter.split(y, y)), list(splitter.split(y, y))
        assert len(splits) == splitter.get_n_splits() == 3
        for (train, test), (same_train, same_test) in zip(splits, again, strict=True):
            assert not set(y[train]) & set(y[test])
            assert len(train)
            assert len(test)
            np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
            np.testing.assert_array_equal(train, same_train)
            np.testing.assert_array_equal(test, same_test)


@settings(max_examples=50, deadline=None)
@given(y=labels, seed=st.integers(0, 2**32 - 1), kind=st.sampled_from([int, float, str, object]))
def test_folds_of_classes_are_a_permutation_cut_into_parts(y, seed, kind):
    """The definition of the folds of all stored results."""
    y = np.array(y).astype(str if kind is object else kind).astype(kind)
    splitter, what = folds("classes", y, 3, seed)
    assert what == "classes"
    parts = np.array_split(np.random.RandomState(seed).permutation(np.unique(y).size), 3)
    for (train, test), part in zip(splitter.split(y, y, groups=y), parts, strict=True):
        expected = np.isin(np.unique(y, return_inverse=True)[1], part)
        np.testing.assert_array_equal(test, np.flatnonzero(expected))
        np.testing.assert_array_equal(train, np.flatnonzero(~expected))


@pytest.mark.parametrize(
    ("classes", "samples", "kind", "n_folds"),
    [
        (20, 2, "classes", 5),
        (19, 5, "samples", 5),
        (8, 4, "samples", 4),
        (5, 4, "samples", 4),
        (3, 2, "samples", 2),
        (7, 1, "classes", 3),  # nothing else is possible
    ],
)
def test_folds_are_made_of_what_there_is(classes, samples, kind, n_folds):
    y = np.repeat(np.arange(classes), samples)
    splitter, found = folds("auto", y, 5, 0)
    assert found == kind
    parts = list(splitter.split(y, y, groups=y if kind == "classes" else None))
    assert len(parts) == n_folds
    for train, test in parts:
        assert len(np.unique(y[test])) >= 2
        assert set(y[train]).isdisjoint(y[test]) == (kind == "classes")


def test_mistyped_labels_do_not_turn_folds_of_samples_into_folds_of_classes():
    y = np.array([*"aaaaaaaabbbbbbbbccccccccddddddddeeeeeeee", "f", "g"])
    splitter, what = folds("auto", y, 3, 0)
    assert what == "samples"
    splits = list(splitter.split(y, y))
    assert [set("abcde") <= set(y[part]) for split in splits for part in split] == [True] * 6
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in splits])), np.arange(len(y)))


@pytest.mark.parametrize(
    ("split", "y", "kind"),
    [
        ("samples", np.repeat(np.arange(30), 4), "samples"),
        ("samples", np.arange(30), "classes"),  # one sample of every class: there are no folds of samples
        ("classes", np.repeat(np.arange(3), 5), "samples"),
    ],
)
def test_folds_match_the_split(split, y, kind):
    assert folds(matching_folds(split, y), y, 3, 0)[1] == kind


@pytest.mark.parametrize(
    ("y", "cv", "message"),
    [
        ("aabbccddf", "samples", "class 'f' has one sample, but folds of samples need two: .* or use cv='classes'"),
        ("aabbcc", "classes", "folds of classes need at least four classes, got 3: add data, or use cv='samples'"),
        ("aab", "samples", "class 'b' has one sample, but folds of samples need two: check its label, or add data"),
        ("aab", "auto", "folds of classes need at least four classes, got 2: add data"),
    ],
)
def test_folds_that_are_impossible_name_the_class_and_the_fix(y, cv, message):
    with pytest.raises(ValueError, match=message + r"\.$"):
        folds(cv, np.array(list(y)), 3, 0)


def test_counts_are_the_papers():
    y = np.repeat(np.arange(100), 4)
    tests = [test for _, test in cv.ClassSplit(train_size=70, random_state=0).split(y, y)]
    assert [len(np.unique(y[test])) for test in tests] == [30] * 10
    assert len({tuple(test) for test in tests}) == 10, "the repeats differ"


@pytest.mark.parametrize("train_size", [0, 1, 4, 1.5, -0.2, True, "half", np.nan, np.inf])
def test_impossible_counts(train_size):
    with pytest.raises(ValueError, match="train_size"):
        list(cv.ClassSplit(train_size=train_size).split(None, [0, 0, 1, 2, 3, 4]))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), train_size=st.sampled_from([1, 2, 0.3, 0.5, 0.99]))
def test_sample_split_takes_from_every_class(seed, train_size):
    y = np.array(list("aaabbbbccccccdddd"))
    splitter = cv.SampleSplit(3, train_size, seed)
    assert splitter.get_n_splits() == 3
    for (train, test), (again, _) in zip(splitter.split(None, y), splitter.split(None, y), strict=True):
        np.testing.assert_array_equal(train, again)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        assert set(y[train]) == set(y[test]) == set("abcd")
        if train_size in (1, 2):
            assert [(y[train] == c).sum() for c in "abcd"] == [train_size] * 4


def test_other_mistakes():
    with pytest.raises(ValueError, match="class 'f' has one sample, but a split of samples needs two: check its label"):
        list(cv.SampleSplit().split(None, list("aabbf")))
    with pytest.raises(ValueError, match="n_splits must be a whole number, 1 or more, got 0"):
        list(cv.ClassSplit(0, 2).split(None, [0, 1, 2, 3]))
    with pytest.raises(ValueError, match="y contains NaN"):
        list(cv.ClassSplit(train_size=2).split(None, [0.0, 1.0, 2.0, np.nan]))
    with pytest.raises(ValueError, match="train_size=2 is impossible with 2 samples of class b"):
        list(cv.SampleSplit(train_size=2).split(None, ["a", "a", "a", "b", "b"]))
    with pytest.raises(ValueError, match="without y"):
        list(cv.ClassSplit(2).split([[0.0]], None))
