"""``benchorch analyze TRACE``: why a profiled program is as slow as it is, and what would help.

Any profile will do: of torch.profiler, of ONNX Runtime, or an Nsight Systems export; and the report
of a Lightning Trainer's profiler, as a table. Neither torch nor the program itself is needed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

from benchorch.cli.commands.lightning_profile import lightning_reply
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.frameworks.lightning_report import read_lightning_reports
from benchorch.units import format_bytes, format_seconds, ns_to_s

if TYPE_CHECKING:
    from benchorch.domain.codec import Json
    from benchorch.trace.analysis import Analysis
    from benchorch.trace.comparison.diff import MakespanDifference
    from benchorch.trace.operators.graph import OperatorGraph
    from benchorch.trace.operators.roofline import Peaks
    from benchorch.trace.whatif.prediction import Prediction

Say = Callable[[str], None]

ROWS_SHOWN = 10
_TRACE_NAMES = ("trace.json.gz", "trace.json", "trace.sqlite", "*.json.gz", "*.sqlite")


def run(arguments: Sequence[str], say: Say) -> Reply:
    """The verdict, the largest gains and the predictions; files in a directory."""
    wanted = _asked(arguments)
    if wanted.diff:
        return _difference(wanted, say)
    trace = _trace(wanted.trace)
    reports = read_lightning_reports(trace)
    if reports:
        return lightning_reply(reports)
    out = wanted.out or Path(f"{trace.name.partition('.')[0]}-analysis")
    _keep_away_from(trace, out)
    return _one(trace, out, wanted, say)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A command line, taken apart."""

    trace: Path
    diff: Path | None
    model: Path | None
    whatifs: tuple[Path, ...]
    others: Mapping[str, Path]
    out: Path | None
    range_name: str | None
    call: int | None
    here: bool


def _asked(arguments: Sequence[str]) -> _Asked:
    given = _parser().parse_args(list(arguments))
    if (given.trace is None) == (given.diff is None):
        raise ConfigError(["analyze takes one TRACE, or --diff and two; see analyze --help."])
    if given.diff and (given.whatif or given.out):
        raise ConfigError(["--diff compares two traces; --whatif and --out are of one."])
    return _Asked(
        trace=given.trace or given.diff[0],
        diff=given.diff[1] if given.diff else None,
        model=given.model,
        whatifs=tuple(given.whatif),
        others=dict(_named_trace(text) for text in given.trial),
        out=given.out,
        range_name=given.range,
        call=given.call,
        here=given.here,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchorch analyze", description=__doc__, allow_abbrev=False
    )
    add = parser.add_argument
    add("trace", metavar="TRACE", nargs="?", type=Path, help="a profile, or a trial's directory")
    add("--diff", nargs=2, metavar=("A", "B"), type=Path, help="why B takes another time than A")
    add("--model", metavar="FILE", type=Path, help=".onnx or .pt2: its nodes, branches, graph")
    add(
        "--whatif",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="YAML or JSON of changes (docs/analysis/what-if.md), or Amdahl4ML's speedups.json; "
        "repeatable",
    )
    add(
        "--trial",
        metavar="NAME=TRACE",
        action="append",
        default=[],
        help="another trial's profile, from which a what-if swaps times",
    )
    add("--out", metavar="DIR", type=Path, help="where files go; default: <trace>-analysis")
    add("--range", metavar="NAME", help="the range that marks a call; * stands for any text")
    add("--call", metavar="N", type=int, help="which call, from 0; default: the median one")
    add("--here", action="store_true", help="the trace is of this machine: use its measured peaks")
    add("--json", action="store_true", help="the same for programs")
    return parser


def _named_trace(text: str) -> tuple[str, Path]:
    name, sign, path = text.partition("=")
    if not (name and sign and path):
        raise ConfigError([f"--trial: expected NAME=TRACE, got {text!r}."])
    return name, Path(path)


def _trace(given: Path) -> Path:
    """The file itself, or the profile in a trial's directory."""
    if given.is_file():
        return given
    if given.is_dir():
        found = [path for name in _TRACE_NAMES for path in sorted(given.rglob(name))]
        kept = [path for path in found if path.name != "perfetto.json.gz"]
        if kept:
            return kept[0]
        raise ConfigError(
            [f"{given} holds no profile (looked for {', '.join(_TRACE_NAMES)}); name its file."]
        )
    raise ConfigError([f"there is no trace {given}."])


def _keep_away_from(trace: Path, out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ConfigError([f"--out: {out} is a file; a directory is wanted."])
    if out.resolve() == trace.resolve().parent:
        raise ConfigError([f"--out: {out} holds the trace itself; name another directory."])


def _one(trace: Path, out: Path, wanted: _Asked, say: Say) -> Reply:
    from benchorch.trace.report.summary import summary
    from benchorch.trace.report.write import write
    from benchorch.trace.whatif.basis import prepare
    from benchorch.trace.whatif.predict import answer
    from benchorch.trace.whatif.prediction import to_json
    from benchorch.trace.whatif.reading import read

    asked = [read(path) for path in wanted.whatifs]
    graph, peaks = _graph(wanted.model), _peaks(wanted, say)
    analysis = _analysis(trace, wanted, graph, peaks, say)
    others = {
        name: _analysis(_trace(path), wanted, graph, None, say)
        for name, path in wanted.others.items()
    }
    basis = prepare(analysis, peaks, others)
    answers = [answer(basis, one.changes, name=one.name, swept=True) for one in asked]
    predictions = [one.prediction for one in answers]
    say(f"writing {out}")
    files = write(analysis, out, basis=basis, whatifs=answers)
    told: dict[str, object] = summary(analysis)
    data = {
        **told,
        "whatifs": [json.loads(to_json(one)) for one in predictions],
        "files": [str(file) for file in files],
    }
    return Reply(text=_text(analysis, predictions, out, files), data=_plain(data))


def _analysis(
    trace: Path, wanted: _Asked, graph: OperatorGraph | None, peaks: Peaks | None, say: Say
) -> Analysis:
    from benchorch.trace.analysis import analyze
    from benchorch.trace.operators.provenance import beside

    say(f"reading {trace} ({format_bytes(trace.stat().st_size)})")
    return analyze(
        trace,
        range_name=wanted.range_name,
        iteration=wanted.call,
        graph=graph,
        peaks=peaks,
        provenance=beside(trace, {node.name for node in graph.nodes} if graph else ()),
    )


def _graph(model: Path | None) -> OperatorGraph | None:
    if model is None:
        return None
    if not model.is_file():
        raise ConfigError([f"--model: there is no {model}."])
    if model.suffix == ".onnx":
        from benchorch.frameworks.onnx_graph import read_onnx_graph

        return read_onnx_graph(model)
    if model.suffix == ".pt2":
        from benchorch.frameworks.exported_graph import read_export_graph

        return read_export_graph(model)
    raise ConfigError([f"--model: expected a .onnx or .pt2 file, got {model}."])


def _peaks(wanted: _Asked, say: Say) -> Peaks | None:
    if not wanted.here:
        return None
    import os

    from benchorch.host.peaks import find_peaks

    say("measuring what this machine can do at best")
    return find_peaks("cpu", len(os.sched_getaffinity(0)))


def _difference(wanted: _Asked, say: Say) -> Reply:
    from benchorch.trace.comparison.diff import difference

    assert wanted.diff is not None
    graph = _graph(wanted.model)
    sides = [
        _analysis(_trace(path), wanted, graph, _peaks(wanted, say), say)
        for path in (wanted.trace, wanted.diff)
    ]
    found = difference(sides[0], sides[1])
    data = {
        "first_ns": found.first_ns,
        "second_ns": found.second_ns,
        "difference_ns": found.second_ns - found.first_ns,
        "causes": dict(found.causes),
        "changes": [asdict(change) for change in found.changes],
        "next_first": list(found.next_first) if found.next_first else None,
        "next_second": list(found.next_second) if found.next_second else None,
    }
    return Reply(text=_difference_text(found, wanted), data=_plain(data))


def _text(
    analysis: Analysis, predictions: Sequence[Prediction], out: Path, files: Sequence[Path]
) -> str:
    findings = analysis.findings
    diagnosis = findings.diagnosis
    known = ", ".join(
        f"{name} {share:.0%}" for name, share in diagnosis.evidence.items() if share > 0
    )
    lines = [f"{diagnosis.sentence}", f"evidence  {known}"]
    lines += [f"note      {warning}" for warning in findings.warnings]
    lines += ["", _gains_table(analysis), ""]
    lines += [line for one in predictions for line in _prediction_lines(one)]
    lines += [f"try       {diagnosis.advice}"] if diagnosis.advice else []
    lines.append(f"look      {out / 'report.html'}   (and {len(files) - 1} more files)")
    return "\n".join(lines)


def _gains_table(analysis: Analysis) -> str:
    from benchorch.results.report.console_table import table_text
    from benchorch.trace.report.table import HEADER, row_texts

    findings = analysis.findings
    columns = [name for name in HEADER if name != "blame"]
    rows = [row_texts(row, findings.makespan_ns) for row in findings.operators[:ROWS_SHOWN]]
    return table_text([columns, *([row[name] for name in columns] for row in rows)])


def _prediction_lines(one: Prediction) -> Iterator[str]:
    before, after = _time(one.makespan_ns), _time(one.predicted_ns)
    bound = f", at most {one.bound_path:.3g}x" if one.bound_path is not None else ""
    yield (
        f"what if   {one.name}: {before} would be {after}, {one.speedup:.3g}x{bound}; "
        f"{one.confidence_ratio:.0%} of the new path is known"
    )
    for note in one.notes:
        yield f"          {note}"


def _difference_text(found: MakespanDifference, wanted: _Asked) -> str:
    from benchorch.results.report.console_table import table_text

    rows = [("what", "cause", str(wanted.trace.name), str(wanted.diff and wanted.diff.name), "")]
    rows += [
        (
            change.name,
            change.cause,
            _time(change.first_ns),
            _time(change.second_ns),
            f"{'+' if change.difference_ns > 0 else ''}{_time(change.difference_ns)}",
        )
        for change in found.changes[:ROWS_SHOWN]
    ]
    lines = [found.sentence, "", table_text(rows), ""]
    for place, what in ((wanted.trace, found.next_first), (wanted.diff, found.next_second)):
        if what:
            lines.append(f"next      {place}: {what[0]}, at most {what[1]:.0%} of its time")
    return "\n".join(lines)


def _time(time_ns: int) -> str:
    return f"{'-' if time_ns < 0 else ''}{format_seconds(ns_to_s(abs(time_ns)))}"


def _plain(data: Mapping[str, object]) -> Json:
    """As JSON has it: no infinities, no tuples, names as text."""
    from benchorch.pages.markup import json_text

    plain: Json = json.loads(json_text(dict(data)))
    return plain
