from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchorch.trace.events import NOTHING
from benchorch.trace.nesting import Spans, nest
from benchorch.trace.readers.open import read_events
from support.trace_files import event, write


def spans_of(rows: list[tuple[int, int, int]]) -> Spans:
    lane, start, duration = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Spans(lane=lane.astype(np.int32), start_ns=start, end_ns=start + duration)


def by_stack(spans: Spans) -> tuple[list[int], list[int], list[int]]:
    """Parents, depths and ends one after another: what `nest` must give."""
    lane, start, end = spans.lane.tolist(), spans.start_ns.tolist(), spans.end_ns.tolist()
    order = sorted(range(len(lane)), key=lambda i: (lane[i], start[i], -end[i], i))
    parent, depth, stack = [NOTHING] * len(lane), [0] * len(lane), []
    for i in order:
        while stack and (lane[stack[-1]] != lane[i] or end[stack[-1]] <= start[i]):
            stack.pop()
        if stack:
            parent[i], end[i] = stack[-1], min(end[i], end[stack[-1]])
        depth[i] = len(stack)
        stack.append(i)
    return parent, depth, end


def rows(most: int) -> st.SearchStrategy[list[tuple[int, int, int]]]:
    moment = st.integers(0, most)
    return st.lists(st.tuples(st.integers(0, 2), moment, moment), max_size=25)


@settings(max_examples=400, deadline=None)
@given(rows(12))
def test_nesting_is_what_a_stack_gives(drawn: list[tuple[int, int, int]]) -> None:
    spans = spans_of(drawn)
    found = nest(spans)
    parent, depth, end = by_stack(spans)
    assert found.parent.tolist() == parent
    assert found.depth.tolist() == depth
    assert found.end_ns.tolist() == end
    assert found.clipped == int((spans.end_ns != end).sum())


@settings(max_examples=100, deadline=None)
@given(rows(2**60))
def test_times_may_be_as_far_apart_as_they_like(drawn: list[tuple[int, int, int]]) -> None:
    spans = spans_of(drawn)
    found = nest(spans)
    assert (found.parent.tolist(), found.depth.tolist(), found.end_ns.tolist()) == by_stack(spans)


def test_no_spans_nest_in_nothing() -> None:
    found = nest(spans_of([]))
    assert len(found.parent) == len(found.depth) == len(found.end_ns) == found.clipped == 0


def test_a_long_chain_of_overlaps_ends_where_a_stack_would() -> None:
    spans = spans_of([(0, 7 * k, 10) for k in range(200)])
    found = nest(spans)
    assert (found.parent.tolist(), found.depth.tolist(), found.end_ns.tolist()) == by_stack(spans)


def test_of_equal_events_the_annotation_is_outside(tmp_path: Path) -> None:
    pair = [event("cpu_op", "operator", 1, 5), event("user_annotation", "range", 1, 5)]
    for records in (pair, pair[::-1]):
        events = read_events(write(tmp_path / "t.json", records))
        names = [events.names[index] for index in events.name]
        assert nest(events).depth[names.index("range")] == 0
        assert nest(events).parent[names.index("operator")] == names.index("range")
