"""Trial setup: a trial's components, made from its spec.

Nothing here imports torch; the objects do, when they load or build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar, cast

from benchorch.config.components import construct, make, misspelt
from benchorch.config.decoder import Decoder
from benchorch.config.parity_setup import parity_setup
from benchorch.domain.artifact import BuildKey, Format
from benchorch.domain.codec import Json, encode
from benchorch.domain.node_memo import NodeMemo
from benchorch.domain.protocol import Protocol
from benchorch.domain.tensors import NOT_SYMBOLS, Arrays, Example, Workload
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, Correction, Problem, Problems
from benchorch.interfaces.conversion import TF32_RATIO, FileStep, Link, Step
from benchorch.interfaces.hardware import Hardware
from benchorch.interfaces.model import Model
from benchorch.interfaces.runtime import Runtime
from benchorch.interfaces.scenario import Scenario
from benchorch.interfaces.stopping import Stopping

T = TypeVar("T")

EAGER: ConfigNode = {"_target_": "benchorch.runtimes.eager.Eager"}
"""What runs a chain that names no runtime: PyTorch itself."""

FORMAT_NAMES: Mapping[str, str] = {
    Format.MODULE: "a torch module",
    Format.CALLABLE: "a callable",
    Format.LIGHTNING_MODULE: "a Lightning module",
    Format.EXPORTED_PROGRAM: "an exported program",
    Format.ONNX: "an ONNX model",
    Format.AOTI_PACKAGE: "an AOTInductor package",
    Format.INDUCTOR_CACHE: "a cache of Inductor",
    Format.TORCHSCRIPT: "a TorchScript file",
    Format.OPENVINO_IR: "an OpenVINO model",
    Format.EXECUTORCH_PROGRAM: "an ExecuTorch program",
    Format.TVM_LIBRARY: "a TVM library",
    Format.TENSORRT_ENGINE: "a TensorRT engine",
}
"""Formats with their article, for sentences."""

FIRST_CALIBRATION_SEED = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSetup:
    """Everything that one trial is made of.

    Attributes:
        steps: the named links before the runtime, in order.
        tolerance_ratio: the conversion's own, or the largest of its links'.
    """

    model: Model
    workload: Workload
    steps: tuple[tuple[str, Step], ...]
    runtime: Runtime
    hardware: Hardware
    scenario: Scenario
    stopping: Stopping
    protocol: Protocol
    tolerance_ratio: float
    nodes: ConfigNode

    @property
    def on_gpu(self) -> bool:
        """Whether the model is called on an NVIDIA GPU."""
        return type(self.hardware).device == "cuda"

    @property
    def links(self) -> tuple[Link, ...]:
        """The steps and the runtime, in order."""
        return (*(step for _, step in self.steps), self.runtime)

    @property
    def requires(self) -> tuple[str, ...]:
        """Distributions that building and running import, without repeats."""
        names = [name for link in self.links for name in link.requires]
        return tuple(dict.fromkeys((*self.model.requires, *names)))

    @property
    def generates(self) -> bool:
        """Whether a call generates tokens."""
        return self.scenario.sampling is not None

    @property
    def sequence_tokens(self) -> int:
        """Tokens that a cache holds in the end, where calls generate them."""
        return cast(Decoder, self.model).sequence_tokens(self.workload)

    def has_fixed_cache(self, n_steps: int | None = None) -> bool:
        """Whether a decoder's cache has its full size from the start after so many steps."""
        return any(type(step).fixes_cache for _, step in self.steps[:n_steps])

    @property
    def leaves_files(self) -> bool:
        """Whether a store keeps anything of it."""
        return any(isinstance(step, FileStep) for _, step in self.steps)

    @property
    def portable_steps(self) -> int:
        """So many steps at its beginning leave files that any machine can build for any other."""
        anywhere = takewhile(lambda link: not type(link[1]).depends_on, self.steps)
        files = (n for n, (_, step) in enumerate(anywhere, 1) if isinstance(step, FileStep))
        return max(files, default=0)

    def first(self, n_steps: int | None) -> TrialSetup:
        """The chain up to there, which can be built, not run; all of it for None."""
        return replace(self, steps=self.steps[:n_steps])

    @property
    def unavailable(self) -> str | None:
        """Why the chain cannot run on its device on any machine, or None."""
        device = type(self.hardware).device
        reasons = [link.unavailable(device) for link in self.links]
        found = (self.hardware.unusable(), self._unfit(device), *reasons)
        return next(filter(None, found), None)

    @property
    def elsewhere(self) -> str | None:
        """Why a link runs on GPUs alone, and the machine has none, or None."""
        device = type(self.hardware).device
        of_gpus = ((link.unavailable("cpu"), link.unavailable("cuda")) for link in self.links)
        found = (here for here, there in of_gpus if here and not there)
        return next(found, None) if device == "cpu" else None

    def _unfit(self, device: str) -> str | None:
        """Why the chain cannot take this model as its input, or None."""
        given, taken = self.model.gives, type(self.links[0]).consumes
        if self.generates and not type(self.runtime).generates:
            runtime = type(self.runtime).__name__
            return f"{runtime} has no calls that pass a cache from one token to the next."
        if not self.generates and any(type(step).generates for _, step in self.steps):
            return "a cache of keys and values exists between tokens: use scenario=generate."
        if not set(given) & set(taken):
            expected, provided = " or ".join(taken), " and ".join(given)
            return f"the conversion expects {expected} as input; this model provides {provided}."
        if Format.MODULE not in given and not self.steps and device != "cpu":
            return f"this model is {' and '.join(given)}, which runs without a step on CPUs only."
        return None

    def calibration(self, number: int) -> Arrays:
        """Inputs to calibrate with: of seeds that nothing else uses."""
        return self.model.batch(self.workload, self.workload.seed + FIRST_CALIBRATION_SEED + number)

    def example(self, seed: int) -> Example:
        """One concrete call with the inputs of that seed; the workload's own is the first."""
        workload = self.workload.of_input(seed - self.workload.seed)
        return Example(
            arrays=self.model.batch(workload, seed),
            keywords=self.model.keywords(),
            specs=self.model.specs(),
            dynamic=(*self.workload.dynamic, *self.model.open_symbols),
        )

    def inputs_of_other_sizes(self) -> list[Arrays]:
        """Inputs that are compared and not timed, of other sizes where some are left open."""
        seed = self.workload.seed
        return [
            self.model.batch(workload, seed + number)
            for number, workload in enumerate(self.workload.of_other_sizes(), 1)
        ]

    def key(self, model_identity: ConfigNode, n_steps: int, facts: ConfigNode) -> BuildKey:
        """What determines the files after so many steps.

        A chain that begins alike has the same key up to there, so a prefix is built once. Files
        that no hardware determines are the same from a package built for CPU or for CUDA.
        """
        from benchorch.host.environment import package_versions, release

        steps = self.steps[:n_steps]
        links = [link for _, link in steps]
        required = {fact for link in links for fact in link.depends_on}
        names = {*self.model.requires, *(name for link in links for name in link.requires)}
        versions = package_versions(sorted(names))
        if not required:
            versions = {name: release(version) for name, version in versions.items()}
        fields: dict[str, Json] = {
            "model": model_identity,
            "dtype": self.workload.dtype,
            "seed": self.workload.seed,
            "inputs": self._input_fields(),
            "keywords": dict(self.model.keywords()),
            "steps": [_step_fields(name, link, self.nodes) for name, link in steps],
            "packages": dict(versions),
            "hardware": {fact: facts.get(fact) for fact in sorted(required)},
        }
        if self.has_fixed_cache(n_steps):
            fields["cache_tokens"] = self.sequence_tokens
        if required and self.on_gpu:
            fields["tf32"] = self.protocol.tf32  # compilers choose kernels by it
        return BuildKey(fields=fields)

    def _input_fields(self) -> Json:
        open_symbols = {*self.workload.dynamic, *self.model.open_symbols}
        return [
            {
                "name": spec.name,
                "dtype": spec.dtype,
                "shape": [
                    size if size in open_symbols else self.workload.symbols.get(str(size), size)
                    for size in spec.shape
                ],
            }
            for spec in self.model.specs()
        ]


def _step_fields(name: str, link: Step, nodes: ConfigNode) -> Json:
    """Its class and every option, those that nobody spelt out too: two ways to ask for one."""
    node = cast(ConfigNode, cast(Mapping[str, Json], nodes["steps"])[name])
    known: tuple[Field[Any], ...] = fields(link) if is_dataclass(link) else ()
    options = {each.name: encode(getattr(link, each.name)) for each in known if each.init}
    return {**node, **options, "version": type(link).version}


def open_trial(spec: ConfigNode, memo: NodeMemo | None = None) -> TrialSetup:
    """The components of a trial's spec; ConfigError with every problem of every node.

    Args:
        memo: of the trials of a sweep, which share the components of the nodes that they share.
    """
    found, once = Problems(), memo or NodeMemo()

    def attempt(node: Json, interface: type[T], where: str) -> T | None:
        made = partial(make, cast(ConfigNode, node), interface, where)
        return found.attempt(lambda: once.of((interface, where), [node], made))

    def once_of(key: str, work: Callable[[ConfigNode], T]) -> T:
        node = cast(ConfigNode, spec[key])
        return once.of(key, [node], partial(work, node))

    conversion = cast(ConfigNode, spec["conversion"])
    steps = conversion.get("steps") or {}
    if not isinstance(steps, Mapping):
        raise ConfigError([f"conversion.steps: expected named steps, got {steps!r}."])
    links = [
        (name, attempt(node, Step, f"conversion.steps.{name}")) for name, node in steps.items()
    ]
    parts = {
        "model": attempt(spec["model"], Model, "model"),
        "runtime": attempt(conversion.get("runtime") or EAGER, Runtime, "conversion.runtime"),
        "hardware": attempt(spec["hardware"], Hardware, "hardware"),
        "scenario": attempt(spec["scenario"], Scenario, "scenario"),
        "stopping": attempt(spec["stopping"], Stopping, "stopping"),
        "protocol": found.attempt(lambda: once_of("protocol", _protocol)),
    }
    workload = found.attempt(lambda: once_of("workload", parse_workload))
    tolerance = found.attempt(lambda: _tolerance_of(conversion))
    found.add(once_of("limits", _limit_problems))
    found.attempt(lambda: once_of("parity", lambda _: parity_setup(spec)))
    model = parts["model"]
    scenario = parts["scenario"]
    if isinstance(scenario, Scenario) and scenario.sampling and isinstance(model, Model):
        parts["model"] = found.attempt(lambda: _decoder(model))
    if not found.found:
        runtime = cast(Runtime, parts["runtime"])
        found.add(chain_problems(cast(Sequence[tuple[str, Step]], links), runtime))
    found.stop()
    assert workload is not None
    return TrialSetup(
        workload=workload,
        steps=tuple(cast("list[tuple[str, Step]]", links)),
        tolerance_ratio=_tolerance_ratio(tolerance, cast("list[tuple[str, Step]]", links), parts),
        nodes={"steps": steps},
        **parts,  # type: ignore[arg-type]  # no problems means that none of them is None
    )


def _decoder(model: Model) -> Model:
    """The model as its scenario calls it: token by token."""
    length = model.prompt_symbol
    if length is None:
        raise ConfigError(
            [
                "scenario: generate needs a language model of transformers with input_ids and a "
                "cache of keys and values: model=gpt2, model=hub, or one that a script calls or "
                "a factory returns; this model has none."
            ]
        )
    return Decoder(source=model, length=length)


def chain_problems(links: Sequence[tuple[str, Step]], runtime: Runtime) -> list[str]:
    """Where what one link expects is not what the chain before it gives."""
    problems = []
    previous, given = "the model", Format.MODULE
    for index, (name, step) in enumerate(links):
        expected = type(step).consumes
        special = index == 0 and Format.LIGHTNING_MODULE in expected
        if given not in expected and not special:
            problems.append(
                f"conversion.steps.{name}: {name} {_impossible(expected, previous, given)}"
            )
        previous, given = name, type(step).produces
    expected = type(runtime).consumes
    if given not in expected:
        name = type(runtime).__name__
        problems.append(f"conversion.runtime: {name} {_impossible(expected, previous, given)}")
    return problems


def _impossible(expected: Sequence[Format], previous: str, given: Format) -> str:
    """Why a link cannot follow the chain before it."""
    so_far = f"the chain so far ({previous})" if previous != "the model" else previous
    accepted = " or ".join(FORMAT_NAMES.get(each, each) for each in expected)
    return f"expects {accepted}; {so_far} gives {FORMAT_NAMES.get(given, given)}."


def parse_workload(node: ConfigNode) -> Workload:
    """The workload of a node; ConfigError with every value that cannot be one."""
    problems = [
        f"workload.{name}: expected a positive whole number, got {value!r}."
        for name, value in node.items()
        if name not in NOT_SYMBOLS and not _is_size(value)
    ]
    dtype, seed = node.get("dtype"), node.get("seed")
    dynamic = node.get("dynamic") or []
    if dtype not in ("float64", "float32", "float16"):
        problems.append(
            Problem(
                f"workload.dtype: expected one of 'float64', 'float32', 'float16', got {dtype!r}.",
                Correction(allowed=("float64", "float32", "float16")),
            )
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        problems.append(f"workload.seed: expected a whole number of at least 0, got {seed!r}.")
    symbols = {name: value for name, value in node.items() if name not in NOT_SYMBOLS}
    problems += _dynamic_problems(dynamic, symbols)
    if problems:
        raise ConfigError(problems)
    sizes = cast(Mapping[str, Sequence[int]], dynamic) if isinstance(dynamic, Mapping) else {}
    return Workload(
        symbols=cast(Mapping[str, int], {k: v for k, v in symbols.items() if v is not None}),
        dtype=cast(str, dtype),
        seed=cast(int, seed),
        dynamic=tuple(cast(Sequence[str], dynamic)),
        sizes={name: tuple(each) for name, each in sizes.items()},
    )


def _dynamic_problems(dynamic: Json, symbols: Mapping[str, Json]) -> Iterator[str]:
    """What is wrong with symbols that are left open, and with the sizes that they take."""
    if not isinstance(dynamic, list | tuple | Mapping):
        yield (
            "workload.dynamic: expected a list of symbols, or the sizes of each as "
            f"{{batch_size: [1, 4]}}, got {dynamic!r}."
        )
        return
    for name in dynamic:
        if not isinstance(name, str) or name not in symbols:
            yield f"workload.dynamic: {name!r} is not a symbol; symbols: {', '.join(symbols)}."
        elif isinstance(dynamic, Mapping):
            yield from _size_problems(name, dynamic[name], symbols)


def _size_problems(name: str, sizes: Json, symbols: Mapping[str, Json]) -> Iterator[str]:
    most = symbols[name]
    listed = sizes if isinstance(sizes, list | tuple) else None
    if listed is None or not all(_is_size(size) and size is not None for size in listed):
        yield (
            f"workload.dynamic.{name}: expected a list of positive whole numbers, which the "
            f"inputs take in turn, got {sizes!r}."
        )
    elif isinstance(most, int) and any(cast(int, size) > most for size in listed):
        yield (
            f"workload.dynamic.{name}: {max(cast(Sequence[int], listed))} is above "
            f"workload.{name}={most}, which must be the largest size; increase it."
        )


def _protocol(node: ConfigNode) -> Protocol:
    return construct(Protocol, node, "protocol")


def _tolerance_of(conversion: ConfigNode) -> float | None:
    value = conversion.get("tolerance_ratio")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ConfigError(
            [
                "conversion.tolerance_ratio: expected null (what the steps themselves allow) or a "
                f"number of at least 0, got {value!r}."
            ]
        )
    return float(value)


def _tolerance_ratio(
    requested: float | None, links: Sequence[tuple[str, Step]], parts: Mapping[str, object]
) -> float:
    """What was asked for, or the largest of what each link may cost: one of them dominates."""
    runtime = cast(Runtime, parts["runtime"])
    allowed = [runtime.tolerance_ratio, *(step.tolerance_ratio for _, step in links)]
    on_gpu = type(cast(Hardware, parts["hardware"])).device == "cuda"
    if on_gpu and cast(Protocol, parts["protocol"]).tf32:
        allowed.append(TF32_RATIO)
    return max(allowed) if requested is None else requested


def _limit_problems(limits: ConfigNode) -> list[str]:
    known = ("build_timeout_s", "measure_timeout_s", "memory_gib")
    problems: list[str] = [
        misspelt(f"limits.{n}: unknown key.", n, known) for n in limits if n not in known
    ]
    problems += [
        f"limits.{name}: expected a number above 0, got {value!r}."
        for name, value in limits.items()
        if not _is_positive(value) and not (name == "memory_gib" and value is None)
    ]
    return problems


def _is_positive(value: Json) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and cast(float, value) > 0


def _is_size(value: Json) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value is None or (whole and cast(int, value) > 0)
