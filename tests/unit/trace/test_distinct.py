from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchorch.trace.distinct import ascending, distinct


@given(values=st.lists(st.integers(-3, 9) | st.integers(-(2**40), 2**40), max_size=60))
def test_counted_or_sorted_the_values_are_those_of_unique(values: list[int]) -> None:
    column = np.array(values, dtype=np.int64)
    found = distinct(column)
    expected = np.unique(column, return_index=True, return_inverse=True)
    for ours, theirs in zip((found.values, found.first, found.place), expected, strict=True):
        assert ours.tolist() == theirs.tolist()
    assert ascending(column).tolist() == np.argsort(column, kind="stable").tolist()
