"""Accuracy on real faces: CMU PIE, case 4, with everything chosen on training people."""

import os
from pathlib import Path

import numpy as np
import pytest

import crossview as cv

FOLDER = Path(os.environ.get("CROSSVIEW_DATA", "")) / "cmu-pie"


@pytest.mark.skipif(
    "CROSSVIEW_DATA" not in os.environ or not FOLDER.is_dir(),
    reason="needs CMU PIE: set CROSSVIEW_DATA to a folder that holds cmu-pie/C05.mat, C27.mat and C29.mat",
)
def test_search_on_training_people_is_good_for_others():
    data = cv.datasets.load_cmu_pie(FOLDER, case=4)
    scores = []
    for repeat, (train, test) in enumerate(cv.ClassSplit(train_size=45, random_state=0).split(data.views, data.y)):
        search = cv.tune("MvHE", data.views[train], data.y[train], random_state=repeat, cv="classes")
        scores.append(search.score(data.views[test], data.y[test]))
    print(f"mACC over ten splits of people: MvHE {100 * np.mean(scores):.1f} ± {100 * np.std(scores):.1f}")
    assert np.mean(scores) >= 0.87
