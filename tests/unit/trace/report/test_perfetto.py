import gzip
import json
from collections import defaultdict
from itertools import pairwise

import pytest

from benchorch.trace.report import perfetto
from support.analyzed_traces import HOSTILE, analysed, host, launched, trace_file, two_layers


def written(folder, events):
    analysis = analysed(trace_file(folder / "trace.json", events))
    return analysis, json.loads(gzip.decompress(perfetto.perfetto(analysis)))["traceEvents"]


def slices(events):
    """Start and end in ns, by track, in the order of the file."""
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            found[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    return found


@pytest.mark.parametrize("names", [("aten::mm", "aten::relu", "gemm", "relu"), HOSTILE])
def test_the_first_track_tiles_the_steps_exactly(tmp_path, names):
    analysis, shown = written(tmp_path, two_layers(names))
    tiles = slices(shown)[0, 1]
    assert [end for _, end in tiles[:-1]] == [start for start, _ in tiles[1:]]
    assert sum(end - start for start, end in tiles) == analysis.path.length_ns


def test_no_two_slices_of_a_track_overlap_in_part(tmp_path):
    events = [
        *two_layers(),
        host("aten::outlives", 850, 120),  # its parent ends at 900
        *launched("beside", 145, 380, 400, 14),  # while another runs on the same stream
    ]
    analysis, shown = written(tmp_path, events)
    own = [event for event in shown if event["ph"] == "X" and event["pid"] > 0]
    assert len(own) == len(analysis.events)
    for spans in slices(shown).values():
        open_until = []
        for start, end in spans:
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1]
            open_until.append(end)


def test_arrows_lead_from_launches_to_their_work_and_along_the_path(tmp_path):
    _, shown = written(tmp_path, two_layers())
    begun = {event["id"]: event for event in shown if event["ph"] == "s"}
    ended = {event["id"]: event for event in shown if event["ph"] == "f"}
    assert {event["name"] for event in begun.values()} == {"launch", "critical path"}
    assert begun.keys() == ended.keys()
    tracks = slices(shown)
    for number, event in begun.items():
        assert (event["pid"], event["tid"]) != (ended[number]["pid"], ended[number]["tid"])
        for end in (event, ended[number]):
            at = round(end["ts"] * 1000)
            assert any(a <= at <= b for a, b in tracks[end["pid"], end["tid"]])


def test_slices_of_the_path_have_their_class_and_cause(tmp_path):
    _, shown = written(tmp_path, two_layers())
    said = [e["args"] for e in shown if e["ph"] == "X" and (e["pid"], e["tid"]) == (0, 1)]
    assert {"gpu_compute", "cpu_compute"} <= {one["class"] for one in said}
    assert {one["cause"] for one in said} >= {"device compute"}


def test_of_a_long_trace_only_the_longest_events_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_EVENTS", 5)
    analysis, shown = written(tmp_path, two_layers())
    assert len([event for event in shown if event["ph"] == "X" and event["pid"] > 0]) <= 5
    causes = [event["args"]["cause"] for event in shown if event["ph"] == "X" and "args" in event]
    assert len(causes) < len(analysis.path)
    assert all(one != other for one, other in pairwise(causes))
    assert sum(end - start for start, end in slices(shown)[0, 1]) == analysis.path.length_ns


def test_the_same_analysis_gives_the_same_bytes(tmp_path):
    analysis, _ = written(tmp_path, two_layers())
    assert perfetto.perfetto(analysis) == perfetto.perfetto(analysis)
