"""Make a trial's artifact and its reference outputs, or find them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, final

from benchorch.config.parity_setup import parity_setup
from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.artifact import Artifact, BuildKey, Format, digest_of
from benchorch.domain.result import BuildRecord
from benchorch.domain.session import Session
from benchorch.domain.tensors import Arrays
from benchorch.errors import BuildError, StoreError
from benchorch.frameworks.identity.calls import BASELINE, Consulted
from benchorch.frameworks.program_outputs import carry_outputs
from benchorch.interfaces.conversion import BuildRequest, FileStep, ModuleStep, StateStep
from benchorch.interfaces.store import Store
from benchorch.trial.build_keys import Keys, NotComputedYet
from benchorch.trial.generation import with_cache
from benchorch.trial.identity_stamps import Stamps
from benchorch.trial.live_module import loader, transformed
from benchorch.trial.reference import (
    Reference,
    compared_sets,
    read_reference,
    still_answers,
    write_reference,
)
from benchorch.trial.stages import BuildStageRequest, Built
from benchorch.trial.tf32 import apply_tf32

if TYPE_CHECKING:
    import torch


_MOST_STATES = 8
_CHANGES = "its calls change what they consult"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildJob:
    """Everything a trial needs before it can be measured, to be made or found.

    Args:
        setup: the trial's components.
        name: model and conversion, for people and for ``rebuild=never``.
        store: where artifacts are kept.
        session: tells the rebuild policy and remembers what this invocation built already.
        inputs: how many seeded input sets the reference covers.
        threads: threads per call, which some compilers fix in what they build.
        data: the user's own, which the reference covers too.
    """

    setup: TrialSetup
    name: str
    store: Store
    session: Session
    inputs: int
    threads: int
    data: str | None = None

    @classmethod
    def of(cls, request: BuildStageRequest, setup: TrialSetup, store: Store) -> BuildJob:
        """The job that a process is requested to do."""
        parity = parity_setup(request.spec)
        return cls(
            setup=setup,
            name=request.name,
            store=store,
            session=request.session,
            inputs=parity.inputs,
            threads=request.threads,
            data=parity.data,
        )

    def build(self, say: Callable[[str], None]) -> Built:
        """All of it, from the store where it is there.

        Args:
            say: called with a short phrase before each slow thing.
        """
        apply_tf32(self.setup)
        load = loader(self.setup, say)
        keys = self._keys(load)
        keys.find_out()
        return _BuildWork(
            job=self, keys=keys, builds=True, load=keys.checked(load), say=say
        ).built()

    def find(self, *, finds_out: bool = False) -> Built | None:
        """What `build` would answer, where the store has all of it; None where it cannot tell.

        It loads and makes nothing, so that it can be asked in any process.

        Args:
            finds_out: as in `Keys`.
        """
        if self.session.rebuild == "always":
            return None
        keys = self._keys(None, finds_out=finds_out)
        try:
            if finds_out:
                keys.find_out()
            return _BuildWork(job=self, keys=keys).built()
        except (NotComputedYet, StoreError):
            return None

    def _keys(self, load: Callable[[], torch.nn.Module] | None, *, finds_out: bool = False) -> Keys:
        folder = self.store.stamps()
        return Keys(
            self.setup,
            threads=self.threads,
            directory=self.session.directory,
            load=load,
            stamps=Stamps(folder=folder) if folder else None,
            finds_out=finds_out,
        )

    def input_sets(self) -> list[Arrays]:
        """Everything that the reference covers."""
        return compared_sets(self.setup, self.inputs, self.data)


def _not_here(*_: object) -> NoReturn:
    raise NotComputedYet


@dataclass(frozen=True, slots=True, kw_only=True)
class _BuildWork:
    """A job, done one artifact after the other.

    Attributes:
        builds: whether what is not found is built; else `NotComputedYet` is raised for it.
    """

    job: BuildJob
    keys: Keys
    builds: bool = False
    load: Callable[[], torch.nn.Module] = _not_here
    say: Callable[[str], None] = _not_here

    def built(self) -> Built:
        """Each artifact, in the order of the chain."""
        reference = self._reference()
        facts = reference.facts
        setup = with_cache(self.job.setup, facts.cache)
        made = _Made(setup=setup, load=self.load, checked=self.keys.checked)
        for index, (step_name, step) in enumerate(self.job.setup.steps, start=1):
            if isinstance(step, FileStep):
                key = self.keys.after(index, reference.consulted)
                write = self._writer(setup, index, made, key)
                name = f"{self.job.name} {step_name}"
                made.take(step_name, step, *self._obtain(key, step.produces, name, write))
        return Built(
            record=_record(made.artifacts, facts.state, self._digest(reference)),
            source=made.source.path if made.source else None,
            sources=made.sources,
            states=made.states,
            reference=reference.artifact.path,
            scratch=self.job.store.scratch((made.last or reference.artifact).key),
            counts=facts.counts,
            # Others are of another size, or the user's data: they are never timed.
            refused=tuple(n for n in map(int, facts.refused) if n < self.job.inputs),
            cache=facts.cache,
        )

    def _digest(self, reference: _StoredReference) -> str:
        """Digest of the model and of what it answers; empty where it is this invocation's alone."""
        if not self.keys.lasts(reference.consulted):
            return ""
        return digest_of([reference.artifact.key, dict(reference.consulted.get(BASELINE, {}))])

    def _obtain(
        self, key: BuildKey, kind: Format, name: str, write: Writer, *, is_wrong: bool = False
    ) -> tuple[Artifact, str]:
        """An artifact, found or built by the rebuild policy, and its cache state."""
        store, session = self.job.store, self.job.session
        if not self.builds:
            return self._found(key, kind), "hit"
        if session.rebuild == "never" and kind is not Format.REFERENCE:
            return self._existing(key, kind, name)
        # ``always`` means once in an invocation: a prefix that trials share is not built again.
        mark = session.directory / "rebuilt" / key.digest
        force = is_wrong or (session.rebuild == "always" and not mark.exists())
        artifact, built = store.build(key, format=kind, name=name, make=write, force=force)
        if force:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        return artifact, "miss" if built else "hit"

    def _found(self, key: BuildKey, kind: Format) -> Artifact:
        found = self.job.store.find(key.digest, kind)
        if found is None:
            raise NotComputedYet
        return found

    def _existing(self, key: BuildKey, kind: Format, name: str) -> tuple[Artifact, str]:
        found = self.job.store.find(key.digest, kind)
        if found:
            return found, "hit"
        newest = self.job.store.newest(name)
        if newest is None or newest.artifact.format != kind:
            raise BuildError(
                f"rebuild=never, and nothing called {name!r} was ever built here.",
                kind="not_built",
                remedy="rebuild=if_needed",
            )
        return newest.artifact, "stale"

    def _reference(self) -> _StoredReference:
        """The reference whose calls would consult the same now.

        One whose calls would not leads to another, by the state of all that they consult.
        """
        state: Consulted = {}
        for number in count():
            one = self._stored_reference(state)
            now = self.keys.consulted(one.consulted)
            if now == one.consulted:
                is_right = one.is_new or self._is_answered(one)
                return one if is_right else self._stored_reference(state, replaces=True)
            if one.is_new:
                return replace(one, consulted=self.keys.consulted(now, never=_CHANGES))
            state = self._next_state(state, now, is_last=number > _MOST_STATES)
        raise AssertionError("what never was is always built")

    def _stored_reference(self, state: Consulted, *, replaces: bool = False) -> _StoredReference:
        """The reference of a state; made again where eager no longer answers by the stored one."""
        key = self.keys.reference(self.job.inputs, self.job.data, state)
        name = f"{self.job.name} reference"
        write = partial(self._write, replaces=replaces)
        artifact, cache = self._obtain(key, Format.REFERENCE, name, write, is_wrong=replaces)
        facts = read_reference(artifact.path)
        return _StoredReference(
            artifact=artifact, facts=facts, consulted=facts.consulted, is_new=cache == "miss"
        )

    def _next_state(self, state: Consulted, now: Consulted, *, is_last: bool) -> Consulted:
        """State of all that both consult; where that leads no further, one that never was."""
        more = self.keys.consulted(_both(state, now))
        if is_last or more == state:
            return self.keys.consulted(more, never=_CHANGES)
        return more

    def _is_answered(self, one: _StoredReference) -> bool:
        """Whether eager still answers as a reference has it.

        It is asked where the model is loaded because something changed, and where an equal model
        has once answered otherwise.
        """
        if not self.keys.has_loaded and BASELINE not in one.consulted:
            return True
        return still_answers(
            self.job.setup,
            self.load,
            one.artifact.path,
            sets=self.job.input_sets(),
            threads=self.job.threads,
        )

    def _write(self, out: Path, *, replaces: bool = False) -> None:
        write_reference(
            self.job.setup,
            self.load,
            out,
            sets=self.job.input_sets(),
            inputs=self.job.inputs,
            threads=self.job.threads,
            walked=self.keys.walked(),
            state=lambda calls: calls.state(self.keys.invocation, self.keys.start),
            replaces=replaces,
        )

    def _writer(self, setup: TrialSetup, index: int, made: _Made, key: BuildKey) -> Writer:
        """Builds the step of that number, counted from 1, from what was made before it."""
        name, step = setup.steps[index - 1]
        assert isinstance(step, FileStep)  # nobody else writes

        def write(out: Path) -> None:
            self.say(f"building {name}")
            request = BuildRequest(
                module=made.module_before(index - 1),
                source=made.source.path if made.source else None,
                sources=made.sources,
                example=setup.example(setup.workload.seed),
                calibration=setup.calibration,
                out_dir=out,
                scratch_dir=self.job.store.scratch(key.digest),
                device=type(setup.hardware).device,
                threads=self.job.threads,
                tf32=setup.protocol.tf32,
            )
            step.build(request)
            carry_outputs(request.source, out)

        return write


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredReference:
    """A reference that was found or made.

    Attributes:
        artifact: with its files.
        facts: about the baseline besides its outputs.
        consulted: state of what its calls consult, for what is built for it.
        is_new: whether it was made just now.
    """

    artifact: Artifact
    facts: Reference
    consulted: Consulted
    is_new: bool


@dataclass(slots=True, kw_only=True)
class _Made:
    """Artifacts of a chain's steps so far.

    Attributes:
        load: loads the model at most once.
        checked: checks what another load gives.
        artifacts: by the step's name, each with its cache state.
        source: the last one that is not the state of a live module.
        last: the last one of all.
    """

    setup: TrialSetup
    load: Callable[[], torch.nn.Module]
    checked: Callable[[Callable[[], torch.nn.Module]], Callable[[], torch.nn.Module]]
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
        """Factory of the module before that step; a separate copy if the step changes it."""
        links = self.setup.steps[: n_steps + 1]
        changed = any(isinstance(step, ModuleStep | StateStep) for _, step in links)
        load = self.checked(loader(self.setup, lambda _: None)) if changed else self.load
        return transformed(self.setup, self.setup.steps[:n_steps], load, dict(self.states))


def _record(
    made: Mapping[str, tuple[Artifact, str]], model_digest: str, reference: str
) -> BuildRecord:
    source = [artifact for artifact, _ in made.values()][-1] if made else None
    return BuildRecord(
        key=source.key if source else "",
        cache=_overall([state for _, state in made.values()]),
        build_s=sum((a.build_s for a, state in made.values() if state == "miss"), 0.0),
        original_build_s=sum((artifact.build_s for artifact, _ in made.values()), 0.0),
        artifact_bytes=source.size_bytes if source else 0,
        model_digest=model_digest,
        steps={name: state for name, (_, state) in made.items()},
        reference=reference,
    )


def _overall(states: Sequence[str]) -> str:
    """State of a chain: the least favourable of its steps' states."""
    return next((state for state in ("stale", "miss", "hit") if state in states), "none")


def _both(one: Consulted, other: Consulted) -> Consulted:
    """States of both."""
    return {group: {**one.get(group, {}), **other.get(group, {})} for group in {*one, *other}}


Writer = Callable[[Path], None]
"""Fills an empty directory."""
