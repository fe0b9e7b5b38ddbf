"""A search that was stopped resumes to the same result, whatever happened to the file of its scores."""

import pickle
import re

import numpy as np
import pytest
from methods import make_noisy
from sklearn.exceptions import FitFailedWarning

import crossview as cv
from crossview.exceptions import NotApplicableError
from crossview.model_selection.rounds import ScoreFile

ARRAYS, Y = make_noisy()
GRID = {"mvda__reg": [1e-4, 1e-3, 1e-2], "viewpca__n_components": [-1, 20, None], "mvda__n_components": [2, 4]}


def search(path=None, views=ARRAYS, y=Y, grid=GRID, **options):
    """One that drops settings, adds others, fails for some, and makes a committee."""
    options = {"n_folds": 3, "factor": 1.1, "refine": 3, "n_members": 2, "random_state": 0} | options
    with pytest.warns(FitFailedWarning, match="3 of .* fits failed; the last: n_comp") as caught:
        found = cv.tune("MvDA", views, y, grid, resume=path, **options)
    assert len(caught) == 1
    return found


@pytest.fixture(scope="module")
def calm():
    found = search()
    assert found.extended_
    assert np.isnan(found.cv_results_["mean_test_score"]).any()
    return found


@pytest.fixture
def restored(told):
    """The number of scores that the last search did not compute again."""

    def count():
        found = sum(call[2] for call in told if not isinstance(call[0], str))
        told.clear()
        return found

    return count


def assert_same(a, b):
    for name, column in a.cv_results_.items():
        np.testing.assert_array_equal(column, b.cv_results_[name])
    assert (a.best_params_, a.best_score_, a.members_) == (b.best_params_, b.best_score_, b.members_)
    for X, Z in zip(a.transform(ARRAYS), b.transform(ARRAYS), strict=True):
        np.testing.assert_array_equal(X, Z)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interrupted_search_ends_as_if_undisturbed(monkeypatch, restored, calm, tmp_path, n_jobs):
    append, kept = ScoreFile.append, []
    monkeypatch.setattr(ScoreFile, "append", lambda *args: (kept.append(args), append(*args)))
    assert_same(calm, search(tmp_path / "undisturbed"))
    assert restored() == 0
    for after in (0, 3, len(kept) // 2, len(kept) - 1) if n_jobs == 1 else (len(kept) // 2,):
        path, left = tmp_path / f"{after}", iter(range(after))

        def stop(*args, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            append(*args)

        monkeypatch.setattr(ScoreFile, "append", stop)
        with pytest.raises(KeyboardInterrupt):
            search(path)
        monkeypatch.setattr(ScoreFile, "append", append)
        restored()
        assert_same(calm, search(path, n_jobs=n_jobs))
        assert restored() <= after
    assert_same(calm, search(path))
    every = restored()
    assert_same(calm, search(tmp_path / "workers", n_jobs=n_jobs))
    assert restored() == 0
    assert_same(calm, search(tmp_path / "workers"))
    assert restored() == every > 20


def test_another_search_starts_anew(monkeypatch, restored, tmp_path):
    path = tmp_path / "scores"
    search(path, n_members=1)
    restored()
    others = Y.copy()
    others[[0, 41]] = others[[41, 0]]
    for change in (
        {"views": [ARRAYS[0], ARRAYS[1] + 1e-9]},
        {"views": cv.Views(ARRAYS, names=["a", "b"])},
        {"y": others},
        {"random_state": 1},
        {"cv": "samples"},
        {"metrics": ["cosine"]},
        {"scoring": "average_precision"},
        {"grid": GRID | {"mvda__reg": [1e-4, 1e-3, 2e-2]}},
        {"grid": GRID | {"mvda__n_components": [2, 5]}},
        {"grid": GRID | {"mvda__center": [False]}},
        {"factor": 3.0},
        {"max_samples": 60},
        {"n_members": 5},
    ):
        search(path, **{"n_members": 1} | change)
        assert restored() == 0, change
    monkeypatch.setattr(cv.MvDA, "_revision", 99)
    search(path, n_members=1)
    assert restored() == 0


def test_more_rounds_go_on_with_the_scores_of_fewer(restored, tmp_path):
    few = search(tmp_path / "scores", refine=0)
    restored()
    assert_same(search(refine=3), search(tmp_path / "scores", refine=3))
    assert restored() >= len(few.cv_results_["params"]) // 4


def test_a_damaged_file_gives_no_wrong_scores(restored, calm, tmp_path):
    path = tmp_path / "scores"
    search(path)
    assert_same(calm, search(path))
    every, content = restored(), path.read_bytes()
    random = np.random.default_rng(0)
    damaged = [content[:-7], content[:5000], content[:10], b"", content + b"\0" * 500]
    for _ in range(5):
        flipped = bytearray(content)
        flipped[random.integers(100, len(content))] ^= 1 << random.integers(8)
        damaged.append(bytes(flipped))
    damaged.append(re.sub(rb"0\.\d", b"0.9", content))
    for found in damaged:
        path.write_bytes(found)
        assert_same(calm, search(path))
        assert restored() <= every
    assert_same(calm, search(path))
    assert restored() == every  # what was appended to a damaged file is read


def test_other_files_are_left_alone(tmp_path):
    path = tmp_path / "thesis"
    for content in (b"my thesis\n", bytes(range(256)), b"0\n"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"thesis does not hold results of crossview: choose another name"):
            cv.tune("MvDA", ARRAYS, Y, n_iter=2, resume=path)
        assert path.read_bytes() == content
    with pytest.raises(FileNotFoundError, match=r"nowhere does not exist: create it first"):
        cv.tune("MvDA", ARRAYS, Y, n_iter=2, resume=tmp_path / "nowhere" / "scores")


def test_a_file_that_is_deleted_meanwhile_does_not_end_the_search(tmp_path):
    with ScoreFile(tmp_path / "scores", "search") as file:
        (tmp_path / "scores").unlink()
        for one in (file, pickle.loads(pickle.dumps(file))):
            one.append("a", np.ones(1))
    assert not (tmp_path / "scores").exists()


def test_parameters_must_be_known_to_be_the_same(tmp_path):
    for model in (cv.KMvHE(kernel=lambda x, z: x @ z), cv.KMvHE(random_state=np.random.RandomState(0))):
        with pytest.raises(ValueError, match=r"resume cannot tell whether .* is the same as in the last run"):
            cv.EmbeddingSearchCV(model, {"beta": [0.1]}, resume=tmp_path / "s").fit(ARRAYS, Y)
    assert not (tmp_path / "s").exists()


def test_errors_keep_their_kind(tmp_path):
    for _ in range(2):
        with pytest.raises(NotApplicableError, match=r"^CCA takes 2 views, got 3"):
            cv.tune("CCA", [*ARRAYS, ARRAYS[0]], Y, n_iter=2, n_folds=3, resume=tmp_path / "s")


def test_models_do_not_name_the_file(tmp_path):
    cv.save(search(tmp_path / "scores"), tmp_path / "model")
    assert b"scores" not in (tmp_path / "model").read_bytes().replace(b"split", b"")
    assert cv.load(tmp_path / "model").resume is None


def test_scores_are_restored_to_the_last_bit(tmp_path):
    scores = np.random.default_rng(0).random((3, 2)) / 3
    scores[1, 1] = np.nan
    with ScoreFile(tmp_path / "s", [1]) as file:
        file.append("a", scores)
    with ScoreFile(tmp_path / "s", [1]) as same, ScoreFile(tmp_path / "s", [1.0]) as other:
        np.testing.assert_array_equal(same.known["a"], scores)
        assert other.known == {}
