"""What the process that measures an ONNX artifact imports: each import is a part of every trial."""

import re
from dataclasses import replace

WORDS = (
    *("model=mlp", "conversion=onnxruntime", "baseline=null", "profiler=none", "recorder=none"),
    *("stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"),
    *("protocol.pairing=none", "protocol.canary_tolerance_ratio=null"),
)
IMPORTED = re.compile(r"^import time:.*\|\s+(\S+)$", re.MULTILINE)


def test_a_process_of_an_onnx_artifact_imports_neither_torch_nor_scipy_nor_the_model(place):
    place.run(*WORDS, "executor=inline", "hydra.run.dir=built")
    shown = replace(place, variables={**place.variables, "PYTHONPROFILEIMPORTTIME": "1"})
    done = shown.run(*WORDS, "hydra.run.dir=measured")
    [result] = place.results("measured")
    log = place.path / "measured" / "trials" / result["trial_id"] / "log.txt"
    modules = set(IMPORTED.findall(log.read_text()))
    assert "onnxruntime" in modules
    assert not {name.partition(".")[0] for name in modules} & {"torch", "scipy", "transformers"}
    assert "p50" in done.stdout
