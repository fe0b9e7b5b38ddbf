import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paper.outliers import permute_labels


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), ratio=st.floats(0, 1))
def test_permuted_labels(seed, ratio):
    y = np.repeat(np.arange(30), 2)
    permuted = permute_labels(y, ratio, seed)
    np.testing.assert_array_equal(permuted, permute_labels(y, ratio, seed))
    np.testing.assert_array_equal(np.sort(permuted), y)
    assert (permuted != y).sum() <= round(60 * ratio)
    np.testing.assert_array_equal(y, np.repeat(np.arange(30), 2))


def test_most_chosen_labels_change():
    y = np.repeat(np.arange(100), 2)
    assert 0.35 < np.mean(permute_labels(y, 0.4, 0) != y) <= 0.4


@pytest.mark.parametrize("ratio", [-0.1, 1.5, True, "all"])
def test_the_ratio_is_a_share(ratio):
    with pytest.raises(ValueError, match="ratio must be a share from 0 to 1"):
        permute_labels([0, 1], ratio)
