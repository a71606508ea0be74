"""Make a trial's artifact and its reference outputs, or find them again."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchorch.chain import Chain
from benchorch.components import make
from benchorch.domain.artifact import Artifact, BuildKey, Format, digest_of
from benchorch.domain.codec import Json, decode, encode
from benchorch.domain.result import BuildRecord, ModelCounts
from benchorch.domain.session import Session
from benchorch.domain.trial import Node
from benchorch.environment import available_memory_bytes
from benchorch.errors import BuildError
from benchorch.fingerprint import content_identity, state_digest
from benchorch.interfaces.conversion import BuildRequest, FileStep, ModuleStep, StateStep, Step
from benchorch.interfaces.runtime import LoadRequest, Runtime
from benchorch.interfaces.store import Store
from benchorch.journal import write_json
from benchorch.model_counts import count_model

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray

# 2: with the model's counts. 3: with float64 beside it.
REFERENCE_VERSION = 3
# What every conversion is compared with: the module itself, on the CPU.
_REFERENCE_RUNTIME: Node = {"_target_": "benchorch.runtimes.eager.Eager"}
_MODEL_FILE = "model.json"
# Outputs in float64 are kept up to this size for each input, and made where this many times the
# model's size is free.
_REFEREE_BYTES = 64 * 2**20
_REFEREE_ROOM = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """Where the measuring processes find what they need.

    Attributes:
        source: directory of the chain's last artifact, or None where it leaves no files.
        sources: the directory of each format's last artifact.
        states: the directory of each state step's artifact, by the step's name.
        reference: directory of the reference outputs, ``0.npz``, ``1.npz``, ...
        scratch: the compiler's own cache for this artifact.
        counts: of the model as it was loaded, before any step changed it.
    """

    record: BuildRecord
    source: Path | None
    sources: Mapping[Format, Path]
    states: Mapping[str, Path]
    reference: Path
    scratch: Path
    counts: ModelCounts


def build(
    chain: Chain,
    *,
    name: str,
    store: Store,
    session: Session,
    inputs: int,
    threads: int,
    say: Callable[[str], None],
) -> Built:
    """Everything a trial needs before it can be measured, from the store where it is there.

    Args:
        chain: the trial's components.
        name: model and conversion, for people and for ``rebuild=never``.
        store: where artifacts are kept.
        session: tells the rebuild policy and remembers what this invocation built already.
        inputs: how many seeded input sets the reference covers.
        threads: threads per call, which some compilers fix in what they build.
        say: called with a short phrase before each slow thing.
    """
    load = _loader(chain, say)
    identity = _identity(chain, session, load)
    obtain = _Obtain(store=store, session=session)
    reference, _ = obtain(
        _reference_key(chain, identity, inputs),
        Format.REFERENCE,
        f"{name} reference",
        lambda out: _write_reference(chain, load, out, inputs, threads),
    )
    made = _Made(chain=chain, load=load)
    calibrated = cache(lambda number: _values_digest(chain.calibration(number)))
    facts = {**chain.hardware.facts(), "threads": threads}
    for index, (step_name, step) in enumerate(chain.steps, start=1):
        if not isinstance(step, FileStep):
            continue
        key = _with_calibration(chain.key(identity, index, facts), chain, index, calibrated)
        request = BuildRequest(
            module=made.module_before(index - 1),
            source=made.source.path if made.source else None,
            sources=made.sources,
            example=chain.example(chain.workload.seed),
            calibration=chain.calibration,
            out_dir=Path(),
            scratch_dir=store.scratch(key.digest),
            device=type(chain.hardware).device,
            threads=threads,
        )
        write = _writer(step_name, step, request, say)
        made.take(step_name, step, *obtain(key, step.produces, f"{name} {step_name}", write))
    told = json.loads((reference.path / _MODEL_FILE).read_text())
    return Built(
        record=_record(made.artifacts, str(told["state"])),
        source=made.source.path if made.source else None,
        sources=made.sources,
        states=made.states,
        reference=reference.path,
        scratch=store.scratch(made.last.key if made.last else reference.key),
        counts=decode(ModelCounts, told["counts"]),
    )


@dataclass(slots=True, kw_only=True)
class _Made:
    """What a chain's steps have left so far.

    Attributes:
        load: loads the model at most once.
        artifacts: by the step's name, each with its cache state.
        source: the last one that is not the state of a live module.
        last: the last one of all.
    """

    chain: Chain
    load: Callable[[], torch.nn.Module]
    artifacts: dict[str, tuple[Artifact, str]] = field(default_factory=dict)
    sources: dict[Format, Path] = field(default_factory=dict)
    states: dict[str, Path] = field(default_factory=dict)
    source: Artifact | None = None
    last: Artifact | None = None

    def take(self, name: str, step: FileStep, artifact: Artifact, state: str) -> None:
        self.artifacts[name] = (artifact, state)
        self.last = artifact
        if isinstance(step, StateStep):
            self.states[name] = artifact.path
        else:
            self.source = artifact
            self.sources = {**self.sources, type(step).produces: artifact.path}

    def module_before(self, n_steps: int) -> Callable[[], torch.nn.Module]:
        """Makes the module as that step is to find it; nobody else's where it will be changed."""
        links = self.chain.steps[: n_steps + 1]
        changed = any(isinstance(step, ModuleStep | StateStep) for _, step in links)
        load = _loader(self.chain, lambda _: None) if changed else self.load
        return _transformed(self.chain, self.chain.steps[:n_steps], load, dict(self.states))


def _writer(
    name: str, step: FileStep, request: BuildRequest, say: Callable[[str], None]
) -> Callable[[Path], None]:
    def write(out: Path) -> None:
        say(f"building {name}")
        step.build(replace(request, out_dir=out))

    return write


def _record(made: Mapping[str, tuple[Artifact, str]], model_digest: str) -> BuildRecord:
    source = [artifact for artifact, _ in made.values()][-1] if made else None
    return BuildRecord(
        key=source.key if source else "",
        cache=_overall([state for _, state in made.values()]),
        build_s=sum(artifact.build_s for artifact, state in made.values() if state == "miss"),
        original_build_s=sum(artifact.build_s for artifact, _ in made.values()),
        artifact_bytes=source.size_bytes if source else 0,
        model_digest=model_digest,
        steps={name: state for name, (_, state) in made.items()},
    )


def _overall(states: Sequence[str]) -> str:
    """One word for a chain: the least favourable of its steps' states."""
    return next((state for state in ("stale", "miss", "hit") if state in states), "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Obtain:
    """Finds or makes an artifact as the rebuild policy says."""

    store: Store
    session: Session

    def __call__(
        self, key: BuildKey, kind: Format, name: str, write: Callable[[Path], None]
    ) -> tuple[Artifact, str]:
        if self.session.rebuild == "never" and kind is not Format.REFERENCE:
            return self._existing(key, name)
        # ``always`` means once in an invocation: a prefix that trials share is not built again.
        mark = self.session.directory / "rebuilt" / key.digest
        force = self.session.rebuild == "always" and not mark.exists()
        artifact, built = self.store.build(key, format=kind, name=name, make=write, force=force)
        if force:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        return artifact, "miss" if built else "hit"

    def _existing(self, key: BuildKey, name: str) -> tuple[Artifact, str]:
        found = self.store.find(key.digest)
        if found:
            return found, "hit"
        newest = self.store.newest(name)
        if newest is None:
            raise BuildError(
                f"rebuild=never, and nothing called {name!r} was ever built here.",
                kind="not_built",
                remedy="rebuild=if_needed",
            )
        return newest.artifact, "stale"


def _loader(chain: Chain, say: Callable[[str], None]) -> Callable[[], torch.nn.Module]:
    """Loads the model at most once in this process."""

    @cache
    def load() -> torch.nn.Module:
        import torch

        say("loading the model")
        module = chain.model.load(chain.workload.seed)
        return module.to(getattr(torch, chain.workload.dtype))

    return load


def _transformed(
    chain: Chain,
    steps: Sequence[tuple[str, Step]],
    load: Callable[[], torch.nn.Module],
    states: Mapping[str, Path],
) -> Callable[[], torch.nn.Module]:
    @cache
    def module() -> torch.nn.Module:
        example = chain.example(chain.workload.seed)
        changed = load()
        for name, step in steps:
            if isinstance(step, ModuleStep):
                changed = step.transform(changed, example)
            elif isinstance(step, StateStep):
                changed = step.restore(changed, states[name], example)
        return changed

    return module


def module_of(chain: Chain, states: Mapping[str, Path]) -> Callable[[], torch.nn.Module]:
    """Makes the live module with all its steps applied, for a runtime that needs it."""
    return _transformed(chain, chain.steps, _loader(chain, lambda _: None), states)


def _identity(chain: Chain, session: Session, load: Callable[[], torch.nn.Module]) -> Node:
    """What the model is; found by loading it where it cannot be told, once an invocation."""
    declared = chain.model.identity()
    if declared is not None:
        return declared
    asked = {"model": repr(chain.model), "workload": repr(chain.workload)}
    note = session.directory / "identities" / f"{digest_of(asked)}.json"
    if note.exists():
        return cast(Node, json.loads(note.read_text()))
    # Together with what it was asked for: not everything a module computes shows in its state.
    identity = {**content_identity(load()), "asked": asked}
    note.parent.mkdir(parents=True, exist_ok=True)
    write_json(note, identity)
    return identity


def _reference_key(chain: Chain, identity: Node, inputs: int) -> BuildKey:
    plain = replace(chain, steps=(), nodes={"steps": {}})
    fields: dict[str, Json] = {
        **plain.key(identity, 0, {}).fields,
        "reference": {"version": REFERENCE_VERSION, "inputs": inputs},
        "input_values": [
            _values_digest(chain.example(chain.workload.seed + index).arrays)
            for index in range(inputs)
        ],
    }
    return BuildKey(fields=fields)


def _with_calibration(
    key: BuildKey, chain: Chain, n_steps: int, digest: Callable[[int], str]
) -> BuildKey:
    """The key with the digests of what was calibrated on, whose values determine scales."""
    count = max((step.calibrated_on for _, step in chain.steps[:n_steps]), default=0)
    if not count:
        return key
    seen = [digest(number) for number in range(count)]
    return BuildKey(fields={**key.fields, "calibration": seen})


def _values_digest(arrays: Mapping[str, NDArray[generic]]) -> str:
    """SHA-256 (hex) over every input's bytes: other values have other outputs."""
    import numpy as np

    total = hashlib.sha256()
    for name, array in arrays.items():
        total.update(f"{name}|{array.dtype}|{array.shape}|".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def _write_reference(
    chain: Chain, load: Callable[[], torch.nn.Module], out: Path, inputs: int, threads: int
) -> None:
    import numpy as np

    example = chain.example(chain.workload.seed)
    module = load()
    size = 0
    for index, outputs in enumerate(_eager_outputs(chain, load, out, inputs, threads)):
        np.savez(out / f"{index}.npz", **dict(outputs))  # type: ignore[arg-type]
        size = max(size, sum(array.size * 8 for array in outputs.values()))
    if size <= _REFEREE_BYTES:
        _write_referee(chain, module, out, inputs, threads)
    told = {"state": state_digest(load()), "counts": encode(count_model(load(), example))}
    write_json(out / _MODEL_FILE, told)


def _eager_outputs(
    chain: Chain, load: Callable[[], torch.nn.Module], out: Path, inputs: int, threads: int
) -> Iterator[Mapping[str, NDArray[generic]]]:
    runtime = make(_REFERENCE_RUNTIME, Runtime, "reference")
    request = LoadRequest(
        module=load,
        source=None,
        sources={},
        example=chain.example(chain.workload.seed),
        device="cpu",
        threads=threads,
        scratch_dir=out,
    )
    executable = runtime.load(request)
    for index in range(inputs):
        batch = chain.example(chain.workload.seed + index).arrays
        yield executable.outputs(executable.bind(batch)())
    executable.close()


def referee_file(reference: Path, index: int) -> Path:
    """Where eager's float64 outputs of an input are, if there are any."""
    return reference / f"{index}.float64.npz"


def _write_referee(
    chain: Chain, module: torch.nn.Module, out: Path, inputs: int, threads: int
) -> None:
    """What a copy of the model computes in float64, where it can and there is room for it."""
    import numpy as np

    state = sum(t.nbytes for t in (*module.parameters(), *module.buffers()))
    if available_memory_bytes() < _REFEREE_ROOM * state:
        return
    try:
        wide = copy.deepcopy(module).double()
        found = list(_eager_outputs(chain, lambda: wide, out, inputs, threads))
    except Exception:  # a model may hold to its dtype in as many ways as there are models
        return
    for index, outputs in enumerate(found):
        if all(array.dtype != np.float32 for array in outputs.values()):
            np.savez(referee_file(out, index), **dict(outputs))  # type: ignore[arg-type]
