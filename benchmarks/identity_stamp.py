"""Time to identify a transformers-sized factory: by loading it, and by its stamp.

    python benchmarks/identity_stamp.py

Each line is a process of its own, as each build stage is. The time of the processor is that of all
its threads, which other programs on the machine change little.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

FACTORY = """
import torch, transformers

class Logits(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits

def make():
    config = transformers.GPT2Config(n_layer=12, n_embd=768, n_head=12)
    return Logits(transformers.GPT2LMHeadModel(config))
"""
INPUTS = {"input_ids": {"shape": ["batch_size", 16], "generator": "tokens", "vocab_size": 50257}}
PROCESSES = 5


def identify(folder: Path) -> None:
    """What a build stage does before it can look into the store."""
    from dataclasses import replace

    from benchorch.config.composer import Composer, config_loader
    from benchorch.config.trial_setup import open_trial
    from benchorch.models.factory import FactoryModel
    from benchorch.trial.build_keys import Keys
    from benchorch.trial.identity_stamps import Stamps

    loads = 0
    model = FactoryModel(factory="stamped:make", inputs=INPUTS)
    setup = open_trial(Composer(config_loader()).cells(["model=mlp", "conversion=eager"])[0].config)
    setup = replace(setup, model=model)

    def load() -> object:
        nonlocal loads
        loads += 1
        return model.load(0)

    stamps = Stamps(folder=folder / "stamps")
    notes = folder / "notes" / str(time.time_ns())
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    keys = Keys(setup, threads=1, directory=notes, load=load, stamps=stamps)  # type: ignore[arg-type]
    keys.find_out()
    took_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    print(
        f"loads {loads}, torch imported: {'torch' in sys.modules}, identified in {took_s:.2f} s, "
        f"of the processor {cpu_s:.2f} s",
        flush=True,
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place, "stamped.py").write_text(FACTORY)
        for _ in range(PROCESSES):
            command = [sys.executable, str(Path(__file__).resolve()), place]
            subprocess.run(command, cwd=place, env={"PYTHONPATH": place}, check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        identify(Path(sys.argv[1]))
    else:
        main()
