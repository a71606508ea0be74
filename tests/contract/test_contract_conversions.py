"""What every YAML under conf/conversion promises: it binds, it joins, it computes the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from benchorch.domain.artifact import Format
from benchorch.frameworks.program_outputs import recorded_outputs
from benchorch.interfaces.conversion import FileStep, ModuleStep, StateStep
from support import conversions as lab

COMPILED = (Format.AOTI_PACKAGE, Format.INDUCTOR_CACHE)
COMPILED_BY_DEFAULT = ("inductor",)
"""A compilation takes 10 to 20 CPU seconds; the others run with ``-m slow``.

AOTInductor's default one is compiled below, for a fresh process.
"""

OF_THE_BASE = {"torch", "numpy", "onnx", "onnxscript", "onnxruntime"}
"""What takes more than these to convert is tried with ``-m slow``: their imports alone do."""

OPTIONAL_BY_DEFAULT = ("quanto_int8",)
"""One of those, whose package is among the developer's tools."""

MODELS = {
    "channels_last": "Convolution",
    # It scales a channel by its largest activation, which normal values exceed after calibration:
    # on `Wide` it errs by 6e-2 to 8e-2 whatever NNCF's alpha is, on bounded values by 1e-2.
    "openvino_int8_smoothquant": "Bounded",
    # A scale per 32 weights of a row.
    "torchao_int4_weight_only": "Wide",
    "torchao_int8_dynamic_int4": "Wide",
    "torchao_int4_awq": "Wide",
    "torchao_int4_gptq": "Wide",
    "torchao_int4_hqq": "Wide",
    # Four values are too few for the weights of a linear layer that are drawn at random.
    "quanto_int2": "Convolution",
    "quanto_int2_activations": "Convolution",
}
"""What a conversion is tried on where it is made for something else than an MLP."""

HALVES = {"bfloat16", "float16"}


def is_compiled(name: str) -> bool:
    return any(type(step).produces in COMPILED for _, step in lab.chain_of(name).steps)


@cache
def is_slow(name: str) -> bool:
    needs_more = not set(lab.chain_of(name).requires) <= OF_THE_BASE
    runs = (*COMPILED_BY_DEFAULT, *OPTIONAL_BY_DEFAULT)
    return name not in runs and (is_compiled(name) or needs_more)


def cases(*names: str) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.slow] * is_slow(name)) for name in names]


def runnable(name: str, model: str = "", **settings: Any) -> lab.TrialSetup:
    """The chain; skips where it cannot run on this machine's CPU, and says why."""
    chain = lab.chain_of(name, model or MODELS.get(name, "Mlp"), **settings)
    reason = lab.cannot_run(chain)
    if reason:
        pytest.skip(f"{name}: {reason}")
    return chain


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], lab.Built]:
    """What a conversion leaves, built once for all tests of this file.

    All are kept in one store: those that go on from a model's ONNX file or program share it.
    """
    place = tmp_path_factory.mktemp("built")

    @cache
    def build(name: str) -> lab.Built:
        return lab.built(runnable(name), place)

    return build


@pytest.fixture(scope="module")
def fresh() -> Iterator[lab.FreshProcess]:
    """One process for every artifact that is loaded elsewhere."""
    process = lab.FreshProcess()
    yield process
    process.close()


@pytest.mark.parametrize("name", lab.NAMES)
def test_it_says_what_it_is_and_how_wrong_it_may_be(name: str) -> None:
    node = lab.conversion(name)
    assert set(node) == {"description", "tolerance_ratio", "steps", "runtime"}
    assert node["description"].endswith(".")
    assert lab.own_text(name)["description"] == node["description"]
    assert 0 < lab.chain_of(name).tolerance_ratio < 1


@pytest.mark.parametrize("name", lab.NAMES)
def test_its_links_declare_what_enters_a_build_key(name: str) -> None:
    chain = lab.chain_of(name)
    for link in (*(step for _, step in chain.steps), chain.runtime):
        assert isinstance(type(link).consumes, tuple)
        assert all(isinstance(each, Format) for each in type(link).consumes)
        assert type(link).version >= 1
        assert isinstance(type(link).requires, tuple)
    for _, step in chain.steps:
        assert isinstance(step, ModuleStep | FileStep)
        assert isinstance(type(step).depends_on, tuple)


@pytest.mark.parametrize("name", lab.NAMES)
def test_what_cannot_run_on_a_cpu_says_so_in_a_sentence(name: str) -> None:
    reason = lab.chain_of(name).unavailable
    assert reason is None or len(reason.split()) > 3


@pytest.mark.parametrize("name", cases(*lab.NAMES))
def test_it_computes_what_eager_computes(name: str, builds: Callable[[str], lab.Built]) -> None:
    chain = runnable(name)
    made = builds(name)
    executable = lab.loaded(chain, made)
    for index in range(lab.INPUTS):
        outputs = lab.outputs_of(chain, executable, index)
        lab.assert_same(outputs, lab.reference_of(made, index), chain.tolerance_ratio)
    facts = dict(executable.facts())
    executable.close()

    assert facts["threads"] == lab.THREADS
    assert facts["device"] == "cpu"
    assert facts["dtype"]
    assert facts["provider"]
    json.dumps(facts)
    cast = lab.conversion(name)["steps"].get("cast", {}).get("dtype")
    if cast in HALVES:
        assert facts["dtype"] == cast


PLAIN = ["eager", "bf16", "fp16", "export", "onnxruntime", "torchscript"]


@pytest.mark.parametrize("name", cases(*PLAIN, "aot_inductor"))
def test_two_inputs_a_constant_and_a_nested_result_survive(name: str, tmp_path: Path) -> None:
    chain = runnable(name, "Masked")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)

    shuffled = dict(reversed(list(lab.inputs_of(chain).items())))
    outputs = executable.outputs(executable.bind(shuffled)())

    # Half precision may choose another class where two are close; values are compared.
    lab.assert_same(outputs, lab.reference_of(made), chain.tolerance_ratio)
    executable.close()


NESTED = {
    "tensors": ("logits", "past.0.0", "past.0.1", "past.1.0", "last.0"),
    "constants": {"past.1.1": None, "kind": "linear", "count": 3},
}
FLAT = [
    *("export", "onnxruntime", "torchscript", "openvino", "openvino_trace", "openvino_onnx"),
    *("openvino_int8_weights", "executorch", "tvm"),
]


@pytest.mark.parametrize("name", cases(*FLAT, "onnxruntime+openvino"))
def test_files_keep_the_names_and_the_structure_of_outputs(name: str, tmp_path: Path) -> None:
    chain = runnable(name, "Nested")
    made = lab.built(chain, tmp_path)
    executable = lab.loaded(chain, made)
    outputs = lab.outputs_of(chain, executable)
    executable.close()

    lab.assert_same(outputs, lab.reference_of(made), chain.tolerance_ratio)
    found = recorded_outputs(made.sources)
    assert found is not None
    assert tuple(found.tensors) == NESTED["tensors"]
    assert dict(found.constants) == NESTED["constants"]


@pytest.mark.parametrize("name", cases("export", "onnxruntime", "aot_inductor"))
def test_an_open_batch_of_one_is_not_taken_for_a_constant(name: str, tmp_path: Path) -> None:
    chain = runnable(name, "Masked", batch_size=1, dynamic=("batch_size",))
    executable = lab.converted(chain, tmp_path / "open")

    for batch_size in (1, 3):
        other = lab.chain_of("eager", "Masked", batch_size=batch_size)
        expected = lab.reference_of(lab.built(other, tmp_path / str(batch_size)))
        lab.assert_same(lab.outputs_of(other, executable), expected, chain.tolerance_ratio)
    executable.close()


ABSENT = {
    "onnxruntime": {"torch", "onnx"},
    "aot_inductor": {"torch._dynamo", "torch._inductor.compile_fx"},
    "torchscript": {"torch._inductor.compile_fx"},
    "export": {"torch._inductor.compile_fx"},
}
"""What a process that loads an artifact does not import, those that need least first."""

LEAVE_FILES = [name for name in lab.NAMES if lab.chain_of(name).leaves_files]


@pytest.mark.parametrize("name", cases(*(name for name in LEAVE_FILES if name not in ABSENT)))
def test_another_process_computes_the_same_from_the_artifact(
    name: str, tmp_path: Path, builds: Callable[[str], lab.Built], fresh: lab.FreshProcess
) -> None:
    chain = runnable(name)
    made = builds(name)

    outputs, facts, _ = fresh.load(name, chain.model.name, made, tmp_path)

    lab.assert_same(outputs, lab.reference_of(made), chain.tolerance_ratio)
    assert facts["provider"]
    keeps_module = any(isinstance(step, StateStep) for _, step in chain.steps)
    assert made.source or (keeps_module and made.states)


# TorchScript's file is loaded by no more than torch, which the others need as well.
@pytest.mark.parametrize(
    "names",
    [
        [name for name in ABSENT if name != "torchscript"],
        pytest.param(["torchscript"], marks=pytest.mark.slow),
    ],
    ids=["files", "torchscript"],
)
def test_a_fresh_process_needs_the_artifact_and_no_compiler(
    names: list[str], tmp_path: Path
) -> None:
    """One process loads them, one after another: what it has imported by then is no less."""
    fresh = lab.FreshProcess()
    try:
        for name in names:
            chain = runnable(name, "Masked")
            made = lab.built(chain, tmp_path)
            outputs, _, modules = fresh.load(name, "Masked", made, tmp_path)
            lab.assert_same(outputs, lab.reference_of(made), chain.tolerance_ratio)
            assert modules.isdisjoint(ABSENT[name]), name
    finally:
        fresh.close()
