import numpy as np
import pytest
from methods import make
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import crossview as cv

ARRAYS, Y = make(m=60, sizes=(6, 4))
MEMBERS = [cv.MvDA(2, reg=0.1), make_pipeline(cv.ViewScaler(), cv.ViewPCA(3), cv.KMvHE(4)), cv.CCA(3)]


def unit(Z):
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def test_a_committee_of_one_equals_its_member_up_to_scale():
    member = cv.MvHE(4).fit(ARRAYS, Y)
    committee = cv.Committee([cv.MvHE(4)]).fit(ARRAYS, Y)
    for Z, latent in zip(committee.transform(ARRAYS), member.transform(ARRAYS), strict=True):
        np.testing.assert_allclose(Z, unit(latent), atol=1e-12)
    assert committee.score(ARRAYS, Y) == cv.metrics.mean_accuracy(member.transform(ARRAYS), Y, "cosine")


def test_latents_are_those_of_the_members_side_by_side():
    committee = cv.Committee(MEMBERS).fit(ARRAYS, Y)
    alone = [clone(member).fit(ARRAYS, Y).transform(ARRAYS) for member in MEMBERS]
    for v, Z in enumerate(committee.transform(ARRAYS)):
        np.testing.assert_allclose(Z, np.hstack([unit(latents[v]) for latents in alone]), atol=1e-12)
        np.testing.assert_array_equal(committee.transform_view(ARRAYS[v], v), Z)
    assert committee.n_components_ == 9


def test_missing_samples_and_containers():
    views = cv.Views(ARRAYS, names=["photo", "sketch"], mask=np.arange(120).reshape(60, 2) % 7 > 0)
    committee = cv.Committee(MEMBERS).fit(views, Y)
    latents = committee.transform(views)
    assert isinstance(latents, cv.Views)
    np.testing.assert_array_equal(latents.mask, views.mask)
    np.testing.assert_array_equal(np.isnan(latents["photo"]).all(axis=1), ~views.mask[:, 0])


def test_a_matcher_takes_a_clone():
    committee = clone(cv.Committee(MEMBERS))
    assert [type(member) for member in committee.members] == [type(member) for member in MEMBERS]
    assert committee.get_params(deep=False).keys() == {"members"}
    matcher = cv.CrossViewClassifier(committee).fit(ARRAYS, Y).enroll(ARRAYS[0], Y, 0)
    assert matcher.score(ARRAYS[1], Y, 1) > 0.5


def test_tags_and_kernel_matrices():
    kernels = [rbf_kernel(X) for X in ARRAYS]
    committee = cv.Committee(
        [cv.KMvHE(4, kernel="precomputed"), make_pipeline(cv.ViewKernel("precomputed"), cv.MvDA(2))]
    )
    search = cv.EmbeddingSearchCV(cv.KMvHE(4, kernel="precomputed"), {"beta": [0.1, 1.0]}, n_members=2, cv=2)
    for embedding in (committee, search):
        assert get_tags(embedding).input_tags.pairwise
        matcher = cv.CrossViewClassifier(embedding, calibration_folds=3).fit(kernels, Y)
        assert get_tags(matcher).input_tags.pairwise
        np.testing.assert_allclose(matcher.predict_proba(kernels).sum(axis=1), 1.0)
    for embedding in (cv.Committee(MEMBERS), cv.EmbeddingSearchCV(make_pipeline(cv.ViewScaler(), cv.CCA()), {})):
        tags = get_tags(embedding)
        assert tags.target_tags.required  # to score, even if the method does not need labels
        assert not tags.input_tags.two_d_array
        assert not tags.input_tags.pairwise


@pytest.mark.parametrize("members", [[], None, cv.MvDA()])
def test_members_must_be_embeddings(members):
    with pytest.raises(ValueError, match="members must be a list of one or more embeddings"):
        cv.Committee(members).fit(ARRAYS, Y)
