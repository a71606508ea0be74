"""CPU seconds to plan a thousand trials: composed once, crossed in Python."""

from __future__ import annotations

import json
import resource
import subprocess

from _harness import ROOT, python

AXES = [
    "model=mlp,bert_tiny,bert,distilbert,gpt2",
    "conversion=eager,inductor,aot_inductor,onnxruntime,torchscript",
    "workload.batch_size=1,2,4,8,16,32,64,128",
    "workload.seed=0,1,2,3,4",
]


def main() -> None:
    done = subprocess.run(
        python("-m", "benchorch", "plan", "--json", "-m", *AXES),
        check=True,
        cwd=ROOT,
        capture_output=True,
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    count = len(json.loads(done.stdout)["trials"])
    print(f"{count} trials planned in {used.ru_utime + used.ru_stime:.2f} CPU s (goal: 3 for 1000)")
    print(f"peak memory {used.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
