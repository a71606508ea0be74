import gzip
import json

import pytest

from benchorch.trace.attribution.owners import owners
from benchorch.trace.critical_path.slack import slack
from benchorch.trace.report import perfetto
from benchorch.trace.report.ancestry import ancestry
from benchorch.trace.report.path_segments import path_segments
from support.analyzed_traces import HOSTILE, analysed, host, trace_file, two_layers


def written(folder, events):
    analysis = analysed(trace_file(folder / "trace.json", events))
    above = ancestry(analysis.events, owners(analysis.events))
    path = folder / "perfetto.json.gz"
    along = path_segments(analysis, above)
    perfetto.write_perfetto(analysis, along, above, slack(analysis.dag), path)
    return analysis, path


def read(path):
    return json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]


def nanoseconds(us):
    return round(us * 1000)


def slices(events, process, track):
    chosen = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == (process, track)]
    return [(nanoseconds(e["ts"]), nanoseconds(e["dur"])) for e in chosen]


@pytest.mark.parametrize("names", [("aten::mm", "aten::relu", "gemm", "relu"), HOSTILE])
def test_read_again_the_first_track_tiles_the_window_exactly(tmp_path, names):
    analysis, path = written(tmp_path, two_layers(names))
    tiles = slices(read(path), 0, perfetto.PATH_TRACK)
    origin_ns = int(analysis.events.start_ns.min())
    at_ns = analysis.dag.window.start_ns - origin_ns
    for start_ns, length_ns in tiles:
        assert start_ns == at_ns
        at_ns += length_ns
    assert sum(length_ns for _, length_ns in tiles) == analysis.dag.makespan_ns
    assert at_ns == int(analysis.dag.time_ns[-1]) - origin_ns


def test_every_event_is_on_its_lane_and_none_outlives_the_one_around_it(tmp_path):
    events = [*two_layers(), host("aten::outlives", 850, 120)]  # its parent ends at 900
    analysis, path = written(tmp_path, events)
    shown = read(path)
    own = [event for event in shown if event["ph"] == "X" and event["pid"] > 0]
    assert len(own) == len(analysis.events)
    for number in range(1, len(analysis.events.lanes) + 1):
        for process in (1, 2):
            spans = slices(shown, process, number)
            for start, length in spans:
                for other, other_length in spans:
                    inside = other >= start and other + other_length <= start + length
                    around = other <= start and other + other_length >= start + length
                    apart = other >= start + length or other + other_length <= start
                    assert inside or around or apart


def test_an_arrow_leads_from_each_lane_to_the_next(tmp_path):
    _, path = written(tmp_path, two_layers())
    shown = read(path)
    begun = {event["id"]: event for event in shown if event["ph"] == "s"}
    ended = {event["id"]: event for event in shown if event["ph"] == "f"}
    assert begun
    assert begun.keys() == ended.keys()
    for number, event in begun.items():
        assert (event["pid"], event["tid"]) != (ended[number]["pid"], ended[number]["tid"])
        assert event["ts"] <= ended[number]["ts"]


def test_slices_of_the_path_have_their_class_and_module(tmp_path):
    _, path = written(tmp_path, two_layers())
    said = [e["args"] for e in read(path) if e["ph"] == "X" and (e["pid"], e["tid"]) == (0, 1)]
    assert {"gpu_compute", "cpu_compute"} <= {one["class"] for one in said}
    assert {one["module"] for one in said} >= {"encoder.0", "encoder.1"}


def test_of_a_long_trace_only_what_lies_in_nothing_else_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(perfetto, "MOST_EVENTS", 5)
    analysis, path = written(tmp_path, two_layers())
    shown = read(path)
    assert len([event for event in shown if event["ph"] == "X" and event["pid"] > 0]) <= 5
    tiles = slices(shown, 0, perfetto.PATH_TRACK)
    assert sum(length for _, length in tiles) == analysis.dag.makespan_ns


def test_the_same_analysis_gives_the_same_bytes(tmp_path):
    _, path = written(tmp_path, two_layers())
    first = path.read_bytes()
    _, path = written(tmp_path, two_layers())
    assert path.read_bytes() == first
