"""Run every conversion on small models; write docs/reference/conversions-table.md.

    python scripts/write_conversions.py [--models mlp,cnn,bert,gpt2] [--only NAME,...] [--again]

Every cell is a trial of the real pipeline: built in one process, loaded and checked in another one
that has only the stored artifact. Each result is kept under --work as soon as it is there and not
run again, so the script can be ended and started at any time, and after --minutes it begins nothing
more. --fresh starts over, and --again repeats what --only names. --write-only runs nothing.

Almost all of the time is imports and compilers. So --jobs models are worked on at a time, the
baseline is run as one conversion among others instead of with every invocation, and what compiles
comes last.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchorch.cli.commands.conversion_catalog import Catalog, Conversion
from benchorch.cli.commands.conversions import availability
from benchorch.config.directories import builtin_directory
from benchorch.domain.artifact import Format
from benchorch.domain.result import TrialResult, beside_baselines
from benchorch.host.environment import is_installed, package_versions
from benchorch.journal import reader, run_directory
from benchorch.results.report.execution_text import precision_text
from benchorch.units import format_bytes

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "conversions-table.md"
CHUNK = 8  # conversions in one invocation; whether there is time for more is asked between two
COMPILED = {Format.AOTI_PACKAGE, Format.INDUCTOR_CACHE}

GPT2 = {"vocab_size": 1000, "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 64}
MODELS: Mapping[str, tuple[str, Sequence[str]]] = {
    "mlp": ("an MLP, 256-1024-1024-1024-32", ["model=mlp"]),
    "cnn": (
        "ResNet-18 on images of 64 x 64",
        ["model=resnet18", "model.classes=10", "model.inputs.x.shape=[batch_size,3,64,64]"],
    ),
    "bert": ("BERT-tiny, 2 layers of 128, 16 tokens", ["model=bert_tiny", "workload.seq_len=16"]),
    "gpt2": (
        "a GPT-2 of 2 layers of 64, 16 tokens",
        [
            "model=gpt2",
            "workload.seq_len=16",
            "model.inputs.input_ids.high=1000",
            *(f"++model.config.{key}={value}" for key, value in GPT2.items()),
        ],
    ),
}
SETTINGS = (
    "hardware.threads=1",
    "workload.batch_size=2",
    "stopping=fixed",
    "stopping.processes=1",
    "stopping.calls=5",
    "stopping.window_s=0.05",
    "protocol.pairing=none",
    "profiler=none",
    "protocol.repeats=0",
    "protocol.split_passes=0",
    "protocol.canary_tolerance_ratio=null",
    "protocol.pin=false",  # other models are tried beside it
    "baseline=null",
    "limits.build_timeout_s=1800",
    "limits.measure_timeout_s=600",
    "recorder=none",
)
PACKAGES = (
    "torch",
    "onnx",
    "onnxruntime",
    "torchao",
    "optimum-quanto",
    "openvino",
    "nncf",
    "executorch",
    "apache-tvm",
    "torch-tensorrt",
    "transformers",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What came of one conversion of one model.

    Attributes:
        state: works, disqualified, failed or skipped.
        why: in a sentence, where it does not work.
        result: everything else, where it ran.
    """

    state: str
    why: str = ""
    result: TrialResult | None = None


def main() -> int:
    """Run what has not run, write the page; the exit code."""
    options = _options()
    if options.fresh:
        shutil.rmtree(options.work, ignore_errors=True)
    catalog = Catalog([builtin_directory("conf")])
    names = options.only.split(",") if options.only else list(catalog.names)
    models = options.models.split(",")
    if not options.write_only:
        _compile_once()
        left = {model: _left(catalog, names, model, options) for model in models}
        _run_all(left, options)
    cells = {model: _cells(catalog, names, model, options.work) for model in MODELS}
    cells = {model: found for model, found in cells.items() if _has_run(found)}
    options.page.write_text(_page(catalog, names, cells))
    print(f"Wrote {options.page}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS), help="comma-separated")
    parser.add_argument("--only", default="", help="comma-separated conversions; joined ones too")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--work", type=Path, default=Path("runs/conversions"))
    parser.add_argument("--fresh", action="store_true", help="forget what has run")
    parser.add_argument("--minutes", type=float, default=50, help="begin nothing later than that")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="models at a time"
    )
    parser.add_argument("--again", action="store_true", help="run what has run, too")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    options = parser.parse_args()
    unknown = set(options.models.split(",")) - set(MODELS)
    if unknown:
        parser.error(f"no such models: {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    options.work = options.work.resolve()
    return options


def _done(catalog: Catalog, names: Sequence[str], model: str, work: Path) -> set[str]:
    return {name for name, cell in _cells(catalog, names, model, work).items() if cell.state}


def _is_compiled(catalog: Catalog, name: str) -> bool:
    return bool(COMPILED & set(catalog.open(name).leaves))


def _compile_once() -> None:
    """Compile optimum-quanto's extension ahead of the cells, whose time limits it may exceed."""
    code = "from benchorch.conversions.quanto import compiled_unpacking as c; c('cpu')"
    if is_installed("optimum-quanto"):
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)


def _left(
    catalog: Catalog, names: Sequence[str], model: str, options: argparse.Namespace
) -> list[str]:
    """What is still to be run of a model, what compiles last."""
    done = set() if options.again else _done(catalog, names, model, options.work)
    return sorted(set(names) - done, key=lambda name: (_is_compiled(catalog, name), name))


class Progress:
    """One line for each cell that is done, with how long the rest is going to take.

    Args:
        total: cells to run.
        jobs: models that are worked on at a time.
    """

    def __init__(self, total: int, jobs: int) -> None:
        self._total, self._done = total, 0
        self._since_s = time.monotonic()
        self._lock = threading.Lock()
        print(f"{total} cells to run, {jobs} models at a time", flush=True)

    def tell(self, model: str, name: str, state: str, seconds: float) -> None:
        """A cell is done."""
        with self._lock:
            self._done += 1
            spent_min = (time.monotonic() - self._since_s) / 60
            left_min = spent_min / self._done * (self._total - self._done)
            print(
                f"[{self._done}/{self._total}] {model} {MARKS[state]} {name}  {seconds:.0f} s"
                f"  ({spent_min:.0f} min so far, about {left_min:.0f} left)",
                flush=True,
            )


def _run_all(left: Mapping[str, Sequence[str]], options: argparse.Namespace) -> None:
    """Run what is left of each model, several models at a time."""
    progress = Progress(sum(map(len, left.values())), options.jobs)
    until_s = time.monotonic() + 60 * options.minutes
    with ThreadPoolExecutor(options.jobs) as models:
        running = [
            models.submit(_run, names, model, options.work, until_s, progress)
            for model, names in left.items()
        ]
        for one in running:
            one.result()


def _run(names: Sequence[str], model: str, work: Path, until_s: float, progress: Progress) -> None:
    """Run some conversions of a model, and begin none after that time of the monotonic clock."""
    for start in range(0, len(names), CHUNK):
        chunk = names[start : start + CHUNK]
        if time.monotonic() > until_s:
            print(f"== {model}: no time left for {', '.join(names[start:])}; run it again")
            return
        if _invoke(chunk, model, work, progress) and len(chunk) > 1:
            # One that spoils the plan of all is found by trying each alone.
            for name in chunk:
                _invoke([name], model, work, progress)


def _invoke(names: Sequence[str], model: str, work: Path, progress: Progress) -> bool:
    """Run some conversions; whether the request was refused as a whole."""
    place = work / f"{model}-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    place.mkdir(parents=True)
    words = [
        *MODELS[model][1],
        *SETTINGS,
        f"conversion=[{','.join(names)}]",
        f"store.root={work / 'store'}",
        f"hydra.run.dir={place}",
    ]
    command = [sys.executable, "-m", "benchorch", *words]
    with (place / "output.txt").open("w") as output:
        running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        told: set[str] = set()
        while running.poll() is None:
            time.sleep(1)
            told |= _tell(place, told, model, progress)
    told |= _tell(place, told, model, progress)
    if running.returncode == 2 and not (place / run_directory.PLAN).exists():
        why = (place / "output.txt").read_text().strip()
        (place / "refused.json").write_text(json.dumps({"names": list(names), "why": why}))
        print(why, flush=True)
        return True
    for name, cell in _skipped(place):
        progress.tell(model, name, cell.state, 0)
    return False


def _tell(place: Path, told: Collection[str], model: str, progress: Progress) -> set[str]:
    """Tell of results that are new; their conversions."""
    new = [r for r in _results(place) if r.labels["conversion"] not in told]
    for result in new:
        seconds = sum(result.stages_s.values())
        progress.tell(model, result.labels["conversion"], _cell(result).state, seconds)
    return {result.labels["conversion"] for result in new}


def _results(place: Path) -> Collection[TrialResult]:
    """The results so far, each read beside its baseline's."""
    if not (place / run_directory.RESULTS).exists():
        return ()
    return beside_baselines({r.trial_id: r for r in reader.read_results(place)}).values()


def _cells(catalog: Catalog, names: Sequence[str], model: str, work: Path) -> dict[str, Cell]:
    """What is known so far; later runs win."""
    found: dict[str, Cell] = {}
    for place in sorted(work.glob(f"{model}-*")):
        found |= dict(_refused(place))
        found |= dict(_skipped(place))
        for result in _results(place):
            found[result.labels["conversion"]] = _cell(result)
    for name in names:
        opened = catalog.open(name)
        if opened.problems or opened.retired:
            found[name] = Cell(state="skipped", why=availability(opened).reason)
    return {name: found[name] for name in names if name in found}


def _has_run(cells: Mapping[str, Cell]) -> bool:
    return any(cell.result for cell in cells.values())


def _refused(place: Path) -> Iterator[tuple[str, Cell]]:
    file = place / "refused.json"
    told = json.loads(file.read_text()) if file.exists() else {"names": []}
    if len(told["names"]) == 1:
        yield told["names"][0], Cell(state="failed", why=told["why"].splitlines()[-1].strip())


def _skipped(place: Path) -> Iterator[tuple[str, Cell]]:
    file = place / run_directory.PLAN
    for skip in json.loads(file.read_text())["skips"] if file.exists() else ():
        why = f"{skip['reason']} {skip['remedy']}".strip()
        yield skip["labels"]["conversion"], Cell(state="skipped", why=why)


def _cell(result: TrialResult) -> Cell:
    if result.failure:
        failure = result.failure
        instead = f" ({failure.remedy})" if failure.remedy else ""
        return Cell(state="failed", why=f"{failure.message}{instead}", result=result)
    verdict = result.parity
    if verdict is None or not verdict.passed:
        why = " ".join((*verdict.reasons, verdict.first_divergence)) if verdict else "not checked"
        return Cell(state="disqualified", why=why.strip(), result=result)
    return Cell(state="works", result=result)


MARKS = {"works": "✓", "disqualified": "≠", "failed": "✗", "skipped": "–"}


def _page(catalog: Catalog, names: Sequence[str], cells: Mapping[str, Mapping[str, Cell]]) -> str:
    """The whole page."""
    parts = [HEAD, _ran(names, cells), _overview(catalog, names, cells)]
    for model, found in cells.items():
        parts.append(_model_table(model, found))
    parts.append(_not_here(catalog, names))
    parts.append(_other_names(catalog))
    return "\n\n".join(part for part in parts if part).rstrip() + "\n"


HEAD = """# Conversions, tried

<!-- Written by scripts/write_conversions.py (make conversions) from a real run: do not edit. -->

Each value of `conversion=NAME` on small models: built in one process, loaded in a fresh one from
the stored artifact, outputs compared with eager's. Times show what to expect of a build, on a busy
machine. How to choose and combine: [Conversions](../guides/conversions.md). On your machine:
`python -m benchorch conversions`, or with a NAME, each of its steps.

Processors only. What needs an NVIDIA GPU (TensorRT, Torch-TensorRT, ONNX Runtime's CUDA and
TensorRT providers, CUDA graphs, products in float8) is tested with fakes at most: none has run on a
GPU yet."""


def _untried(names: Sequence[str], cells: Mapping[str, Mapping[str, Cell]]) -> str:
    """How many conversions of which model were not run."""
    counts = {model: len(set(names) - set(found)) for model, found in cells.items()}
    told = ", ".join(f"{count} of {model}" for model, count in counts.items() if count)
    return f"\n\nNot run, and marked by a dot: {told} (of {len(names)} each)." if told else ""


def _ran(names: Sequence[str], cells: Mapping[str, Mapping[str, Cell]]) -> str:
    """What was run, on what, with which packages."""
    results = [cell.result for found in cells.values() for cell in found.values() if cell.result]
    if not results:
        return "Nothing was run."
    newest = max(result.ended_at for result in results)[:10]
    host = results[-1].environment
    versions = ", ".join(f"{n} {v}" for n, v in package_versions(PACKAGES).items())
    models = "\n".join(f"- `{model}`: {MODELS[model][0]}" for model in cells)
    left_out = [model for model in MODELS if model not in cells]
    missing = f"\n\nNot run this time: {', '.join(left_out)}." if left_out else ""
    missing += _untried(names, cells)
    return (
        f"Last run {newest} on {host.get('cpu_model')}, one thread, batches of 2, float32 unless "
        f"the conversion changes it; {versions}.\n\n{models}{missing}"
    )


def _overview(
    catalog: Catalog, names: Sequence[str], cells: Mapping[str, Mapping[str, Cell]]
) -> str:
    head = ["conversion", "what it is", "stores", *cells]
    rows = []
    for name in names:
        opened = catalog.open(name)
        marks = [_mark(found.get(name)) for found in cells.values()]
        keeps = ", ".join(f"`{each}`" for each in opened.leaves) or "nothing"
        rows.append([f"`{name}`", opened.description, keeps, *marks])
    legend = "✓ works, ≠ disqualified: other outputs, ✗ failed, – cannot run here, · not tried."
    return f"## Overview\n\n{legend}\n\n{_table(head, rows)}"


def _mark(cell: Cell | None) -> str:
    return MARKS[cell.state] if cell else "·"


READY = """*ran in*: the precision of the operators, with its share where it is not all of them;
*no effect*: the conversion changed nothing of this model. *ready*: time of a fresh process
from the stored artifact to the first result, imports included. *allowed*: relative L2 error
beyond which the conversion is disqualified. torch.compile stores what Inductor generated
and traces again; with frozen weights torch stores nothing, so `inductor_freezing` stores
only its options and compiles again."""


def _model_table(model: str, cells: Mapping[str, Cell]) -> str:
    head = ["conversion", "", "ran in", "build s", "artifact", "ready s", "relative L2"]
    head += ["allowed", "cosine", "SNR dB", "ULP p50", "argmax"]
    next_token = any(_worst(cell)[5] is not None for cell in cells.values())
    head += ["next token"] if next_token else []
    rows = [_figures(name, cell, next_token) for name, cell in cells.items() if cell.result]
    reasons = [
        f"- {MARKS[cell.state]} `{name}`: {_one_line(cell.why)}"
        for name, cell in cells.items()
        if cell.why and (cell.result or cell.state == "failed")
    ]
    return "\n\n".join(
        [f"## {model}: {MODELS[model][0]}", READY, _table(head, rows), "\n".join(reasons)]
    )


def _figures(name: str, cell: Cell, next_token: bool) -> list[str]:
    result = cell.result
    assert result is not None
    build, verdict = result.build, result.parity
    ready = [process.load_s + process.first_call_s for process in result.processes]
    error, cosine, noise, ulp, argmax, token = _worst(cell)
    row = [
        f"`{name}`",
        MARKS[cell.state],
        precision_text(result),
        f"{build.original_build_s:.1f}" if build and build.cache != "none" else "",
        format_bytes(build.artifact_bytes) if build and build.artifact_bytes else "",
        f"{min(ready):.2f}" if ready else "",
        "" if error is None else f"{error:.1e}",
        f"{verdict.tolerance_ratio:.0e}" if verdict else "",
        "" if cosine is None else f"{cosine:.6f}",
        "exact" if error == 0 else "" if noise is None else f"{noise:.0f}",
        "" if ulp is None else f"{ulp:.0f}",
        "" if argmax is None else f"{argmax:.0%}",
    ]
    return [*row, "" if token is None else f"{token:.0%}"] if next_token else row


def _worst(cell: Cell) -> tuple[float | None, ...]:
    """Each figure's worst over the outputs; None where none has it."""
    outputs = cell.result.parity.outputs if cell.result and cell.result.parity else ()
    most, least = (
        [[getattr(o, name) for o in outputs if getattr(o, name) is not None] for name in group]
        for group in (
            ("relative_l2_ratio", "ulp_p50"),
            ("cosine_ratio", "signal_to_noise_db"),
        )
    )
    shares = [
        [getattr(o, name) for o in outputs if getattr(o, name) is not None]
        for name in ("argmax_agreement_ratio", "next_token_agreement_ratio")
    ]
    error, ulp = (max(values, default=None) for values in most)
    cosine, noise = (min(values, default=None) for values in least)
    argmax, token = (min(values, default=None) for values in shares)
    return error, cosine, noise, ulp, argmax, token


def _not_here(catalog: Catalog, names: Sequence[str]) -> str:
    rows = []
    for name in names:
        stands = availability(catalog.open(name))
        if not stands.hardware:
            rows.append([f"`{name}`", _one_line(stands.reason), _one_line(stands.enable)])
    if not rows:
        return ""
    head = ["conversion", "why not on the machine of this run", "what enables it"]
    return f"## What could not run there\n\n{_table(head, rows)}"


def _other_names(catalog: Catalog) -> str:
    parts = [
        "## Names of other tools",
        "They work as they are: `conversion=FP16+EXPORT+EAGER`.",
    ]
    for tool, listed in catalog.other.listed.items():
        rows = [_selected(catalog.open(name)) for name in listed]
        parts.append(f"### {tool}\n\n{_table(['name', 'selects'], rows)}")
    return "\n\n".join(parts)


def _selected(opened: Conversion) -> list[str]:
    gone = opened.retired
    if gone:
        instead = f" Instead: `{gone.successor}`." if gone.successor else ""
        return [f"`{opened.name}`", f"retired: {gone.reason}{instead}"]
    return [f"`{opened.name}`", f"`{'+'.join(opened.parts)}`"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _one_line(text: str) -> str:
    return " ".join(text.replace("|", "/").replace(str(Path.home()), "~").split())


if __name__ == "__main__":
    sys.exit(main())
