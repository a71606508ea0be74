"""How long does the same answer take with other tools? Ratios of wall time, in interleaved rounds.

    python benchmarks/peers.py [mlp] [bert] [--place FOLDER] [--rounds 6] [--minutes 9]

Each peer is installed from PyPI into an environment of its own in FOLDER, which sees this one's
packages, so that torch is the same build. A peer that does not install, import or run is skipped
with the last line that it printed. Samples are kept in FOLDER/samples.jsonl: a later call goes on
where an earlier one ended, and no sample begins after `--minutes`. Nothing is cached before a
sample. Six rounds are the least whose smallest and largest ratio enclose the median in 95 % of
cases, so a ratio of fewer has no interval.

`mlp`: an eager MLP, from the shell prompt to the first estimate; goals are at most 0.75 of alma and
of pytorch-benchmark, 1.1 of torch.utils.benchmark. `bert`: BERT-base, eager and compiled, whole
commands; optimum-benchmark makes 100 calls in one process and compares no outputs; goal 0.5.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import first_estimate
from _harness import python

FEWEST_ROUNDS = 6
MLP = """
import torch
from torch import nn
widths = [256, 1024, 1024, 1024, 32]
layers = [each for a, b in zip(widths, widths[1:]) for each in (nn.Linear(a, b), nn.ReLU())]
model, data = nn.Sequential(*layers[:-1]).eval(), torch.randn(1, 256)
"""
TIMER = f"""{MLP}
from torch.utils.benchmark import Timer
with torch.inference_mode():
    print(Timer("model(data)", globals=globals(), num_threads=2).blocked_autorange())
"""
PYTORCH_BENCHMARK = f"""{MLP}
from pytorch_benchmark import benchmark
print(benchmark(model, data, num_runs=100)["timing"])
"""
ALMA = f"""{MLP}
from alma import benchmark_model
config = dict(n_samples=100, batch_size=1, device=torch.device("cpu"), multiprocessing=False)
print(benchmark_model(model, config, ["EAGER"], data=data))
"""
BERT = """
import transformers
transformers.BertModel(transformers.BertConfig()).save_pretrained("bert")
"""
OPTIMUM = """
import os
from optimum_benchmark import (
    Benchmark, BenchmarkConfig, InferenceConfig, ProcessConfig, PyTorchConfig)
if __name__ == "__main__":
    for compiled in (False, True):
        backend = PyTorchConfig(
            model=os.environ["PREPARED"] + "/bert", device="cpu", torch_compile=compiled,
            task="feature-extraction", library="transformers", model_type="bert")
        shapes = dict(batch_size=1, sequence_length=128)
        scenario = InferenceConfig(input_shapes=shapes, iterations=100, duration=0)
        config = BenchmarkConfig(
            name="bert", launcher=ProcessConfig(), backend=backend, scenario=scenario)
        print(Benchmark.launch(config).forward.latency)
"""
FIRST_MLP = ("model=mlp", "conversion=eager")
WHOLE_BERT = ("model=bert", "conversion=[eager,inductor]", "profile=[]")
TIMEOUT_S = 1800.0
PLACE = Path.home() / ".cache" / "benchorch-peers"


class Unavailable(Exception):
    """Reason why a peer gives no sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A tool, and the program that answers the question with it.

    Attributes:
        package: its distribution on PyPI; empty where it comes with torch.
        goal: of benchorch's wall time over its own.
        needs: requirements that its distribution leaves out.
        prepares: a program that runs once, untimed, in the folder called ``PREPARED``.
    """

    package: str
    program: str
    goal: float
    needs: tuple[str, ...] = ()
    prepares: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Something that benchorch and its peers answer.

    Attributes:
        words: of benchorch's command.
        first: whether the first estimate answers it, or only the command's end.
    """

    words: tuple[str, ...]
    first: bool
    peers: Mapping[str, Peer]


QUESTIONS = {
    "mlp": Question(
        words=FIRST_MLP,
        first=True,
        peers={
            "alma": Peer(package="alma-torch", program=ALMA, goal=0.75),
            "pytorch-benchmark": Peer(
                package="pytorch-benchmark", program=PYTORCH_BENCHMARK, goal=0.75
            ),
            "torch.utils.benchmark": Peer(package="", program=TIMER, goal=1.1),
        },
    ),
    "bert": Question(
        words=WHOLE_BERT,
        first=False,
        peers={
            "optimum-benchmark": Peer(
                package="optimum-benchmark",
                program=OPTIMUM,
                goal=0.5,
                # 0.6 asks for its metadata, and imports names that transformers 5 has not.
                needs=("optimum", "transformers<5", "datasets<4.2"),
                prepares=BERT,
            )
        },
    ),
}


def interpreter(place: Path, peer: Peer) -> str:
    """Python that can import the peer; installs and prepares it at first. Raises Unavailable."""
    if not peer.package:
        return sys.executable
    home = place / peer.package
    program = str(home / "bin" / "python")
    if not (home / "installed").exists():
        shutil.rmtree(home, ignore_errors=True)
        _checked([*python("-m", "venv", str(home))], place)
        packages = next(home.glob("lib/python*/site-packages"))
        (packages / "this_environment.pth").write_text(sysconfig.get_path("purelib"))
        # What this environment has counts as installed, so that nothing brings another torch.
        _checked([program, "-m", "pip", "install", "-q", peer.package, *peer.needs], place)
        _checked([program, "-c", peer.prepares], home)
        (home / "installed").touch()
    return program


def _checked(command: list[str], folder: Path, **variables: str) -> None:
    environment = {**os.environ, **variables, "HF_HUB_OFFLINE": "1", "TMPDIR": str(folder)}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if done.returncode:
        raise Unavailable(next(iter(done.stderr.strip().splitlines()[-1:]), "no message"))


def peer_s(place: Path, peer: Peer) -> float:
    """Seconds of the peer's whole program."""
    program = interpreter(place, peer)
    with tempfile.TemporaryDirectory() as at:
        script = Path(at, "peer.py")
        script.write_text(peer.program)
        began_s = time.perf_counter()
        _checked([program, str(script)], Path(at), PREPARED=str(place / peer.package))
        return time.perf_counter() - began_s


def ours_s(question: Question) -> float:
    """Seconds until benchorch has the answer."""
    with tempfile.TemporaryDirectory() as at:
        first_s, end_s = first_estimate.run(Path(at), "run", *question.words)
        return first_s if question.first and first_s else end_s


def table(samples: list[dict[str, object]], names: list[str]) -> str:
    """Rows of all samples so far: each peer's ratio, or why there is none."""
    rows = [
        "| question | against | benchorch's wall time over its own | goal |",
        "|---|---|---|---|",
    ]
    for name in names:
        for tool, peer in QUESTIONS[name].peers.items():
            mine = [s for s in samples if (s["question"], s["tool"]) == (name, tool)]
            reason = next((s["skipped"] for s in mine if "skipped" in s), None)
            ratios = [float(str(s["ratio"])) for s in mine if "ratio" in s]
            found = f"skipped: {reason}" if reason else _ratio(ratios)
            rows.append(f"| {name} | {tool} | {found} | {peer.goal:g} |")
    return "\n".join(rows)


def _ratio(ratios: list[float]) -> str:
    if not ratios:
        return "no sample yet"
    middle = f"{statistics.median(ratios):.2f}"
    ends = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) >= FEWEST_ROUNDS else ""
    return f"{middle}{ends}, n = {len(ratios)}"


def sampled(place: Path, name: str, tool: str) -> dict[str, object]:
    """One round: both sides in random order."""
    question, peer = QUESTIONS[name], QUESTIONS[name].peers[tool]
    found: dict[str, object] = {"question": name, "tool": tool}
    sides: list[tuple[str, Callable[[], float]]] = [
        ("peer_s", lambda: peer_s(place, peer)),
        ("ours_s", lambda: ours_s(question)),
    ]
    try:
        interpreter(place, peer)
        random.shuffle(sides)
        seconds = {side: run() for side, run in sides}
    except (Unavailable, subprocess.TimeoutExpired) as error:
        return {**found, "skipped": str(error)}
    return {**found, **seconds, "ratio": seconds["ours_s"] / seconds["peer_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("questions", nargs="*", metavar="mlp|bert")
    parser.add_argument("--place", type=Path, default=PLACE)
    parser.add_argument("--rounds", type=int, default=FEWEST_ROUNDS)
    parser.add_argument("--minutes", type=float, default=9.0)
    given = parser.parse_args()
    if unknown := set(given.questions) - set(QUESTIONS):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(QUESTIONS)}")
    names, ends_s = given.questions or list(QUESTIONS), time.monotonic() + 60 * given.minutes
    given.place.mkdir(parents=True, exist_ok=True)
    place, kept = given.place.resolve(), given.place / "samples.jsonl"
    samples = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    todo = [
        (number, name, tool)
        for number in range(given.rounds)
        for name in names
        for tool in QUESTIONS[name].peers
    ]
    for number, name, tool in todo:
        mine = [s for s in samples if (s["question"], s["tool"]) == (name, tool)]
        skipped = any("skipped" in s for s in mine)
        if time.monotonic() < ends_s and not skipped and len(mine) <= number:
            samples.append(sampled(place, name, tool))
            with kept.open("a") as file:
                file.write(json.dumps(samples[-1]) + "\n")
    print(table(samples, names))


if __name__ == "__main__":
    main()
