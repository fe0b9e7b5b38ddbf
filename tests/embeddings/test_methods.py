from __future__ import annotations

import pytest
from methods import make
from sklearn.model_selection import ParameterGrid, RandomizedSearchCV, StratifiedKFold

import crossview as cv
from crossview.embeddings import SEARCH_SPACES

ARRAYS, Y = make(m=90, sizes=(8, 8), n_classes=9)
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)


def test_names_are_those_of_the_paper_in_its_order():
    assert list(cv.METHODS)[:3] == ["PCA", "LDA", "DLA"]
    assert list(cv.METHODS)[12:15] == ["MvDA-VC", "MvHE", "KMvHE"]
    assert not cv.METHODS.keys() & cv.BASELINES.keys()
    assert list(SEARCH_SPACES) == [*cv.METHODS, *cv.BASELINES]


@pytest.mark.parametrize("name", [*cv.METHODS, "SemanticMatching", "NCA"])
def test_search_space(name):
    """Every value in it can be fitted, and some are better than others."""
    cls, space = (cv.METHODS | cv.BASELINES)[name], SEARCH_SPACES[name]
    assert set(space) <= set(cls().get_params())
    small = {**space, "n_components": [2, 4]} if "n_components" in space else space
    search = RandomizedSearchCV(cls(), small, n_iter=min(6, len(ParameterGrid(small))), cv=FOLDS, random_state=0)
    search.set_params(error_score="raise").fit(cv.Views(ARRAYS), Y)
    assert search.best_score_ > 1 / 9
