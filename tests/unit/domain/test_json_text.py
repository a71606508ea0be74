"""JSON text in pieces is that of the standard library."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchorch.domain.json_text import indented

_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(_VALUES)
def test_text_is_that_of_json_dumps(value):
    assert "".join(indented(value)) == json.dumps(value, indent=2)


@given(_VALUES)
def test_shared_nodes_are_spelled_wherever_they_are(node):
    value = {"a": node, "b": [node, {"c": node}, (node, node)], "d": {"e": [node]}}
    assert "".join(indented(value)) == json.dumps(value, indent=2)


def test_a_value_that_is_not_json_is_refused():
    with pytest.raises(TypeError, match="not JSON serializable"):
        "".join(indented({"a": [object()]}))
