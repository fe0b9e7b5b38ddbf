import numpy as np

import crossview as cv


def test_representations_are_short():
    data = cv.datasets.load_digits()
    start = "Dataset(views=Views(1797 samples; left: 32 features, right: 32 features), description='"
    assert repr(data).startswith(start)
    assert len(repr(data)) < 400
    page = data._repr_html_()
    assert "1797 samples of 10 classes" in page
    assert "<td>left</td><td>32</td>" in page
    views = cv.Views({"<i>": np.eye(2), "b": [[np.nan], [1.0]]})
    page = cv.datasets.Dataset(views, np.array([0, 1]), ["a", "b"])._repr_html_()
    assert "<td>&lt;i&gt;</td><td>2</td>" in page
    assert "<td>b</td><td>1</td>" in page
