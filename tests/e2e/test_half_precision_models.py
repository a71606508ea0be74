"""Models that come in half precision are served in it, and their rows say so."""

from benchorch.journal.reader import read_results

HALVES = """
import torch

def made():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 8)]
    return torch.nn.Sequential(*layers).bfloat16()
"""
FAST = ["stopping=fixed", "stopping.processes=1", "stopping.calls=5", "stopping.window_s=0.05"]
FAST += ["profiler=none", "recorder=none", "protocol.pairing=none"]
FAST += ["protocol.canary_tolerance_ratio=null", "executor=inline"]


def test_a_bfloat16_model_is_benchmarked_in_bfloat16(place):
    (place.path / "halves.py").write_text(HALVES)
    said = place.run(
        *("model=factory", "model.factory=halves:made", "workload.batch_size=4"),
        *("model.inputs={input:{shape:[batch_size,16],generator:normal}}", *FAST),
        *("conversion=[eager,export,fp32]", "hydra.run.dir=out"),
    ).stdout
    found = {r.labels["conversion"]: r for r in read_results(place.path / "out")}
    assert [found[name].execution.executed for name in ("eager", "export", "fp32")] == [
        *("bfloat16", "bfloat16"),
        "float32",
    ]
    assert all(result.parity.passed for result in found.values())
    # Two roundings of bfloat16 are apart by less than is allowed and by more than float32's.
    assert found["fp32"].parity.outputs[0].relative_l2_ratio > 1e-4
    assert "bfloat16" in said
