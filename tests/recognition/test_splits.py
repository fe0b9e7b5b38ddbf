from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

import crossview as cv

labels = st.lists(st.integers(0, 9), min_size=4, max_size=60).filter(lambda y: len(set(y)) > 2)


@settings(max_examples=50, deadline=None)
@given(y=labels, seed=st.integers(0, 2**32 - 1), share=st.floats(0.34, 0.66))
def test_no_class_leaks_and_the_seed_decides(y, seed, share):
    y = np.array(y)
    for splitter in (cv.ClassSplit(share, 3, seed), cv.ClassSplit(2, 3, seed), cv.ClassKFold(3, seed)):
        splits, again = list(splitter.split(y, y)), list(splitter.split(y, y))
        assert len(splits) == splitter.get_n_splits() == 3
        for (train, test), (same_train, same_test) in zip(splits, again, strict=True):
            assert not set(y[train]) & set(y[test])
            assert len(train)
            assert len(test)
            np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
            np.testing.assert_array_equal(train, same_train)
            np.testing.assert_array_equal(test, same_test)


def test_every_class_is_tested_once():
    y = np.repeat(np.arange(7), 3)
    tested = np.concatenate([test for _, test in cv.ClassKFold(3, random_state=1).split(y, y)])
    np.testing.assert_array_equal(np.sort(tested), np.arange(21))


def test_counts_are_the_papers():
    y = np.repeat(np.arange(100), 4)
    seen = set()
    for train, test in cv.ClassSplit(70, random_state=0).split(y, y):
        assert len(np.unique(y[train])) == 70
        assert len(test) == 120
        seen.add(tuple(test))
    assert len(seen) == 10, "the repeats differ"


def test_works_in_scikit_learn():
    data = cv.datasets.load_digits()
    scores = cross_val_score(cv.MvDA(), data.views, data.y, cv=cv.ClassKFold(3, random_state=0))
    assert scores.shape == (3,)
    assert (scores > 0.3).all()


@pytest.mark.parametrize("n_train", [0, 3, 1.5, -0.2, True, "half"])
def test_impossible_counts(n_train):
    with pytest.raises(ValueError, match="n_train"):
        list(cv.ClassSplit(n_train).split(None, [0, 0, 1, 2]))


def test_other_mistakes():
    with pytest.raises(ValueError, match="n_splits must be a whole number from 2 to the number of classes, here 3"):
        list(cv.ClassKFold(4).split(None, [0, 1, 2]))
    with pytest.raises(ValueError, match="without y"):
        list(cv.ClassKFold(2).split([[0.0]], None))
