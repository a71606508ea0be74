"""``benchorch analyze``: any trace a user brings, told as a verdict, a table and files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchorch.cli.commands import analyze
from benchorch.errors import ConfigError, TraceError
from support.trace_lab import generator, kineto, simulator


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("profile") / "trace.json.gz"
    return kineto.write(simulator.simulate(generator.draw(3)), path)


@pytest.fixture
def silent():
    said: list[str] = []
    return said.append


def test_the_verdict_the_gains_and_the_files_are_told(trace, tmp_path, silent):
    reply = analyze.run.reply([str(trace), "--out", str(tmp_path / "out")], progress=silent)
    told = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert reply.exit_code == 0
    assert told["verdict"]["sentence"] in reply.text
    assert told["tables"]["operators"][0]["name"] in reply.text
    assert f"look      {tmp_path}/out/report.html" in reply.text
    assert told["makespan_ns"] == told["path_ns"] == sum(told["classes"].values()) > 0


def test_programs_get_the_summary_the_what_ifs_and_the_files(trace, tmp_path, silent):
    out = tmp_path / "out"
    plain = analyze.run.reply([str(trace), "--json", "--out", str(out)], progress=silent)
    costly = plain.data["tables"]["operators"][0]["name"]
    asked = tmp_path / "speedups.json"
    asked.write_text(json.dumps({"speedups": [{"op_type": costly, "speedup": 2}]}))
    reply = analyze.run.reply(
        [str(trace), "--json", "--whatif", str(asked), "--out", str(out)], progress=silent
    )
    [predicted] = reply.data["whatifs"]
    assert predicted["makespan_ns"] == reply.data["period_ns"]
    assert predicted["predicted_ns"] < predicted["makespan_ns"]
    assert all(Path(file).is_file() for file in reply.data["files"])
    assert json.loads(json.dumps(reply.data)) == reply.data


def test_two_what_ifs_of_one_name_are_both_told_and_kept(trace, tmp_path, silent):
    asked = []
    for speedup in (2, 4):
        path = tmp_path / str(speedup) / "faster.yaml"
        path.parent.mkdir()
        path.write_text(f"changes: [{{host: {speedup}}}]")
        asked += ["--whatif", str(path)]
    reply = analyze.run.reply(
        [str(trace), "--json", *asked, "--out", str(tmp_path / "out")], progress=silent
    )
    files = [tmp_path / "out" / "whatif" / name for name in ("faster.json", "faster_2.json")]
    assert [json.loads(file.read_text()) for file in files] == reply.data["whatifs"]
    first, second = reply.data["whatifs"]
    assert second["predicted_ns"] < first["predicted_ns"]


def test_a_trials_directory_stands_for_its_profile(trace, tmp_path, silent):
    reply = analyze.run.reply(
        [str(trace.parent), "--json", "--out", str(tmp_path / "out")], progress=silent
    )
    direct = analyze.run.reply(
        [str(trace), "--json", "--out", str(tmp_path / "out")], progress=silent
    )
    assert reply.data == direct.data


def test_a_difference_is_split_into_causes_that_sum_to_it(trace, tmp_path, silent):
    other = kineto.write(simulator.simulate(generator.draw(4)), tmp_path / "other.json")
    reply = analyze.run.reply(["--diff", str(trace), str(other)], progress=silent)
    data = reply.data
    assert sum(data["causes"].values()) == data["difference_ns"]
    assert (
        sum(row["second_ns"] - row["first_ns"] for row in data["changes"]) == data["difference_ns"]
    )
    assert "Of the" in reply.text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "takes the TRACE of each rank"),
        (["gone.json"], "there is no trace"),
        (["{trace}", "--diff", "{trace}", "{trace}"], "takes the TRACE of each rank"),
        (["--diff", "{trace}", "{trace}", "--out", "x"], "--output are of one"),
        (["{trace}", "--model", "gone.onnx"], "there is no gone.onnx"),
        (["{trace}", "--model", "{trace}"], "expected a .onnx or .pt2 file"),
        (["{trace}", "--out", "{trace}"], "is a file"),
        (["{empty}"], "holds no profile"),
    ],
)
def test_words_that_make_no_sense_are_refused_with_a_sentence(
    trace, tmp_path, silent, words, told, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    known = {"trace": trace, "empty": tmp_path}
    with pytest.raises(ConfigError, match=told):
        analyze.run.reply([word.format(**known) for word in words], progress=silent)


@pytest.mark.parametrize(
    ("words", "told"),
    [(["--range", "nothing*"], "nothing"), (["--call", "1000"], "There is no step 1000")],
)
def test_a_call_that_is_not_there_is_refused_with_those_that_are(
    trace, tmp_path, silent, words, told
):
    with pytest.raises(TraceError, match=told):
        analyze.run.reply([str(trace), "--out", str(tmp_path / "out"), *words], progress=silent)


def test_the_ranges_that_can_be_named_are_listed(trace, silent):
    reply = analyze.run.reply([str(trace), "--list-ranges"], progress=silent)
    assert "ProfilerStep#0" in {one["name"] for one in reply.data["ranges"]}
    with pytest.raises(ConfigError, match="nothing else"):
        analyze.run.reply([str(trace), "--list-ranges", "--out", "x"], progress=silent)


def test_a_file_that_is_no_trace_is_refused(tmp_path, silent):
    path = tmp_path / "notes.json"
    path.write_text('{"hello": 1}')
    with pytest.raises(TraceError, match=r"notes\.json"):
        analyze.run.reply([str(path), "--out", str(tmp_path / "out")], progress=silent)


def test_neither_torch_nor_onnx_is_loaded(trace, tmp_path):
    code = (
        "import sys\n"
        "for name in ('torch', 'onnx', 'onnxruntime', 'transformers'): sys.modules[name] = None\n"
        "from benchorch.cli import main\n"
        f"sys.exit(main.run(['analyze', {str(trace)!r}, '--out', {str(tmp_path / 'out')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "report.html").stat().st_size > 1000
