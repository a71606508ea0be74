"""Time to first token and time per token: benchorch's loop beside one written by hand.

Both run in one process on the same weights, in random order within each round: for eager with
PyTorch's dynamic and static caches, the loop that the transformers documentation shows; for ONNX
Runtime the session's own binding. What is printed is the median over rounds of benchorch's time
over the other's, with its 95 % interval by order statistics; the goal is that each interval lies
within 3 % of 1.

    python benchmarks/generation_accuracy.py gpt2 200 STORE

STORE keeps artifacts and each round, so the same command goes on where it was ended; it ends
itself after 9 minutes.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic, perf_counter_ns
from typing import Any

PROMPT, NEW, THREADS = 64, 16, 2
LONGEST_S = 480.0  # of rounds; the last conversion may still have to be built

Times = list[int]
"""The start and each token, in nanoseconds."""


def main(model: str, rounds: int, store: Path) -> None:
    store.mkdir(parents=True, exist_ok=True)
    kept = store / f"{model}_rounds.jsonl"
    deadline_s = monotonic() + LONGEST_S
    for conversion, by_hand in LOOPS.items():
        missing = rounds - len(read(kept, conversion))
        if missing > 0 and monotonic() < deadline_s:
            measure(model, conversion, by_hand, store, kept, missing, deadline_s)
    print(f"{model}, {PROMPT} prompt tokens, {NEW} new tokens, {THREADS} threads\n")
    print("| conversion | rounds | TTFT ms | ratio [95 %] | TPOT ms | ratio [95 %] |")
    print("|---|---|---|---|---|---|")
    for conversion in LOOPS:
        print(row(conversion, read(kept, conversion)))


def read(kept: Path, conversion: str) -> list[dict[str, Any]]:
    lines = kept.read_text().splitlines() if kept.exists() else []
    return [each for each in map(json.loads, lines) if each["conversion"] == conversion]


def measure(
    model: str,
    conversion: str,
    by_hand: Callable[[Any, Any], Callable[[], Times]],
    store: Path,
    kept: Path,
    rounds: int,
    deadline_s: float,
) -> None:
    loaded = load(model, conversion, store)
    with closing(loaded.executable), loaded.executable.calling(), kept.open("a") as file:
        prompt = loaded.batches[0]["input_ids"]
        sides = {
            "benchorch": lambda: timed(loaded.calls[0]),
            "by_hand": by_hand(loaded, prompt),
        }
        order = random.Random()
        for number in range(rounds + 2):
            times = {side: sides[side]() for side in order.sample(list(sides), 2)}
            if number < 2:  # until both are warm
                continue
            file.write(json.dumps({"conversion": conversion, **times}) + "\n")
            file.flush()
            if monotonic() > deadline_s:
                return


def load(model: str, conversion: str, store: Path) -> Any:
    """The conversion as a measuring process has it."""
    from benchorch.config.composer import Composer, config_loader
    from benchorch.config.trial_setup import open_trial
    from benchorch.domain.session import Session
    from benchorch.run.expand import SPEC_KEYS
    from benchorch.stores.local import LocalStore
    from benchorch.trial import measuring_process
    from benchorch.trial.build import BuildJob
    from benchorch.trial.stages import BuiltTrial

    words = [f"model={model}", f"conversion={conversion}", "scenario=generate"]
    words += [f"workload.prompt_tokens={PROMPT}", f"workload.new_tokens={NEW}"]
    (cell,) = Composer(config_loader()).cells(words)
    spec = {key: cell.config[key] for key in SPEC_KEYS}
    setup = open_trial(spec)
    node = {"_target_": "benchorch.stores.local.LocalStore", "root": str(store), "quota_gib": 20}
    session = Session(plan_id="accuracy", directory=store / "run", store=node, rebuild="if_needed")
    job = BuildJob(
        setup=setup,
        name=f"{model} {conversion}",
        store=LocalStore(root=str(store), quota_gib=20),
        session=session,
        inputs=1,
        threads=THREADS,
    )
    built = job.build(lambda _: None)
    trial = BuiltTrial(spec=spec, built=built, threads=THREADS, pin=False)
    return measuring_process.load(trial, setup, lambda _: None)


def timed(call: Any) -> Times:
    call.take_times()
    call()
    ((*times,),) = call.take_times()
    return times


def row(conversion: str, rounds: list[dict[str, Any]]) -> str:
    if not rounds:
        return f"| {conversion} | 0 | | | | |"
    cells = [conversion, str(len(rounds))]
    for figure in (first_ms, later_ms):
        pairs = [(figure(each["benchorch"]), figure(each["by_hand"])) for each in rounds]
        ratios = sorted(one / other for one, other in pairs)
        cut = max(0, int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5))
        low, high = ratios[cut], ratios[len(ratios) - 1 - cut]
        cells.append(f"{statistics.median(other for _, other in pairs):.2f}")
        cells.append(f"{statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}]")
    return f"| {' | '.join(cells)} |"


def first_ms(times: Times) -> float:
    return (times[1] - times[0]) / 1e6


def later_ms(times: Times) -> float:
    return (times[-1] - times[1]) / 1e6 / (len(times) - 2)


def source_of(loaded: Any) -> Any:
    """The transformers model itself."""
    return loaded.executable.loaded.module.model


def dynamic_loop(loaded: Any, prompt: Any) -> Callable[[], Times]:
    from transformers import DynamicCache

    return torch_loop(source_of(loaded), prompt, DynamicCache)


def static_loop(loaded: Any, prompt: Any) -> Callable[[], Times]:
    from transformers import StaticCache

    model = source_of(loaded)
    cache = StaticCache(config=model.config, max_cache_len=PROMPT + NEW)

    def emptied() -> Any:
        cache.reset()
        return cache

    return torch_loop(model, prompt, emptied)


def torch_loop(model: Any, prompt: Any, make_cache: Callable[[], Any]) -> Callable[[], Times]:
    import torch

    ids = torch.tensor(prompt)

    def run() -> Times:
        tokens, cache = ids, make_cache()
        times = [perf_counter_ns()]
        for _ in range(NEW):
            answer = model(tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
            token = int(answer.logits[0, -1].argmax())
            times.append(perf_counter_ns())
            tokens = torch.tensor([[token]])
        return times

    return run


def onnx_loop(loaded: Any, prompt: Any) -> Callable[[], Times]:
    import numpy as np
    from onnxruntime import OrtValue

    session = loaded.executable.loaded.session
    caches = [node for node in session.get_inputs() if node.name.startswith("past_")]
    takes_positions = any(node.name == "position_ids" for node in session.get_inputs())
    outputs = [node.name for node in session.get_outputs()]

    def run() -> Times:
        past = [
            OrtValue.ortvalue_from_numpy(
                np.zeros((1, node.shape[1], 0, node.shape[3]), np.float32), "cpu", 0
            )
            for node in caches
        ]
        ids, start = prompt, 0
        times = [perf_counter_ns()]
        for _ in range(NEW):
            binding = session.io_binding()
            binding.bind_cpu_input("input_ids", ids)
            if takes_positions:
                places = np.arange(start, start + ids.shape[1])[None]
                binding.bind_cpu_input("position_ids", places)
            for node, value in zip(caches, past, strict=True):
                binding.bind_ortvalue_input(node.name, value)
            for name in outputs:
                binding.bind_output(name, "cpu")
            session.run_with_iobinding(binding)
            logits, *past = binding.get_outputs()
            token = int(logits.numpy()[0].argmax())
            times.append(perf_counter_ns())
            start += ids.shape[1]
            ids = np.array([[token]], dtype=np.int64)
        return times

    return run


LOOPS = {"eager": dynamic_loop, "eager_static_cache": static_loop, "onnxruntime": onnx_loop}


if __name__ == "__main__":
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        main(
            words[0] if words else "gpt2",
            int(words[1]) if len(words) > 1 else 12,
            Path(words[2] if len(words) > 2 else folder),
        )
