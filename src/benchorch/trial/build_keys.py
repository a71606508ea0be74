"""Build keys of a trial, and notes of what other processes found out about them.

Identifying a model may take loading it, and digesting inputs takes making them. Each process that
does so notes the result in the invocation's directory. A process that may load nothing, such as
the supervisor of trials, can then compute most keys from the notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final
from uuid import uuid4

from benchorch.config.trial_setup import TrialSetup
from benchorch.domain.artifact import BuildKey, Format, digest_of
from benchorch.domain.codec import Json
from benchorch.domain.tensors import Arrays, digest_of_arrays
from benchorch.domain.trial import ConfigNode
from benchorch.errors import BuildError
from benchorch.files import read_json, write_json
from benchorch.frameworks.identity.calls import BASELINE, NEVER, Consulted, current
from benchorch.frameworks.identity.code import named_files, words
from benchorch.frameworks.identity.compilers import (
    COMPILED_FACTS,
    compiled_facts,
    reference_options,
)
from benchorch.frameworks.identity.consulted import UNSEEN_READERS, recorded
from benchorch.frameworks.identity.evidence import evidence, holds, today
from benchorch.frameworks.identity.links import link_code
from benchorch.frameworks.identity.start import Start
from benchorch.frameworks.identity.variables import native_variables
from benchorch.frameworks.module_fingerprint import UNHASHABLE, content_of
from benchorch.host.environment import package_versions
from benchorch.interfaces.conversion import Step
from benchorch.interfaces.model import Model
from benchorch.models.start_folder import from_start
from benchorch.trial.identity_stamps import Stamps
from benchorch.trial.reference import given_sets

if TYPE_CHECKING:
    import torch
    from numpy import generic
    from numpy.typing import NDArray

NOTES = "notes"
"""Directory of an invocation's notes, which are discarded with the invocation."""

# 2: with the model's counts. 3: with float64 beside it. 4: with how it differs from itself.
# 7: with whole numbers that other weights give. 8: rounding that is spread is rounding.
# 9: with what its calls consult. 10: with inputs that calls write. 11: with links and permissions.
# 12: with what objects hold. 13: work of each size that is timed, and of what sparse tensors store.
# 14: with tensors that a dataclass computes.
_REFERENCE_VERSION = 14

# In what identifies a model without a look at its weights: loads before lost imaginary parts.
_KEEPS_COMPLEX: ConfigNode = {"complex": "kept"}

INVOCATION = "invocation"
"""Field of an identity that no other invocation has; the note of its text."""

_CODE_FILE = re.compile(r"(.+\.py)(?::[\w.]+)?")


class NotComputedYet(Exception):
    """A fact that would have to be computed first."""


@final
class Keys:
    """The build keys of one trial.

    Args:
        setup: the trial's components.
        threads: threads per call, which some compilers fix in what they build.
        directory: the invocation's own.
        load: loads the model; None where it must not be: what takes it raises `NotComputedYet`.
        stamps: identities that earlier invocations found by loading; None for no memory of them.
        finds_out: whether inputs are made and the machine is looked at without `load`, too; else
            `NotComputedYet` is raised for what nobody has noted.
    """

    def __init__(
        self,
        setup: TrialSetup,
        *,
        threads: int,
        directory: Path,
        load: Callable[[], torch.nn.Module] | None,
        stamps: Stamps | None = None,
        finds_out: bool = False,
    ) -> None:
        self._setup = setup
        self._threads = threads
        self._notes = directory / NOTES
        self._load = load
        self._stamps = stamps
        self._finds_out = finds_out or load is not None
        self.start = Start(code=_code_folder(setup.model))
        self.has_loaded = False
        self._evidence: Mapping[str, Any] | None = None
        self._request: ConfigNode = {"model": repr(setup.model), "workload": repr(setup.workload)}

    def find_out(self) -> None:
        """Compute and note the facts that all trials of this model and machine need."""
        _ = self._identity, self._facts

    def reference(
        self, inputs: int, data: str | None = None, consulted: Consulted | None = None
    ) -> BuildKey:
        """Key of the reference outputs, for seeded inputs and for data.

        Args:
            inputs: how many seeded sets.
            data: the user's own.
            consulted: by the calls of an earlier reference, where that is another now.
        """
        plain = replace(self._setup, steps=(), nodes={"steps": {}})
        fields: dict[str, Json] = {
            **plain.key(self._identity, 0, {}).fields,
            "reference": {"version": _REFERENCE_VERSION, "inputs": inputs},
            "input_values": self._digests("inputs", inputs, self._seeded),
        }
        options = reference_options()
        if options:
            fields["kernel_options"] = options
        if self._setup.workload.dynamic:
            fields["sizes"] = {s: list(each) for s, each in self._setup.workload.sizes.items()}
        if consulted:
            fields["consulted"] = _json(consulted)
        others = self._setup.inputs_of_other_sizes() if self._finds_out else []
        if self._setup.generates:
            fields["sequence_tokens"] = self._setup.sequence_tokens
        count = len(self._setup.workload.of_other_sizes())
        if count:
            fields["other_sizes"] = self._digests("other_sizes", count, others.__getitem__)
        if data:
            fields["data"] = self._known(
                "data",
                {**self._request, "data": data},
                lambda: digest_of_arrays(*given_sets(self._setup, data)),
            )
        return BuildKey(fields=fields)

    def after(self, n_steps: int, consulted: Consulted | None = None) -> BuildKey:
        """Key of the artifact after that many steps, digests of the inputs that decide it included.

        Args:
            n_steps: of the chain.
            consulted: state of what the model's calls consult.
        """
        steps = [step for _, step in self._setup.steps[:n_steps]]
        key = self._setup.key(self._identity, n_steps, self._facts)
        count = max((step.calibrated_on for step in steps), default=0)
        more: dict[str, Json] = {"consulted": _json(consulted)} if consulted else {}
        codes = [link_code(type(step)) for step in steps]
        if any(codes):  # of steps that are not benchorch's: nobody has to count up their version
            more["code"] = list(codes)
        if count:  # their values determine scales
            more["calibration"] = self._digests("calibration", count, self._setup.calibration)
        if _follow_example(steps):
            more["example"] = self._digests("inputs", 1, self._seeded)
        return BuildKey(fields={**key.fields, **more})

    def _seeded(self, number: int) -> Arrays:
        return self._setup.example(self._setup.workload.seed + number).arrays

    def walked(self) -> ConfigNode | None:
        """Identity of a model that was walked over, as its calls may consult more; else None."""
        return None if self._setup.model.identity() is not None else self._identity

    def consulted(self, before: Consulted, *, never: str = "") -> Consulted:
        """State now of what calls consulted, beside what cannot be compared for a reason."""
        names = {group: {*states} for group, states in before.items()}
        if never:
            names.setdefault(NEVER, set()).add(never)
        now = current(names, self.invocation if NEVER in names else "", self.start)
        return {**now, BASELINE: before[BASELINE]} if BASELINE in before else now

    def lasts(self, consulted: Consulted) -> bool:
        """Whether another invocation can compute the same keys."""
        return NEVER not in consulted and INVOCATION not in self._identity

    @cached_property
    def invocation(self) -> str:
        """A text that no other invocation has."""
        with suppress(NotComputedYet):
            return str(self._noted(INVOCATION, {}))
        made = uuid4().hex
        self._take_note(INVOCATION, {}, made)
        return made

    @cached_property
    def _identity(self) -> ConfigNode:
        return self._find_identity() if self._finds_out else self._noted_identity()

    @cached_property
    def _facts(self) -> ConfigNode:
        request = {"hardware": repr(self._setup.hardware)}
        found = self._known("hardware", request, lambda: dict(self._setup.hardware.facts()))
        return {**cast(ConfigNode, found), **self._compiled_facts, "threads": self._threads}

    @cached_property
    def _compiled_facts(self) -> ConfigNode:
        """Dependencies of compiled code besides hardware, for chains that contain any."""
        steps = (step for _, step in self._setup.steps)
        if not any(set(COMPILED_FACTS) & set(type(step).depends_on) for step in steps):
            return {}
        device = type(self._setup.hardware).device
        found = self._known("compilers", {"device": device}, lambda: compiled_facts(device))
        return cast(ConfigNode, found)

    def checked(self, load: Callable[[], torch.nn.Module]) -> Callable[[], torch.nn.Module]:
        """Loads as `load` does; BuildError where that is not the model that was identified.

        Files may change between the load that identified it and a later one.
        """
        if self.has_loaded and load is self._load:
            return load

        @cache
        def loaded() -> torch.nn.Module:
            module = load()
            if not self._holds(self._evidence) and self._is_other(module):
                raise BuildError(
                    "The model has changed since this run identified it: what it loads is not "
                    "what the build would be kept as.",
                    kind="changed",
                    remedy="benchorch rerun, with files that stay as they are meanwhile",
                )
            return module

        return loaded

    def _holds(self, seen: Mapping[str, Any] | None) -> bool:
        """Whether all that a load consulted is as it was, by the variables before any load."""
        return seen is None or holds(seen, self.start.environment)

    def _is_other(self, module: torch.nn.Module) -> bool:
        model = self._setup.model
        content = content_of(module, model.makers(), self.start)
        found = {**content.fields, "asked": dict(model.requested())}
        known = {name: value for name, value in self._identity.items() if name != INVOCATION}
        return digest_of(found) != digest_of(known)

    def _find_identity(self) -> ConfigNode:
        """Identity of the model, noted; computed by loading it where what it read has changed."""
        declared = self._setup.model.identity()
        if declared is not None:
            return self._noting({**declared, **_KEEPS_COMPLEX}, None)
        with suppress(NotComputedYet):
            return self._noted_identity()
        stamped = self._stamps.found(self._stamped_request()) if self._stamps else None
        return self._noting(*(stamped or self._find_content()))

    def _noting(self, identity: ConfigNode, seen: Mapping[str, Any] | None) -> ConfigNode:
        self._evidence = seen
        note: dict[str, Json] = {"identity": identity, "consulted": cast(Json, seen)}
        self._take_note("identity", self._request, note)
        return identity

    def _noted_identity(self) -> ConfigNode:
        """The identity that another process noted, while what its load consulted is the same."""
        note = cast(ConfigNode, self._noted("identity", self._request))
        seen = cast("Mapping[str, Any] | None", note["consulted"])
        if not self._holds(seen):
            raise NotComputedYet
        self._evidence = seen
        return cast(ConfigNode, note["identity"])

    def _find_content(self) -> tuple[ConfigNode, Mapping[str, Any]]:
        """Content of the loaded module, with the request, and all that its load consulted."""
        if self._load is None:
            raise NotComputedYet
        model = self._setup.model
        self.has_loaded = True
        with recorded() as record:
            module = self._load()
            makers = model.makers()
        content = content_of(module, makers, self.start)
        identity: dict[str, Json] = {**content.fields, "asked": dict(model.requested())}
        used = {*content.clocks, *UNSEEN_READERS.intersection(words(content.files))}
        untracked = {*record.untracked, *(f"its code uses {name}" for name in used)}
        if UNHASHABLE in identity:
            # So that no other invocation finds what is built.
            identity[INVOCATION] = self.invocation
            untracked.add("it holds what cannot be hashed")
        seen = evidence(
            record,
            content.files,
            (
                *(*content.listings, *content.named),
                *(*_texts(model), *named_files(content.files)),
            ),
            day=today() if content.asks_time else "",
        )
        if self._stamps:
            self._stamps.take(
                self._stamped_request(),
                identity,
                consulted=seen,
                untracked=sorted(untracked),
                environment=self.start.environment,
            )
        return identity, seen

    def _stamped_request(self) -> ConfigNode:
        """Request that determines a load: all options, the seed and the dtype."""
        workload = self._setup.workload
        return {
            **self._request,
            "seed": workload.seed,
            "dtype": workload.dtype,
            "half": "kept",  # loads before were cast to float32
            "frequencies": "kept",  # loads before cast them to a checkpoint's half precision
            "compiled": "unwrapped",  # loads before kept what torch.compile had returned
            **_KEEPS_COMPLEX,
            "threads": self._threads,
            "environment": dict(native_variables(self.start.environment)),
            "accelerators": len([*Path("/dev").glob("nvidia[0-9]*")]),
            "packages": dict(package_versions(("benchorch", "torch"))),
            "class": type(self._setup.model).__qualname__,
        }

    def _digests(
        self, kind: str, count: int, make: Callable[[int], Mapping[str, NDArray[generic]]]
    ) -> Json:
        """Digests of the first batches of a kind; the longest list is noted."""
        noted: list[Json] = []
        with suppress(NotComputedYet):
            noted = list(cast("list[Json]", self._noted(kind, self._request)))
        if not self._finds_out:
            if len(noted) < count:
                raise NotComputedYet
            return noted[:count]
        found: list[Json] = [digest_of_arrays(make(number)) for number in range(count)]
        if found != noted[:count]:
            self._take_note(kind, self._request, found)
        return found

    def _known(self, kind: str, request: ConfigNode, find: Callable[[], Json]) -> Json:
        """Noted fact if nothing may be computed; otherwise the computed one, which is noted."""
        if not self._finds_out:
            return self._noted(kind, request)
        found = find()
        self._take_note(kind, request, found)
        return found

    def _take_note(self, kind: str, request: ConfigNode, found: Json) -> None:
        note = self._note(kind, request)
        note.parent.mkdir(parents=True, exist_ok=True)
        write_json(note, found)

    def _noted(self, kind: str, request: ConfigNode) -> Json:
        try:
            noted: Json = read_json(self._note(kind, request))
        except (OSError, ValueError) as error:
            raise NotComputedYet from error
        return noted

    def _note(self, kind: str, request: ConfigNode) -> Path:
        return self._notes / f"{kind}-{digest_of(request)}.json"


def _follow_example(steps: Sequence[Step]) -> bool:
    """Whether a step traces the live module; of an exported program nothing is traced."""
    formats = [step.produces for step in steps]
    live = formats.index(Format.EXPORTED_PROGRAM) if Format.EXPORTED_PROGRAM in formats else None
    return any(step.follows_example for step in steps[:live])


def _json(consulted: Consulted) -> Json:
    return {group: dict(states) for group, states in consulted.items()}


def _code_folder(model: Model) -> str:
    """The folder of the file of code that a model's options name; empty without one."""
    named = filter(None, map(_CODE_FILE.fullmatch, _texts(model)))
    return next((str(from_start(one[1]).resolve().parent) for one in named), "")


def _texts(model: Model) -> Iterator[str]:
    """Texts among a model's options that may name files."""
    yield from re.findall(r"'([^'\n]{1,300})'", repr(model))
