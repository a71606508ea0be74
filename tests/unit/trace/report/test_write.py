import base64
import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from benchorch.errors import StoreError
from benchorch.trace.analysis import analyze
from benchorch.trace.operators.graph import OperatorGraph, OperatorNode
from benchorch.trace.report.timeline import allocated
from benchorch.trace.report.write import write
from benchorch.trace.whatif.basis import Selector
from benchorch.trace.whatif.predict import predict
from benchorch.trace.whatif.transforms import Change
from support.analyzed_traces import HOSTILE, analysed, trace_file, two_layers

MOST_PAGE_BYTES = 3_000_000
GRAPH = OperatorGraph(
    name="main</script>",
    nodes=tuple(
        OperatorNode(name=name, op=name, inputs=HOSTILE[max(place - 1, 0) : place])
        for place, name in enumerate(HOSTILE)
    ),
    source="onnx",
)


class Page(HTMLParser):
    """What a browser would make elements of."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.scripts, self.styles = [], "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open = tag

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        if self.open in {"script", "style"}:
            (self.scripts if self.open == "script" else self.styles).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def faster(analysis, name="../../faster"):
    changes = [Change(effect="speedup", select=Selector(op=HOSTILE[0]), value=2.0)]
    return predict(analysis, changes, name=name)


@pytest.fixture(scope="module", params=["no graph", "model's graph"])
def folder(request, tmp_path_factory):
    """Everything that is written of a trace whose every name is hostile."""
    folder = tmp_path_factory.mktemp("written")
    trace = trace_file(folder / "trace.json", two_layers(HOSTILE))
    graph = None if request.param == "no graph" else GRAPH
    analysis = analysed(trace, graph)
    paths = write(analysis, folder / "out", predictions=[faster(analysis)])
    return analysis, folder / "out", paths


def test_the_index_comes_last_and_lists_every_file_as_it_is(folder):
    _, out, paths = folder
    assert paths[-1] == out / "index.json"
    index = json.loads(paths[-1].read_text())
    listed = {entry["path"]: entry["sha256"] for entry in index["files"]}
    there = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert there == set(listed) | {"index.json"}
    for name, digest in listed.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest


def test_no_name_leads_out_of_the_directory(folder):
    _, out, paths = folder
    assert all(path.resolve().is_relative_to(out.resolve()) for path in paths)
    assert all(re.fullmatch(r"[\w.-]+", path.name) for path in paths)


def test_totals_of_every_file_are_the_makespan(folder):
    analysis, out, _ = folder
    makespan_ns = analysis.path.length_ns
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["makespan_ns"], summary["path_ns"]) == (makespan_ns, makespan_ns)
    assert summary["period_ns"] == makespan_ns
    assert sum(summary["classes"].values()) == makespan_ns
    assert sum(summary["verdict"]["shares"].values()) == pytest.approx(1)
    for rows in summary["tables"].values():
        assert sum(row["on_path_ns"] for row in rows) == makespan_ns
    segments = json.loads((out / "path.json").read_text())["segments"]
    assert sum(segments["duration_ns"]) == makespan_ns
    assert len({len(column) for column in segments.values()}) == 1


def test_the_verdict_is_whole_and_a_prediction_can_be_read_again(folder):
    _, out, _ = folder
    verdict = json.loads((out / "summary.json").read_text())["verdict"]
    assert set(verdict) >= {"limit", "sentence", "advice", "gains", "shares", "length", "cause"}
    (predicted,) = (out / "whatif").glob("*.json")
    said = json.loads(predicted.read_text())
    assert 0 < said["predicted_ns"] < said["makespan_ns"]
    assert said["low_ns"] <= said["predicted_ns"] <= said["high_ns"]


def test_the_page_is_one_small_file_that_runs_one_script_and_names_do_nothing(folder):
    _, out, _ = folder
    text = (out / "report.html").read_text()
    page = Page(text)
    assert len(text.encode()) <= MOST_PAGE_BYTES
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not [a for _, a in page.elements for name in a if name.startswith("on")]
    assert not [a for _, a in page.elements if "style" in a]
    loaded = [a.get("src") or a.get("href", "") for _, a in page.elements]
    assert not [
        address
        for address in loaded
        if address and address[0] != "#" and ":" in address and address != "data:,"
    ]


def test_the_page_s_policy_allows_its_own_script_and_style_and_nothing_else(folder):
    _, out, _ = folder
    page = Page((out / "report.html").read_text())
    (policy,) = [m["content"] for m in page.all("meta") if "http-equiv" in m]

    def digest(text):
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert "default-src 'none'" in policy
    assert f"script-src '{digest(page.scripts[-1])}'" in policy
    assert f"style-src '{digest(page.styles[0])}'" in policy
    assert "unsafe" not in policy


def test_the_page_begins_with_the_verdict_and_what_it_rests_on(folder):
    analysis, out, _ = folder
    body = (out / "report.html").read_text().partition("<body>")[2]
    words = re.sub(r"<[^>]+>", "\n", body).strip().splitlines()
    said = [line for line in words if line.strip()]
    assert said[0].split()[0] == analysis.verdict.sentence.split()[0]
    assert any(line.startswith("Evidence for lengths") for line in said[:3])


def test_tables_survive_names_that_are_markup_or_formulas(folder):
    analysis, out, _ = folder
    rows = list(csv.reader(io.StringIO((out / "table.csv").read_text())))
    assert {len(row) for row in rows} == {len(rows[0])}
    assert not [cell for row in rows for cell in row if cell[:1] in {"=", "@", "+"}]
    said = (out / "table.md").read_text()
    assert not re.search(r"(?<!\\)<(script|img|svg)", said)
    assert len(rows) - 1 == sum(map(len, analysis.tables.values()))


def test_the_same_analysis_written_again_is_the_same(folder, tmp_path):
    analysis, out, paths = folder
    again = write(analysis, tmp_path, predictions=[faster(analysis)])
    for old, new in zip(paths, again, strict=True):
        assert old.relative_to(out) == new.relative_to(tmp_path)
        assert old.read_bytes() == new.read_bytes()


def test_what_ifs_of_one_name_have_files_of_their_own(folder, tmp_path):
    analysis, _, _ = folder
    asked = [faster(analysis, name) for name in ("same", "same", "Same")]
    paths = write(analysis, tmp_path, predictions=asked)
    written = [path.name for path in paths if path.parent.name == "whatif"]
    assert written == ["same.json", "same_2.json", "Same_3.json"]
    assert len(set(paths)) == len(paths)


def test_a_directory_that_cannot_be_made_is_an_error(folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        write(folder[0], tmp_path / "file" / "below")


def test_warnings_are_on_the_page(folder, tmp_path):
    write(replace(folder[0], warnings=("Look <here>.",)), tmp_path)
    assert "Look &lt;here&gt;." in (tmp_path / "report.html").read_text()


def test_every_device_is_on_the_page_with_its_process(folder, tmp_path):
    given = folder[0].devices[0]
    devices = [
        replace(given, device=0, process=str(process), step=step)
        for process in range(1, 9)
        for step in range(10)
    ]
    write(replace(folder[0], devices=tuple(devices)), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert all(f"<td>0 of process {process}</td><td>4</td>" in page for process in range(1, 9))
    assert "<p>40 more in summary.json.</p>" in page


def test_a_model_that_the_trace_has_nothing_of_is_said_and_not_drawn(tmp_path):
    other = OperatorGraph(name="other", nodes=(OperatorNode(name="far", op="Far"),), source="onnx")
    analysis = analysed(trace_file(tmp_path / "trace.json", two_layers()), other)
    paths = write(analysis, tmp_path / "out")
    assert analysis.matched_ratio == 0
    assert "No node of the model" in " ".join(analysis.warnings)
    assert not [path for path in paths if path.parent.name == "model_explorer"]


def test_a_what_if_has_the_model_s_nodes_with_their_new_times(tmp_path):
    graph = OperatorGraph(
        name="main",
        nodes=(
            OperatorNode(name="one", op="MatMul"),
            OperatorNode(name="two", op="Relu", inputs=("one",)),
        ),
        source="onnx",
    )
    analysis = analysed(trace_file(tmp_path / "trace.json", two_layers()), graph)
    predicted = predict(
        analysis,
        [Change(effect="speedup", select=Selector(op="aten::mm"), value=2.0)],
        name="mm twice as fast",
    )
    before = {row.name: row for row in analysis.tables["graph nodes"][:-1]}
    after = {row.name: row for row in predicted.nodes}
    assert after["one"].total_ns == before["one"].total_ns / 2
    assert after["two"].total_ns == before["two"].total_ns
    write(analysis, tmp_path / "out", predictions=[predicted])
    (data,) = (tmp_path / "out/model_explorer").glob("main.whatif.*.total_us.json")
    results = json.loads(data.read_text())["main"]["results"]
    assert results["one"]["value"] == after["one"].total_ns / 1_000


def memory(at_us, size, device=-1):
    given = {"Total Allocated": size, "Device Type": 0 if device < 0 else 1, "Device Id": device}
    row = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]"}
    return {**row, "ts": at_us, "args": given}


def step(number):
    return {
        **{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}"},
        **{"pid": 1, "tid": 1, "ts": 100 * number, "dur": 100},
    }


def test_the_peak_of_memory_is_drawn_however_many_values_there_are(tmp_path):
    rows = [step(number) for number in range(4)]
    peak = {3_334: 8 << 30}
    rows += [memory(100 + at * 0.04, peak.get(at, 1 << 30)) for at in range(7_000)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    (drawn,) = allocated(analyze(path))
    assert drawn["most"] == "8.0 GiB"
    assert drawn["line"].count("V0.0") == 1
    assert drawn["line"].count("H") < 3_100


@pytest.mark.parametrize(("longer", "kind"), [(100, "median"), (160, "mean")])
def test_the_page_says_whether_the_period_is_the_median_or_the_mean(tmp_path, longer, kind):
    lengths = [100, longer] * 4
    rows = [
        {**step(number), "ts": sum(lengths[:number]), "dur": length}
        for number, length in enumerate(lengths)
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    write(analyze(path), tmp_path / "out")
    assert f"{kind} steady period" in (tmp_path / "out" / "report.html").read_text()


def test_memory_over_time_is_drawn_from_zero_where_it_was_recorded(tmp_path):
    rows = [step(number) for number in range(4)]
    rows += [memory(150, 3 << 20), memory(250, 1 << 20), memory(260, 5 << 20, 0)]
    rows += [memory("?", 1), memory(270, "?")]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    analysis = analyze(path)
    assert analysis.events.allocated["host"].tolist() == [[150_000, 3 << 20], [250_000, 1 << 20]]
    write(analysis, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "0 to 3.0 MiB" in page
    assert "device 0" in page
