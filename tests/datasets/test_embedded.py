from __future__ import annotations

import numpy as np
import sklearn.datasets

import crossview as cv


def test_digits_are_two_halves_of_one_image():
    data = cv.datasets.load_digits()
    assert data.view_names == ["left", "right"]
    assert data.image_shape == (8, 4)
    assert data.class_names == list("0123456789")
    halves = [X.reshape(-1, 8, 4) for X in data.views.arrays]
    np.testing.assert_array_equal(np.concatenate(halves, axis=2), sklearn.datasets.load_digits().images)
    assert len(data.y) == len(data.views)
    assert data.description
    assert "Alpaydin" in data.citation
