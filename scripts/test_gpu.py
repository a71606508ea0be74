"""Try everything that needs an NVIDIA GPU on this machine; write a page of what held.

    python scripts/test_gpu.py [--only TEXT] [--again] [--work runs/gpu] [--limit-s 600]
        [--total-s 1500]

The work is cut into pieces, each a process of its own with at most --limit-s seconds. What is
done is not done again, so that the script can be ended and started at any time; --again repeats
what --only names. --total-s ends the whole run in time, with the page written, and leaves the rest
for the next one. Without a GPU it says so, claims nothing and ends well.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchorch.domain.result import Outcome, TrialResult, beside_baselines
from benchorch.hardware.cuda import CudaHardware
from benchorch.journal import reader, run_directory

LIMIT_S = 600.0
SCRIPT = Path(__file__).resolve()

MODELS: Mapping[str, Sequence[str]] = {
    "mlp": ["model=mlp"],
    "cnn": ["model=resnet18", "model.classes=10", "model.inputs.x.shape=[batch_size,3,64,64]"],
    "transformer": ["model=bert_tiny", "workload.seq_len=16"],
}
NEEDS_GPU = (
    *("cudagraphs", "onnxruntime_cuda", "onnxruntime_tensorrt"),
    *("tensorrt", "torch_tensorrt", "torch_tensorrt_jit"),
    *("tensorrt_modelopt_fp8", "tensorrt_modelopt_int8", "tensorrt_modelopt_nvfp4"),
    "torchao_int4_gptq",
)
CONVERSIONS = (
    *("eager", "fp16", "bf16", "inductor", "inductor_reduce_overhead", "inductor_max_autotune"),
    *("aot_inductor", "export", "torchscript_frozen", "compile_onnxruntime"),
    *NEEDS_GPU,
    *("fp16+tensorrt", "fp16+torch_tensorrt", "fp16+onnxruntime_cuda"),
    *("torchao_float8_dynamic", "torchao_int8_dynamic", "quanto_int8", "pt2e_int8"),
)
"""What has a path of its own on a GPU; most others are the same code as one of these."""

SETTINGS = (
    *("hardware=local_gpu", "workload.batch_size=4", "recorder=none"),
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=20", "stopping.window_s=0.2"),
    *("protocol.repeats=0", "protocol.canary_tolerance_ratio=null", "protocol.pair_window_s=0.2"),
)
OPEN_SIZE = ("workload.dynamic=[batch_size]", "workload.batch_size=3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One thing that is tried.

    Attributes:
        name: its file and its row.
        command: what is run, the piece's own folder appended to `words` of benchorch.
        read: what came of it, from its folder and its output; raises `Broke` where it did not hold.
    """

    name: str
    command: Callable[[Path], Sequence[str]]
    read: Callable[[Path, str], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What came of a piece.

    Attributes:
        state: held, broke, skipped (something is not installed) or hung (ended at the limit).
        why: in a sentence, unless it held.
        seconds: how long it took.
        found: figures.
    """

    state: str
    why: str = ""
    seconds: float = 0.0
    found: Mapping[str, Any] = field(default_factory=dict)


class Broke(Exception):
    """It ran, and what it promises is not so."""


class Skipped(Exception):
    """It cannot run here, because something is not installed."""


def main(argv: Sequence[str] | None = None, pieces: Sequence[Piece] | None = None) -> int:
    """Run what has not run, write the page; 1 where something did not hold."""
    options = _options(argv)
    if options.check:
        print(json.dumps(CHECKS[options.check]()))
        return 0
    reason = no_gpu()
    if reason:
        print(f"Nothing was tried, and nothing is claimed: {reason}")
        return 0
    chosen = list(every_piece() if pieces is None else pieces)
    options.work.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.total_s
    for piece in chosen:
        named = options.only in piece.name
        if named and (options.again or _known(options.work, piece) is None):
            left_s = end - time.monotonic()
            outcome = (
                attempt(piece, options.work, min(options.limit_s, left_s)) if left_s > 0 else None
            )
            if outcome is None or (outcome.state == "hung" and left_s < options.limit_s):
                print(f"--total-s is used up at {piece.name}; start again for the rest.")
                break  # the piece was not given its own limit: it counts as not tried
            _keep(options.work, piece, outcome)
    found = {piece.name: _known(options.work, piece) for piece in chosen}
    write_page(options.work, found)
    return int(any(each and each.state in ("broke", "hung") for each in found.values()))


def no_gpu() -> str | None:
    """Reason why there is nothing to try, or None; asks torch in another process."""
    hardware = CudaHardware(kind="local_gpu", conversions=("eager",))
    reason = hardware.mismatch()
    if reason:
        return reason
    ask = "import torch; print(torch.__version__, torch.cuda.is_available())"
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    if told.stdout.split()[-1:] != ["True"]:
        return f"torch sees no CUDA device ({(told.stdout or told.stderr).strip()[-200:]})."
    return None


def attempt(piece: Piece, work: Path, limit_s: float) -> Outcomes:
    """Run a piece to its end or to the limit, with everything that it started."""
    folder = work / piece.name.replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"== {piece.name}", flush=True)
    before = time.monotonic()
    log = folder / "log.txt"
    with log.open("w") as output:
        started = subprocess.Popen(
            [str(word) for word in piece.command(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            started.wait(limit_s)
        except subprocess.TimeoutExpired:
            return Outcomes(
                state="hung", why=f"ended after {limit_s:g} s; see {log}", seconds=limit_s
            )
        finally:
            _end(started)
    outcome = _read(piece, folder, log.read_text(errors="replace"), started.returncode)
    seconds = round(time.monotonic() - before, 1)
    print(f"   {outcome.state} {outcome.why}".rstrip(), flush=True)
    return Outcomes(**{**asdict(outcome), "seconds": seconds})


def _end(started: subprocess.Popen[bytes]) -> None:
    """End what is left of the process and those that it started, a session of their own."""
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


def _read(piece: Piece, folder: Path, said: str, code: int) -> Outcomes:
    try:
        found = piece.read(folder, said)
    except Skipped as reason:
        return Outcomes(state="skipped", why=str(reason))
    except Broke as reason:
        return Outcomes(state="broke", why=str(reason))
    except Exception as error:  # a piece that says nothing readable has not held
        last = said.strip().splitlines()[-1:] or ["nothing was said"]
        why = f"exit code {code}, {type(error).__name__}: {error}; last line: {last[0]}"
        return Outcomes(state="broke", why=why)
    return Outcomes(state="held", found=found)


# What is tried.


def every_piece() -> Iterator[Piece]:
    """All of them, what others rest on first."""
    for name in CHECKS:
        yield _check(name)
    for model in MODELS:
        for tf32 in ("false", "true"):
            for conversion in CONVERSIONS:
                words = [f"conversion={conversion}", f"protocol.tf32={tf32}", "profiler=none"]
                read = partial(_agrees, tf32=tf32 == "true")
                yield _run(f"{model}/tf32={tf32}/{conversion}", model, words, read)
    for conversion in ("tensorrt", "torch_tensorrt"):
        profile = f"conversion.steps.{conversion}.profile={{batch_size: [1, 4, 8]}}"
        words = [f"conversion={conversion}", profile, *OPEN_SIZE, "profiler=none"]
        yield _run(f"mlp/open_size/{conversion}", "mlp", words, _agrees)
    energy = ("protocol.energy_windows=3", "protocol.energy_window_s=2", "profiler=none")
    yield _run("energy", "cnn", ["conversion=eager", *energy], _has_energy)
    for conversion in ("eager", "inductor"):
        words = [f"conversion={conversion}", "profiler=torch"]
        yield _run(f"trace/{conversion}", "transformer", words, _has_kernels)
    for conversion in ("cudagraphs", "inductor_reduce_overhead"):
        words = [f"conversion={conversion}", "profiler=torch"]
        yield _run(f"graphs/{conversion}", "mlp", words, _has_graph_launches)


def _check(name: str) -> Piece:
    return Piece(
        name=name,
        command=lambda _: [sys.executable, str(SCRIPT), "--check", name],
        read=lambda _, said: _verdict(json.loads(said.strip().splitlines()[-1])),
    )


def _verdict(told: Mapping[str, Any]) -> Mapping[str, Any]:
    if told.get("broke"):
        raise Broke(told["broke"])
    return told


def _run(
    name: str, model: str, words: Sequence[str], read: Callable[[TrialResult, Path], Any]
) -> Piece:
    """One invocation of benchorch, whose result of the named conversion is read."""
    conversion = words[0].partition("=")[2]

    def command(folder: Path) -> Sequence[str]:
        place = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
        store = folder.parent / "store"
        own = [f"store.root={store}", f"hydra.run.dir={place}"]
        return [sys.executable, "-m", "benchorch", *SETTINGS, *MODELS[model], *words, *own]

    def from_results(folder: Path, said: str) -> Mapping[str, Any]:
        place = max(path for path in folder.iterdir() if path.is_dir())
        result = _result(place, conversion)
        return {**_figures(result), **(read(result, place) or {})}

    return Piece(name=name, command=command, read=from_results)


def _result(place: Path, conversion: str) -> TrialResult:
    """The conversion's line of the results; `Skipped` with the plan's reason where it has none."""
    if (place / run_directory.RESULTS).exists():
        results = {result.trial_id: result for result in reader.read_results(place)}
        for result in beside_baselines(results).values():
            if result.labels["conversion"] == conversion:
                return result
    for skip in json.loads((place / run_directory.PLAN).read_text())["skips"]:
        if skip["labels"]["conversion"] == conversion:
            raise Skipped(f"{skip['reason']} {skip['remedy']}".strip())
    raise Broke("there is no result and no reason why")


def _figures(result: TrialResult) -> dict[str, Any]:
    """What is told of every trial; `Broke` where it failed."""
    if result.failure:
        raise Broke(f"{result.failure.stage}: {result.failure.message} {result.failure.remedy}")
    if result.outcome is not Outcome.OK:
        raise Broke(f"it ended as {result.outcome}")
    facts = dict(result.processes[-1].facts) if result.processes else {}
    errors = [each.relative_l2_ratio for each in result.parity.outputs] if result.parity else []
    return {"facts": facts, "relative_l2": max(errors, default=None)}


def _agrees(result: TrialResult, place: Path, *, tf32: bool = False) -> Mapping[str, Any]:
    """The outputs agree with the reference's, and TF32 was what was requested."""
    verdict = result.parity
    if verdict is None or not verdict.passed:
        raise Broke(verdict.explanation if verdict else "parity was not checked")
    used = {process.facts.get("tf32") for process in result.processes}
    if used != {tf32}:
        raise Broke(f"protocol.tf32={tf32}, and processes report {used}")
    return {"allowed": verdict.tolerance_ratio}


def _has_energy(result: TrialResult, place: Path) -> Mapping[str, Any]:
    energy = result.energy
    if energy is None or not energy.windows:
        raise Broke(energy.unavailable if energy else "energy was not measured")
    return {"source": energy.source, "windows": len(energy.windows), "idle_w": energy.idle_w}


def _has_kernels(result: TrialResult, place: Path) -> Mapping[str, Any]:
    """A live trace has kernels on the device, and was analysed."""
    kinds = Counter(str(event.get("cat")) for event in _events(result, place))
    if not kinds["kernel"]:
        raise Broke(f"the trace has no kernels; it has {dict(kinds)}")
    if result.profile is None or result.profile.bottleneck is None:
        raise Broke(f"the trace was not analysed: {result.profile and result.profile.unavailable}")
    return {"events": dict(kinds), "bottleneck": str(result.profile.bottleneck)[:200]}


def _has_graph_launches(result: TrialResult, place: Path) -> Mapping[str, Any]:
    launches = sum("GraphLaunch" in str(event.get("name")) for event in _events(result, place))
    if not launches:
        raise Broke("the trace has no cudaGraphLaunch: the kernels were not replayed as a graph")
    return {"graph_launches": launches}


def _events(result: TrialResult, place: Path) -> list[Mapping[str, Any]]:
    """The events of a trial's trace."""
    import gzip

    if result.profile is None or not result.profile.trace:
        raise Broke(f"there is no trace: {result.profile and result.profile.unavailable}")
    path = next((place / "trials").glob(f"*/{result.profile.trace}"))
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    events: list[Mapping[str, Any]] = json.loads(text)["traceEvents"]
    return events


# What is asked of torch directly, each in a process of its own.


def check_machine() -> dict[str, Any]:
    """What the rest ran on."""
    import torch

    from benchorch.host.environment import package_versions

    names = ("torch", "triton", "tensorrt", "tensorrt-cu13", "tensorrt-cu12", "torch-tensorrt")
    more = ("onnxruntime", "onnxruntime-gpu", "torchao", "optimum-quanto", "nvidia-ml-py")
    major, minor = torch.cuda.get_device_capability()
    return {
        "gpu": torch.cuda.get_device_name(),
        "compute_capability": f"{major}.{minor}",
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "packages": package_versions((*names, *more)),
    }


def check_clock() -> dict[str, Any]:
    """The device's time lies within the host's, grows with the work, and issuing is shorter."""
    import torch

    from benchorch.hardware.cuda import CudaClock

    clock, matrix = CudaClock(), torch.rand(4096, 4096, device="cuda")
    torch.mm(matrix, matrix)
    one = clock.time_block(lambda: torch.mm(matrix, matrix), 1)
    many = clock.time_block(lambda: torch.mm(matrix, matrix), 8, at_once=True)
    found = {
        name: {"wall_ns": t.wall, "issue_ns": t.issue, "device_ns": t.device}
        for name, t in {"one": one, "eight": many}.items()
    }
    for name, timing in (("one", one), ("eight", many)):
        if not timing.device or not timing.issue or not 0 < timing.device <= timing.wall * 1.05:
            return {"broke": f"{name}: the device's time is not within the host's: {found}"}
    if not one.device or not many.device or not 4 < many.device / one.device < 16:
        return {"broke": f"eight products do not take about eight times one's time: {found}"}
    return found


def _rounding(*, allowed: bool) -> dict[str, Any]:
    """Relative L2 errors in this process, whose CUDA libraries have not been loaded yet."""
    from benchorch.frameworks.tf32 import set_tf32, tf32_in_use

    set_tf32(allowed=allowed)
    import torch

    torch.manual_seed(0)
    matrix, image = torch.randn(1024, 1024), torch.randn(8, 64, 32, 32)
    weight = torch.randn(64, 64, 3, 3)
    pairs = {
        "matmul": (matrix.cuda() @ matrix.cuda(), matrix.double() @ matrix.double()),
        "convolution": (
            torch.nn.functional.conv2d(image.cuda(), weight.cuda()),
            torch.nn.functional.conv2d(image.double(), weight.double()),
        ),
    }
    errors = {
        name: float((found.cpu().double() - exact).norm() / exact.norm())
        for name, (found, exact) in pairs.items()
    }
    has_tf32 = torch.cuda.get_device_capability() >= (8, 0)
    wrong = [
        f"{name}: {error:.1e}"
        for name, error in errors.items()
        if (error > 1e-5) is not (allowed and has_tf32)
    ]
    told = {"errors": errors, "in_use": tf32_in_use(), "has_tf32": has_tf32}
    return told | ({"broke": f"tf32 {allowed} has errors of {', '.join(wrong)}"} if wrong else {})


CHECKS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "machine": check_machine,
    "clock": check_clock,
    "tf32_off": lambda: _rounding(allowed=False),
    "tf32_on": lambda: _rounding(allowed=True),
}


# What is kept and written.


def _keep(work: Path, piece: Piece, outcome: Outcomes) -> None:
    path = _file(work, piece)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(asdict(outcome), indent=1, default=str))
    beside.replace(path)


def _known(work: Path, piece: Piece) -> Outcomes | None:
    """What came of it before, or None; a file that was cut short counts as none."""
    try:
        return Outcomes(**json.loads(_file(work, piece).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _file(work: Path, piece: Piece) -> Path:
    return work / "done" / f"{piece.name.replace('/', '-')}.json"


MARKS = {"held": "✓", "broke": "✗", "hung": "⧖", "skipped": "–", None: "·"}


def write_page(work: Path, found: Mapping[str, Outcomes | None]) -> None:
    """``report.md`` and ``report.json``."""
    told = {name: asdict(each) if each else None for name, each in found.items()}
    (work / "report.json").write_text(json.dumps(told, indent=1, default=str))
    counts = Counter(each.state if each else "not tried" for each in found.values())
    rows = [_row(name, each) for name, each in found.items()]
    machine = found.get("machine")
    parts = [
        "# What held on this GPU",
        f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by `make test-gpu`.",
        f"```json\n{json.dumps(machine.found, indent=1)}\n```" if machine and machine.found else "",
        ", ".join(f"{count} {state}" for state, count in counts.items()) + ".",
        "✓ held, ✗ broke, ⧖ ended at the limit, – something is not installed, · not tried.",
        "| piece | | s | relative L2 | why |\n|---|---|---|---|---|\n" + "\n".join(rows),
    ]
    (work / "report.md").write_text("\n\n".join(part for part in parts if part) + "\n")
    print(f"Wrote {work / 'report.md'} and report.json beside it: {', '.join(parts[3:4])}")


def _row(name: str, each: Outcomes | None) -> str:
    if each is None:
        return f"| {name} | · | | | |"
    error = each.found.get("relative_l2")
    cells = [name, MARKS[each.state], f"{each.seconds:g}", "" if error is None else f"{error:.1e}"]
    why = " ".join(each.why.replace("|", "/").split())
    return f"| {' | '.join([*cells, why])} |"


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="pieces whose names hold this")
    parser.add_argument("--again", action="store_true", help="what has been tried, too")
    parser.add_argument("--work", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="of one piece")
    parser.add_argument("--total-s", type=float, default=math.inf, help="of the whole run")
    parser.add_argument("--check", choices=sorted(CHECKS), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if not 0 < options.limit_s <= LIMIT_S:
        parser.error(f"--limit-s: got {options.limit_s:g}, it must be above 0, at most {LIMIT_S:g}")
    options.work = options.work.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
