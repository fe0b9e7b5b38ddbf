from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import crossview as cv
from crossview._config import for_workers

DEFAULTS = {"device": None, "progress": False}


def test_what_is_not_given_stays_as_it_is_and_all_comes_back():
    pytest.importorskip("torch")
    with cv.config_context(progress=True):
        with cv.config_context(device="cpu"):
            assert cv.get_config() == {"device": "cpu", "progress": True}
            cv.set_config(progress=False)
            assert cv.get_config() == {"device": "cpu", "progress": False}
            with cv.config_context(device=None):
                assert cv.get_config() == DEFAULTS
        assert cv.get_config() == {"device": None, "progress": True}
        with pytest.raises(KeyError), cv.config_context(progress=False):
            raise KeyError
        for wrong in (1, "yes", None):
            with pytest.raises(ValueError, match=f"progress must be True or False, got {wrong!r}"):
                cv.set_config(progress=wrong)
        assert cv.get_config()["progress"]
    assert cv.get_config() == DEFAULTS


def test_threads_start_with_the_defaults_and_workers_with_the_device():
    pytest.importorskip("torch")
    with cv.config_context(device="cpu", progress=True), ThreadPoolExecutor(1) as pool:
        assert pool.submit(cv.get_config).result() == DEFAULTS
        assert pool.submit(for_workers(cv.get_config)).result() == {"device": "cpu", "progress": False}
        assert pool.submit(cv.get_config).result() == DEFAULTS


class OnDevice(cv.PCA):
    """PCA of the device in use: it fails elsewhere."""

    def fit(self, views, y=None):
        if cv.get_config() != {"device": "cpu", "progress": False}:
            raise ValueError("not configured")
        return super().fit(views, y)

    def _refitter(self, views, y, settings):
        return lambda setting: type(self)(**setting).fit(views, y)


def test_searches_pass_the_device_on():
    pytest.importorskip("torch")
    y = np.repeat(np.arange(8), 6)
    X = np.random.default_rng(0).normal(size=(48, 5)) + y[:, None]
    search = cv.EmbeddingSearchCV(OnDevice(), {"n_components": [2, 3]}, n_jobs=2, refit=False)
    with cv.config_context(device="cpu"):
        search.fit([X, X + 1.0], y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
