"""Metrics against tools that are not the project's: the kernel, torch's counter, paper, a clock."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from benchorch.domain.measurement import ProcessRecord
from benchorch.domain.result import ModelCounts
from benchorch.domain.tensors import Example
from benchorch.frameworks.flop_counter import count_model
from benchorch.hardware.host_meter import HostMeter
from benchorch.journal import reader

BATCH, WIDTH = 24_000, 1024
ACTIVATION_BYTES = BATCH * WIDTH * 4

# A model that writes down when it is made and called, by the clock that all processes share.
MODEL = f"""
import time
import torch

def note(what):
    with open("stamps.txt", "a") as file:
        file.write(f"{{what}} {{time.monotonic()}}\\n")

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, input):
        if self.calls < 2:
            note("call")
        if self.calls == 0:
            time.sleep(0.2)
        wide = input.repeat(1, {WIDTH})
        if self.calls == 0:
            note("called")
        self.calls += 1
        return wide.sum(1)

def make():
    note("make")
    time.sleep(0.3)
    note("made")
    return Net()
"""

# A small process between, because a child's count of memory starts at its parent's size.
OUTSIDE = """
import json, os, sys, time
began = time.monotonic()
child = os.spawnvp(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(child, 0)
ended = time.monotonic()
json.dump({"code": os.waitstatus_to_exitcode(status), "peak": used.ru_maxrss * 1024,
           "began": began, "ended": ended}, open("outside.json", "w"))
"""


@dataclass(frozen=True)
class Seen:
    """One run in one process, as it was seen from outside and as it recorded itself."""

    outside: dict[str, Any]
    stamps: list[tuple[str, float]]
    record: ProcessRecord


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    if not sys.platform.startswith("linux"):
        pytest.skip("wait4 and VmHWM as Linux has them")
    here = tmp_path_factory.mktemp("outside")
    (here / "net.py").write_text(MODEL)
    words = [
        *("model=factory", "model.factory=net:make", "conversion=eager", "hardware.threads=1"),
        "model.inputs={input: {shape: [batch_size, 1], generator: normal}}",
        *(
            f"workload.batch_size={BATCH}",
            "executor=inline",
            "protocol.canary_tolerance_ratio=null",
        ),
        *("stopping=fixed", "stopping.processes=1", "stopping.calls=3", "stopping.window_s=0"),
        *("protocol.split_passes=0", "recorder=none", "profiler=none", "hydra.run.dir=run"),
        *("store.root=store", "parity.inputs=1"),
    ]
    command = [sys.executable, "-c", OUTSIDE, sys.executable, "-m", "benchorch", *words]
    subprocess.run(command, cwd=here, check=True, capture_output=True, timeout=300)
    outside = json.loads((here / "outside.json").read_text())
    assert outside["code"] == 0
    lines = [line.split() for line in (here / "stamps.txt").read_text().splitlines()]
    record = reader.read_results(here / "run")[0].processes[0]
    return Seen(outside, [(what, float(when)) for what, when in lines], record)


def test_the_peak_of_memory_is_the_kernels(seen: Seen) -> None:
    # The largest thing there ever is in the process is the activation of a call.
    assert seen.record.memory is not None
    assert seen.record.peak_rss_bytes <= seen.outside["peak"]
    assert seen.record.peak_rss_bytes == pytest.approx(seen.outside["peak"], rel=0.03)


def test_what_a_call_takes_is_what_its_activation_has(seen: Seen) -> None:
    memory = seen.record.memory
    assert memory is not None
    assert memory.peak - memory.loaded == pytest.approx(ACTIVATION_BYTES, rel=0.1)


def test_a_cold_start_is_what_an_outer_clock_saw_of_it(seen: Seen) -> None:
    made = [when for what, when in seen.stamps if what == "made"][-1]
    make = [when for what, when in seen.stamps if what == "make"][-1]
    called = [(what, when) for what, when in seen.stamps if when > made]
    (_, call), (_, returned), (_, again) = called[:3]
    assert seen.record.load_s >= made - make >= 0.3
    assert seen.record.first_call_s >= returned - call >= 0.2
    # Nothing is counted twice, and nothing before the process began.
    assert seen.record.load_s <= call - seen.outside["began"]
    assert seen.record.first_call_s <= again - made


def test_the_later_calls_count_nothing_of_the_start_again(seen: Seen) -> None:
    record = seen.record
    inside_s = record.load_s + record.first_call_s + sum(record.observations.durations_ns) / 1e9
    assert inside_s <= seen.outside["ended"] - seen.outside["began"]


def counted(module: nn.Module, **arrays: np.ndarray) -> ModelCounts:
    found = count_model(module.eval(), Example(arrays=arrays, keywords={}, specs=()))
    assert not found.unavailable
    assert not found.uncounted
    return found


def products(found: ModelCounts) -> int:
    """FLOPs count a product twice and all else once; MACs count both once."""
    assert found.flops is not None
    assert found.macs is not None
    return found.flops - found.macs


def torchs(module: nn.Module, **arrays: np.ndarray) -> int:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(**{name: torch.from_numpy(array) for name, array in arrays.items()})
    return counter.get_total_flops()


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


class Convolutions(nn.Module):
    """8 x 8 pixels and 3 channels to 16 channels, 4 groups of which become 32, to 10 classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1, groups=4, bias=False)
        self.last = nn.Linear(32 * 16, 10, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.second(self.first(x)).flatten(1))


def test_convolutions_and_products_are_as_on_paper_and_as_torch_counts_them() -> None:
    by_hand = 64 * 16 * 3 * 9 + 16 * 32 * (16 // 4) * 9 + 32 * 16 * 10
    found = counted(Convolutions(), x=floats(1, 3, 8, 8))
    assert products(found) == by_hand
    assert torchs(Convolutions(), x=floats(1, 3, 8, 8)) == 2 * by_hand


class Attention(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v)


def test_fused_attention_is_as_on_paper_also_where_torch_does_not_count_it() -> None:
    heads, queries, keys, width = 4, 24, 40, 16
    arrays = {
        "q": floats(1, heads, queries, width),
        "k": floats(1, heads, keys, width),
        "v": floats(1, heads, keys, width),
    }
    by_hand = 2 * heads * queries * keys * width
    assert products(counted(Attention(), **arrays)) == by_hand
    assert torchs(Attention(), **arrays) in (0, 2 * by_hand)  # none: a kernel that it lacks


def test_a_bert_is_as_on_paper_and_torch_lacks_nothing_but_its_attention() -> None:
    transformers = pytest.importorskip("transformers")
    layers, width, inner, words = 2, 64, 256, 32
    config = transformers.BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        intermediate_size=inner,
        num_attention_heads=4,
        vocab_size=100,
        attn_implementation="sdpa",
    )
    ids = np.arange(words, dtype=np.int64)[None]
    attention = layers * 2 * words * words * width
    linear = layers * words * (4 * width * width + 2 * width * inner) + width * width
    model = transformers.BertModel(config)
    assert products(counted(model, input_ids=ids)) == linear + attention
    assert torchs(model.eval(), input_ids=ids) in (2 * linear, 2 * (linear + attention))


def test_energy_is_what_the_kernels_counter_rose_by() -> None:
    meter = HostMeter()
    if reason := meter.no_energy():
        pytest.skip(reason)
    zones = sorted(Path("/sys/class/powercap").glob("intel-rapl:[0-9]*"))
    packages = [z for z in zones if (z / "name").read_text().startswith("package")]
    own_before, before = meter.energy_j(), _microjoules(packages)
    ends = time.monotonic() + 1
    while time.monotonic() < ends:
        sum(range(1000))
    after, own_after = _microjoules(packages), meter.energy_j()
    assert own_after - own_before >= 0.999 * (after - before) / 1e6  # memory may be on top


def _microjoules(zones: list[Path]) -> int:
    return sum(int((zone / "energy_uj").read_text()) for zone in zones)
