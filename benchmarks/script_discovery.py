"""How much longer a script takes when its models are sought: against ``python script.py``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from _harness import interleave, python, ratio_row, run_process, table

HEAVY_LOOPS = """
import torch

def collatz(n):
    steps = 0
    while n != 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps += 1
    return steps

net = torch.nn.Linear(8, 8)
print(max(collatz(n) for n in range(1, 60000)), net(torch.ones(1, 8)).sum())
"""
MANY_CALLS = """
import torch

net = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(20)))
x = torch.ones(1, 8)
with torch.inference_mode():
    for _ in range(20000):
        net(x)
"""
MANY_SMALL_CALLS = """
import torch

net, x = torch.nn.Linear(8, 8), torch.ones(1, 8)
with torch.inference_mode():
    for _ in range(200000):
        net(x)
"""
TINY_BERT = """
import torch
from transformers import BertConfig, BertModel

sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
model = BertModel(BertConfig(vocab_size=128, num_hidden_layers=2, **sizes)).eval()
with torch.no_grad():
    model(torch.ones(1, 16, dtype=torch.long))
"""
SCRIPTS = {
    "Python loops, one call": HEAVY_LOOPS,
    "20,000 calls of 21 modules": MANY_CALLS,
    "200,000 calls of one linear layer": MANY_SMALL_CALLS,
    "one call of a tiny BERT of transformers": TINY_BERT,
}


def main(rounds: int) -> None:
    rows = []
    for text, source in SCRIPTS.items():
        with tempfile.TemporaryDirectory() as scratch:
            script = Path(scratch) / "script.py"
            script.write_text(source)
            command = python("-m", "benchorch", "script", str(script), "--analyze-only")
            sides = {
                "alone": lambda path=script: run_process(python(str(path))),
                "sought": lambda words=command: run_process(words),
            }
            rows.append(ratio_row(text, interleave(sides, rounds), "sought", "alone", "1.3"))
    print(table(rows))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
