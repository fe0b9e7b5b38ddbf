"""Accuracy on real images: COIL-100, case 2, by the paper's protocol."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import crossview as cv
from paper.data import load_coil100

FOLDER = Path(os.environ.get("CROSSVIEW_DATA", "")) / "coil-100"

pytestmark = pytest.mark.skipif(
    "CROSSVIEW_DATA" not in os.environ or not FOLDER.is_dir(),
    reason="needs COIL-100: set CROSSVIEW_DATA to a folder that holds coil-100/objN__D.png",
)


def test_mvhe_reaches_the_accuracy_of_the_prototype():
    data = load_coil100(FOLDER, case=2)
    views, y = data.views, data.y
    reduce = make_pipeline(cv.ViewScaler(), cv.ViewPCA(80))
    model = cv.MvHE(20, lambda_intra=0.01, lambda_inter=0.05, beta=0.3, n_within=1, n_between=15)
    mvhe, pca = [], []
    for repeat in range(10):
        chosen = np.random.default_rng(repeat).choice(np.unique(y), size=70, replace=False)
        train = np.isin(y, chosen)
        latent = reduce.fit(views[train]).transform(views)
        mvhe.append(model.fit(latent[train], y[train]).score(latent[~train], y[~train]))
        pca.append(cv.metrics.mean_accuracy(latent[~train], y[~train]))
    print(f"mACC over ten class splits: MvHE {100 * np.mean(mvhe):.1f} ± {100 * np.std(mvhe):.1f}, ", end="")
    print(f"PCA {100 * np.mean(pca):.1f} ± {100 * np.std(pca):.1f}")
    assert np.mean(mvhe) >= 0.77
    assert 0.54 <= np.mean(pca) <= 0.61
