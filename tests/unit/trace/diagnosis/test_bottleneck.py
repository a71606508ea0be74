from __future__ import annotations

import pytest

from benchorch.trace.diagnosis.advice import ADVICE, MEANING
from benchorch.trace.diagnosis.bottleneck import BottleneckEvidence, diagnose
from benchorch.trace.findings import EntityRow


def row(name: str, on_path: int, **known: object) -> EntityRow:
    limits = dict.fromkeys(("speedup_2x", "speedup_max", "bound_path", "bound_work"), 1.0)
    return EntityRow(
        name=name,
        count=1,
        total_ns=on_path,
        on_path_ns=on_path,
        near_path_ns=on_path,
        drag_ns=on_path,
        blame_ns=0,
        **limits,
        **known,
    )


def evidence(device: bool = True, **changed: object) -> BottleneckEvidence:
    usual: dict[str, object] = {
        "makespan_ns": 1_000_000,
        "saved_ns": {"host": 0, "device": 0},
        "classes": {"gpu_compute": 900_000, "cpu_python": 100_000},
        "tiers": {"recorded": 1_000_000},
        "rows": [row("gemm", 500_000)],
        "device": device,
    }
    return BottleneckEvidence(**{**usual, **changed})


@pytest.mark.parametrize(
    ("saved", "limit"),
    [
        ({"host": 600_000, "device": 100_000}, "launch-bound"),
        ({"host": 600_000, "device": 100_000, "python": 400_000}, "idle-bound"),
        ({"host": 600_000, "device": 100_000, "compute": 400_000}, "host-bound"),
        ({"host": 50_000, "device": 600_000}, "kernel-bound"),
        ({"host": 50_000, "device": 600_000, "sync": 150_000}, "sync-bound"),
        ({"host": 500_000, "device": 100_000, "sync": 150_000}, "launch-bound"),
        ({"host": 300_000, "device": 100_000, "data": 250_000}, "data-bound"),
        ({"host": 50_000, "device": 600_000, "copies": 400_000}, "transfer-bound"),
        ({"host": 90_000, "device": 80_000}, "balanced"),
    ],
)
def test_the_greatest_gain_names_the_limit(saved: dict[str, int], limit: str) -> None:
    found = diagnose(evidence(saved_ns=saved))
    assert found.limit == limit
    assert found.sentence.startswith(limit.capitalize())
    assert found.gains["host"] == saved["host"] / 1_000_000
    assert bool(found.advice) is (limit != "balanced")


@pytest.mark.parametrize(
    ("saved", "limit"),
    [
        ({"compute": 250_000, "overhead": 750_000, "python": 700_000}, "overhead-bound"),
        ({"compute": 950_000, "overhead": 50_000}, "kernel-bound"),
        ({"compute": 500_000, "overhead": 50_000, "sync": 200_000}, "sync-bound"),
        ({"compute": 300_000, "data": 600_000}, "data-bound"),
    ],
)
def test_without_a_device_the_host_has_limits_too(saved: dict[str, int], limit: str) -> None:
    classes = {"cpu_compute": 900_000}
    found = diagnose(evidence(device=False, saved_ns=saved, classes=classes))
    assert found.limit == limit
    assert found.advice


@pytest.mark.parametrize("side", ["compute", "memory"])
def test_the_roofline_of_the_path_says_which_side_limits(side: str) -> None:
    other = "memory" if side == "compute" else "compute"
    rows = [
        row("a", 600_000, bound=side, efficiency_ratio=0.9),
        row("b", 100_000, bound=other, efficiency_ratio=0.9),
    ]
    found = diagnose(evidence(saved_ns={"host": 0, "device": 900_000}, rows=rows))
    assert found.limit == f"{side}-bound"
    assert "reaches 90 % of it" in found.sentence


def test_far_from_the_roofline_other_kernels_are_advised_first() -> None:
    rows = [row("a", 800_000, bound="compute", efficiency_ratio=0.2)]
    found = diagnose(evidence(saved_ns={"device": 900_000}, rows=rows))
    assert found.advice.startswith("Try the kernels")
    assert "bf16" in found.advice


def test_too_little_known_work_names_no_side() -> None:
    rows = [row("a", 100_000, bound="compute", efficiency_ratio=0.9)]
    assert diagnose(evidence(saved_ns={"device": 900_000}, rows=rows)).limit == "kernel-bound"


def test_what_is_mostly_guessed_has_no_verdict() -> None:
    tiers = {"recorded": 700_000, "inferred": 200_000, "unexplained": 100_000}
    found = diagnose(evidence(tiers=tiers, saved_ns={"host": 900_000, "device": 0}))
    assert found.limit == "inconclusive"
    assert "70 % of the 1 ms" in found.sentence
    assert found.evidence["inferred"] == 0.2


def test_what_was_tried_is_not_advised_again() -> None:
    saved = {"compute": 100_000, "overhead": 800_000}
    first = diagnose(evidence(device=False, saved_ns=saved))
    again = diagnose(evidence(device=False, saved_ns=saved, tried={"inductor", "aot_inductor"}))
    assert "conversion=inductor or aot_inductor or onnxruntime" in first.advice
    assert "conversion=onnxruntime;" in again.advice


def test_the_largest_single_gain_is_named() -> None:
    found = diagnose(evidence(rows=[row("small", 10_000), row("gemm", 500_000)]))
    assert (found.largest, found.largest_gain_ratio) == ("gemm", 0.5)
    assert found.sentence.endswith("The largest single gain is gemm: 50 % if it took no time.")


def test_an_empty_window_is_balanced() -> None:
    empty = evidence(makespan_ns=0, saved_ns={}, classes={}, tiers={}, rows=[])
    found = diagnose(empty)
    assert found.limit == "balanced"
    assert found.largest == ""


def test_every_limit_has_a_meaning_and_an_advice() -> None:
    assert set(ADVICE) - {"inconclusive"} == set(MEANING)
