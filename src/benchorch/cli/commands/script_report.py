"""Text report of the models found in scripts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode
from benchorch.formatting import bounded, plural
from benchorch.frontends.scripts.model_configs import RUNS_AGAIN, described
from benchorch.units import format_bytes, format_seconds

_EARLY = {
    "first": "--first: one call was found",
    "quiet": "--until-quiet: no new call came",
    "interrupt": "interrupted",
    "timeout": "it did not end by itself (--timeout gives it longer)",
}
"""How a script was ended that gave models, by what ``ended`` reports of it."""


def overview(founds: Sequence[ConfigNode]) -> str:
    """Each script with its models; a summary where there are several scripts."""
    blocks = ["\n".join(_script(found)) for found in founds]
    if len(founds) > 1:
        blocks.append(_summary(founds))
    return "\n\n".join(blocks)


def failed(founds: Sequence[ConfigNode]) -> list[ConfigNode]:
    """The scripts that went wrong; among several, one that calls no model is as it should be."""
    wrong = [found for found in founds if found["problem"]]
    none_found = not any(found["models"] for found in founds)
    return [found for found in wrong if none_found or _kind(found) != "no_model"]


def _kind(found: ConfigNode) -> Json:
    return cast(ConfigNode, found["problem"])["kind"]


def _summary(founds: Sequence[ConfigNode]) -> str:
    models = sum(len(cast("list[ConfigNode]", found["models"])) for found in founds)
    wrong = [Path(str(found["script"])).name for found in failed(founds)]
    counts = f"{plural(len(founds), 'script')}, {plural(models, 'model')}"
    return counts + (f"; problems in {', '.join(wrong)}" if wrong else "; no problems")


def _script(found: ConfigNode) -> Iterator[str]:
    models = cast("list[ConfigNode]", found["models"])
    seconds = found.get("seconds")
    took = f", {format_seconds(cast(float, seconds))}" if seconds is not None else ""
    name = Path(str(found["script"])).name
    yield f"{name}: {plural(len(models), 'model')}{took}"
    labels = cast("dict[str, list[str]]", found["labels"])
    if labels:
        yield "  labels: " + ", ".join(f"{key} {'/'.join(v)}" for key, v in labels.items())
    problem = cast("ConfigNode | None", found["problem"])
    if not problem and found["ended"] in _EARLY:
        yield f"  ended early: {_EARLY[str(found['ended'])]}; its models so far"
    if problem:
        remedy = f" ({problem['remedy']})" if problem["remedy"] else ""
        yield f"  problem: {problem['message']}{remedy}"
        if Path(str(found["log"])).is_file():
            yield f"  output: {found['log']}"
    for model in models:
        yield from _model(model)
    if models and found.get("left_out"):
        operators = ", ".join(cast("list[str]", found["left_out"]))
        yield f"  left out, as they have no parameters: {operators}"


def _model(model: ConfigNode) -> Iterator[str]:
    indent = "  " * (1 + cast(int, model["depth"]))
    calls = plural(cast(int, model["calls"]), "call")
    name = bounded(str(model["name"]))
    yield f"{indent}{name} ({calls}, {format_seconds(cast(float, model['seconds']))})"
    made = cast(int, model["instances"])
    rows = [
        ("class", f"{bounded(str(model['class']))}, {_where(model)}"),
        ("parameters", _parameters(model)),
        ("hash", str(model["hash"])),
    ]
    if made > 1:
        rows.append(("made", f"{made} times"))
    if model.get("generates"):
        rows.append(("generates", "scenario=generate measures its tokens per second"))
    if "in_child" in model:
        rows.append(("process", "one that the script starts"))
    for label, value in rows:
        yield f"{indent}  {label:<11} {value}"
    for call in cast("list[ConfigNode]", model["invocations"]):
        times = f"{call['calls']}×"
        yield f"{indent}  {call['hash']:<11} {times} {described(call)}{_obstacle(call)}"
    if model["more_signatures"]:
        yield f"{indent}  and {model['more_signatures']} calls of further shapes"


def _where(model: ConfigNode) -> str:
    if not model["file"]:
        return "unknown source file"
    line = f" line {model['line']}" if model["line"] is not None else ""
    return f"{Path(str(model['file'])).name}{line}"


def _parameters(model: ConfigNode) -> str:
    dtypes = ", ".join(cast("list[str]", model["dtypes"]))
    size = format_bytes(cast(int, model["parameter_bytes"]))
    return f"{model['parameters']:,} ({size}{f' of {dtypes}' if dtypes else ''})"


def _obstacle(call: ConfigNode) -> str:
    if call["obstacle"]:
        return f"; cannot be benchmarked: {call['obstacle']}"
    if call.get("not_exported"):
        return f"; kept with its source: {call['not_exported']}"
    reason = call.get("not_captured")
    return f"; {RUNS_AGAIN}: {reason}" if reason else ""


def builds(rows: Sequence[ConfigNode]) -> str:
    """A line for each build."""
    return "\n".join(f"  {row['cell']}: {_build(row)}" for row in rows)


def _build(row: ConfigNode) -> str:
    if "skipped" in row:
        return f"skipped: {row['skipped']}"
    if "failed" in row:
        remedy = f" ({row['remedy']})" if row["remedy"] else ""
        return f"failed: {row['failed']}{remedy}"
    if row["cache"] == "none":
        return "leaves no files"
    size = format_bytes(cast(int, row["artifact_bytes"]))
    if row["cache"] == "miss":
        return f"built in {format_seconds(cast(float, row['build_s']))}, {size}"
    return f"cached, {size}"
