"""``benchorch analyze TRACE``: why a profiled program is as slow as it is, and what would help.

Any profile will do: of torch.profiler, of ONNX Runtime, or an Nsight Systems export; and the report
of a Lightning Trainer's profiler, as a table. Neither torch nor the program itself is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import click

from benchorch.cli.command import command
from benchorch.cli.commands.lightning_profile import lightning_reply
from benchorch.cli.terminal import Terminal, unlinked
from benchorch.config.yaml_limits import check_yaml
from benchorch.domain.reply import Reply
from benchorch.errors import ConfigError
from benchorch.frameworks.lightning_report import read_lightning_reports
from benchorch.pages.markup import shortened
from benchorch.units import format_bytes, format_ns

if TYPE_CHECKING:
    from benchorch.domain.codec import Json
    from benchorch.trace.analysis import Analysis
    from benchorch.trace.attribution.tables import EntityRow
    from benchorch.trace.comparison.diff import PeriodDifference
    from benchorch.trace.operators.graph import OperatorGraph
    from benchorch.trace.whatif.predict import Prediction

Say = Callable[[str], None]

_PATH = click.Path(path_type=Path)
ROWS_SHOWN = 10
_DEVICES_SHOWN = 64
_TRACE_NAMES = ("trace.json.gz", "trace.json", "trace.sqlite", "*.json.gz", "*.sqlite")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _AnalyzeOptions:
    """How traces are read and what is asked of them."""

    model: Path | None
    groups: Path | None
    whatif: Sequence[Path]
    range: str | None
    call: int | None


@command(
    "analyze",
    help="""Why a profiled program is as slow as it is, and what would help.

    TRACE is a profile of torch.profiler, of ONNX Runtime or an Nsight Systems export, a trial's
    directory, or the report of a Lightning Trainer's profiler. Of several ranks, name one profile
    each. --output names the folder for the files that it writes, by default TRACE-analysis.
    """,
    writes_output=True,
    former={"--out": "--output"},
)
@click.argument("trace", metavar="[TRACE ...]", nargs=-1, type=_PATH)
@click.option("--diff", nargs=2, metavar="A B", type=_PATH, help="why B is slower or faster than A")
@click.option(
    "--model", metavar="FILE", type=_PATH, help=".onnx or .pt2: its nodes, branches, graph"
)
@click.option(
    "--groups",
    metavar="FILE",
    type=_PATH,
    help="YAML or JSON: how --model's operators are grouped, numbered and drawn",
)
@click.option(
    "--whatif",
    metavar="FILE",
    type=_PATH,
    multiple=True,
    help="YAML or JSON of changes (docs/analysis/what-if.md), or Amdahl4ML's speedups.json; "
    "repeatable",
)
@click.option(
    "--range", metavar="NAME", help="ranges that mark steps; * is any text, trace all of it"
)
@click.option(
    "--call", metavar="N", type=int, help="one step, from 0; default: all that are steady"
)
@click.option("--list-ranges", is_flag=True, help="the ranges that --range may name")
def run(
    terminal: Terminal,
    trace: Sequence[Path],
    diff: tuple[Path, Path] | None,
    list_ranges: bool,
    **options: Any,
) -> Reply:
    """The verdict, the largest gains and the predictions; files in a directory."""
    given = _AnalyzeOptions(**options)
    _check_together(trace, diff, list_ranges, given, terminal.output)
    if diff:
        return _difference(*diff, given, terminal.say)
    traces = [_trace(one) for one in trace]
    first = traces[0]
    reports = read_lightning_reports(first)
    if reports:
        return lightning_reply(reports)
    if list_ranges:
        return _ranges(first)
    out = terminal.output or unlinked(Path(f"{first.name.partition('.')[0]}-analysis"))
    _keep_away_from(first, out)
    return _one(traces, out, given, terminal.say)


def _check_together(
    trace: Sequence[Path],
    diff: tuple[Path, Path] | None,
    list_ranges: bool,
    given: _AnalyzeOptions,
    out: Path | None,
) -> None:
    """ConfigError for options that do not go together, and for YAML that is too much to read."""
    for path in (*given.whatif, *filter(None, [given.groups])):
        if path.suffix != ".json":
            check_yaml(path)
    if bool(trace) == bool(diff):
        raise ConfigError(
            ["analyze takes the TRACE of each rank, or --diff and two; see analyze --help."]
        )
    if given.groups and not given.model:
        raise ConfigError(["--groups are of a model's operators; add --model FILE."])
    if list_ranges and (diff or given.whatif or out):
        raise ConfigError(["--list-ranges takes one TRACE and nothing else."])
    if diff and (given.whatif or out):
        raise ConfigError(["--diff compares two traces; --whatif and --output are of one."])


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
        raise ConfigError([f"--output: {out} is a file; a directory is required."])
    if out.resolve() == trace.resolve().parent:
        raise ConfigError([f"--output: {out} holds the trace itself; name another directory."])


def _ranges(trace: Path) -> Reply:
    """The trace's ranges, those with most time first."""
    from benchorch.results.report.console_table import table_text
    from benchorch.trace.readers.open import read_events
    from benchorch.trace.steps import marked_ranges

    found = marked_ranges(read_events(trace))
    rows = [("range", "count", "median", "total")]
    rows += [
        (one.name, str(one.count), format_ns(one.median_ns), format_ns(one.total_ns))
        for one in found
    ]
    text = table_text(rows) if found else "The trace has no named ranges; only trace can be named."
    return Reply(text=text, data=_plain({"ranges": [asdict(one) for one in found]}))


def _one(traces: Sequence[Path], out: Path, given: _AnalyzeOptions, say: Say) -> Reply:
    from benchorch.trace.report.table import summary
    from benchorch.trace.report.write import write
    from benchorch.trace.whatif.basis import prepare
    from benchorch.trace.whatif.predict import predict
    from benchorch.trace.whatif.reading import read

    whatifs = [read(path) for path in given.whatif]
    graph = _graph(given.model, given.groups)
    analysis = _analysis(traces, given, graph, say)
    basis = prepare(analysis)
    predictions = [predict(basis, one.changes, name=one.name) for one in whatifs]
    say(f"writing {out}")
    files = write(analysis, out, predictions=predictions)
    data = {
        **summary(analysis),
        "whatifs": [one.as_mapping() for one in predictions],
        "files": [str(file) for file in files],
    }
    return Reply(text=_text(analysis, predictions, out, files), data=_plain(data))


def _analysis(
    traces: Sequence[Path], given: _AnalyzeOptions, graph: OperatorGraph | None, say: Say
) -> Analysis:
    from benchorch.trace.analysis import analyze
    from benchorch.trace.operators.provenance import beside

    for trace in traces:
        say(f"reading {trace} ({format_bytes(trace.stat().st_size)})")
    return analyze(
        traces,
        range_name=given.range,
        iteration=given.call,
        graph=graph,
        provenance=beside(traces[0], {node.name for node in graph.nodes} if graph else ()),
    )


def _graph(model: Path | None, groups: Path | None) -> OperatorGraph | None:
    from benchorch.trace.operators.graph import read_library
    from benchorch.trace.operators.grouping import by_pattern

    if model is None or groups is None:
        return _operators(model) if model else None
    graph = replace(_operators(model), library=read_library(groups))
    by_pattern(graph)  # refuses numbers of operators that there are not
    return graph


def _operators(model: Path) -> OperatorGraph:
    if not model.is_file():
        raise ConfigError([f"--model: there is no {model}."])
    if model.suffix == ".onnx":
        from benchorch.frameworks.onnx_graph import read_onnx_graph

        return read_onnx_graph(model)
    if model.suffix == ".pt2":
        from benchorch.frameworks.exported_graph import read_export_graph

        return read_export_graph(model)
    raise ConfigError([f"--model: expected a .onnx or .pt2 file, got {model}."])


def _difference(first: Path, second: Path, given: _AnalyzeOptions, say: Say) -> Reply:
    from benchorch.trace.comparison.diff import difference

    graph = _graph(given.model, given.groups)
    found = difference(*(_analysis([_trace(path)], given, graph, say) for path in (first, second)))
    data = {
        "first_ns": found.first_ns,
        "second_ns": found.second_ns,
        "difference_ns": found.second_ns - found.first_ns,
        "causes": dict(found.causes),
        "changes": [asdict(change) for change in found.changes],
    }
    return Reply(text=_difference_text(found, first, second), data=_plain(data))


def _text(
    analysis: Analysis, predictions: Sequence[Prediction], out: Path, files: Sequence[Path]
) -> str:
    verdict, steps = analysis.verdict, analysis.steps
    lines = []
    if analysis.matched_ratio is not None:
        lines.append(f"model     {analysis.matched_ratio:.0%} of its nodes were found")
    lines += [verdict.sentence]
    if len(steps) > 1:
        shortest_ns, *_, longest_ns = sorted(steps.periods_ns.tolist())
        spread = f"{format_ns(shortest_ns)} to {format_ns(longest_ns)}"
        lines.append(f"steps     {len(steps)} of {shortened(steps.name)}, {spread}")
    for name, known in (("lengths", verdict.length), ("causes", verdict.cause)):
        parts = ", ".join(f"{share:.0%} {how}" for how, share in known.items() if share >= 0.005)
        lines.append(f"evidence  {name} {parts}")
    lines += [f"note      {warning}" for warning in analysis.warnings]
    lines += [f"device    {line}" for line in _device_lines(analysis)]
    lines += ["", _gains_table(analysis), ""]
    lines += [line for one in predictions for line in _prediction_lines(one)]
    lines += [f"try       {verdict.advice}"] if verdict.advice else []
    lines += [f"record    {one}" for one in verdict.record]
    lines.append(f"look      {out / 'report.html'}   (and {len(files) - 1} more files)")
    return "\n".join(lines)


def _device_lines(analysis: Analysis) -> Iterator[str]:
    """How each device spends its time, over all steps."""
    devices = analysis.devices
    keys = list(dict.fromkeys((one.rank, one.process, one.device) for one in devices))
    for rank, process, number in keys[:_DEVICES_SHOWN]:
        key = rank, process, number
        mine = [one for one in devices if (one.rank, one.process, one.device) == key]
        length = sum(one.step_ns for one in mine) or 1
        kinds = {
            "computing": sum(one.compute_ns for one in mine),
            "communicating": sum(one.communication_ns for one in mine),
            "memory": sum(one.memory_ns for one in mine),
            "overlapped": sum(one.overlapped_ns for one in mine),
            "idle": sum(one.idle_ns for one in mine),
        }
        owner = [f"rank {rank}"] if analysis.events.ranks.any() else []
        owner += [f"process {process}"] if process else []
        name = f"{number} ({', '.join(owner)})" if owner else str(number)
        yield f"{name}: " + ", ".join(f"{kind} {ns / length:.0%}" for kind, ns in kinds.items())
    if len(keys) > _DEVICES_SHOWN:
        yield f"and {len(keys) - _DEVICES_SHOWN} more; --json has all"


def _gains_table(analysis: Analysis) -> str:
    from benchorch.results.report.console_table import table_text
    from benchorch.trace.report.table import HEADER, row_texts

    tables = [rows for name, rows in analysis.tables.items() if name in ("operators", "python")]
    tables = tables or list(analysis.tables.values())

    def known_ns(rows: Sequence[EntityRow]) -> int:
        return sum(row.on_path_ns for row in rows[:-1])

    rows = max(tables, key=known_ns, default=())
    ranges = analysis.tables.get("ranges", ())
    rows = ranges if known_ns(ranges) > 2 * known_ns(rows) else rows
    rows = rows[:ROWS_SHOWN]
    texts = [row_texts(row, analysis.steps.period_ns) for row in rows]
    return table_text([list(HEADER), *([text[name] for name in HEADER] for text in texts)])


def _prediction_lines(one: Prediction) -> Iterator[str]:
    before, after = format_ns(one.makespan_ns), format_ns(one.predicted_ns)
    low, high = format_ns(one.low_ns), format_ns(one.high_ns)
    yield (
        f"what if   {shortened(one.name)}: {before} would be {after}, {one.speedup:.3g}x "
        f"(90 %: {low} to {high})"
    )
    for note in one.notes:
        yield f"          {note}"


def _difference_text(found: PeriodDifference, first: Path, second: Path) -> str:
    from benchorch.results.report.console_table import table_text

    rows = [("what", "shapes", "cause", first.name, second.name, "")]
    rows += [
        (
            change.name,
            change.shapes[:40],
            change.cause,
            format_ns(change.first_ns),
            format_ns(change.second_ns),
            f"{'+' if change.difference_ns > 0 else ''}{format_ns(change.difference_ns)}",
        )
        for change in found.changes[:ROWS_SHOWN]
    ]
    return "\n".join([found.sentence, "", table_text(rows)])


def _plain(data: Mapping[str, object]) -> Json:
    """As JSON has it: no infinities, no tuples, names as text."""
    from benchorch.pages.markup import json_text

    plain: Json = json.loads(json_text(dict(data)))
    return plain
