"""The Python API: `benchmark`, a run of the command line that returns objects."""

from __future__ import annotations

import contextlib
import inspect
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchorch.config.composer import Composer, config_loader
from benchorch.config.overrides import (
    CONVERSION,
    key_of,
    keyword_overrides,
    parse_override,
    spelled,
    spelled_name,
)
from benchorch.domain.codec import Json
from benchorch.domain.protocol import INPUT_SETS
from benchorch.domain.tensors import common_rows
from benchorch.domain.trial import ConfigNode
from benchorch.errors import ConfigError, ExecutorError, Problems, RecordError, summary_of
from benchorch.frontends.api.input_shapes import ROWS
from benchorch.frontends.api.results import Results
from benchorch.journal import run_directory
from benchorch.journal.registry import new_directory
from benchorch.models.boosters import as_estimator, is_booster
from benchorch.models.trust import grant, is_installed
from benchorch.results.report.notebook import report_of
from benchorch.run.invocation import Invocation

if TYPE_CHECKING:
    import torch

    from benchorch.domain.tensors import Arrays

EXPORTED_NOTE = (
    "The model was exported from this process: its eager is the exported graph run by PyTorch, "
    "without the Python code around it."
)
COMPILED_NOTE = (
    "The model was given as torch.compile made it, and is measured as it was before: "
    "conversions=['inductor'] measures torch.compile."
)
GENERATE_PROBLEM = (
    "model: generate() makes one call for each token, and is measured token by token: give "
    "scenario='generate' besides, and workload={'new_tokens': N} for their number."
)
PROMPTS_NOTE = "The prompts have the size of the given ones; their tokens are drawn at random."
_GENERATES = {"scenario=generate", "scenario.generate=true"}
_ROWS = f"workload.{ROWS}"
_DYNAMIC = "workload.dynamic"
_WITHOUT_INPUTS = ("factory", "exported", "estimator")
_WEIGHTS = "it holds weights or objects: give 'path.py:function', which makes or loads the module"
_FILES = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".safetensors"), _WEIGHTS),
    **dict.fromkeys((".onnx", ".pt2"), "measure it by: benchorch script FILE"),
    ".py": "name what makes the module in it: 'path.py:function'",
}
_OWN = {
    "model": "give it as the first argument.",
    "conversion": "give conversions=[...].",
    "hydra": "give directory=... for another place of the run.",
    "resume": "resume on the command line: python -m benchorch resume=DIRECTORY.",
}
_FIND = """
import importlib.util, json, os, sys
sys.path.append(os.getcwd())
spec = importlib.util.find_spec(sys.argv[1])
sys.exit([spec.origin, *(spec.submodule_search_locations or ())] != json.loads(sys.argv[2]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """The benchmarked model, as overrides of the configuration.

    Attributes:
        choice: a name of ``conf/model``.
        words: further overrides of it.
        module: a live one, to be exported.
        names: of forward's arguments, where they are known.
        note: how what is measured differs from what was given.
        write: writes what needs no inputs to be written to a directory; the keys of ``model``.
        only_generates: whether ``generate`` was given, which is no single call.
    """

    choice: str
    words: tuple[str, ...] = ()
    write: Callable[[Path], ConfigNode] | None = None
    module: torch.nn.Module | None = None
    names: tuple[str, ...] | None = None
    note: str = ""
    only_generates: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A checked request; nothing is written yet."""

    composer: Composer
    model: _Model
    words: tuple[str, ...]
    sets: tuple[Arrays, ...] = ()
    program: torch.export.ExportedProgram | None = None


def benchmark(
    model: torch.nn.Module | Callable[..., object] | str,
    inputs: object = None,
    conversions: str | Sequence[str] | None = None,
    hardware: str | Sequence[str] = "local",
    *,
    directory: str | Path | None = None,
    quiet: bool = False,
    **overrides: object,
) -> Results:
    """Measure a model under each conversion, against eager, and compare.

    Args:
        model: a live module, also compiled, scripted or exported; a fitted estimator of
            scikit-learn, XGBoost or LightGBM; a callable without arguments that makes a module,
            ``"path.py:callable"``, ``"package.module:callable"``, or a name such as ``"bert"``. A
            callable that needs arguments, or a module's method, is measured itself.
        inputs: of forward, or of the function: tensors or arrays by name, or in its order; or a
            list of such sets by name. A named model has its own inputs. Calls rotate through
            several sets, and all of them are compared: where fewer are given, the others are
            variations of those (reversed, scaled, negated, permuted). With more rows than
            ``workload.batch_size``, the rows are taken in turn. Sizes in which sets differ are left
            open in exports.
        conversions: their names; None for the hardware's default ones.
        hardware: its name, or several.
        directory: of the run; None for a new one under ``runs``.
        quiet: print nothing.
        overrides: any key of the configuration, as ``workload={"batch_size": 8}`` or as
            ``**{"workload.batch_size": 8}``.

    Raises:
        ConfigError: with every problem; nothing was run.
    """
    request = _checked(model, inputs, conversions, hardware, overrides)
    invocation = Invocation(
        composer=request.composer,
        directory=Path(directory) if directory else new_directory(),
        report=report_of(quiet=quiet),
    )
    _run(invocation, request)
    run = invocation.so_far()
    return Results(
        plan=run.plan,
        results=run.results,
        summaries=run.summaries,
        directory=run.directory,
        note=" ".join(filter(None, (EXPORTED_NOTE if request.program else "", request.model.note))),
    )


def _checked(
    model: object,
    inputs: object,
    conversions: str | Sequence[str] | None,
    hardware: str | Sequence[str],
    overrides: Mapping[str, object],
) -> _Request:
    """The request as overrides; ConfigError with every problem that needs no export."""
    composer, problems = Composer(config_loader()), Problems()
    checked = problems.attempt(lambda: _model_of(model, composer))
    words: list[str] = []
    for group, names in (("conversion", conversions), ("hardware", hardware)):
        words += problems.attempt(partial(_choice, group, names, composer)) or []
    given = problems.attempt(lambda: keyword_overrides(overrides, _OWN)) or []
    if checked is not None and _is_generated(checked.module, given):
        checked, inputs = problems.attempt(partial(_generated, checked, inputs)), None
    elif checked is not None and checked.only_generates:
        raise ConfigError([GENERATE_PROBLEM])
    checked, sets = problems.attempt(lambda: _with_inputs(checked, inputs)) or (checked, [])
    if checked is not None:
        chosen = [f"model={checked.choice}", *checked.words, *words]
        # The plan checks the keys of a conversion that is not chosen yet.
        keys = [one for one in given if conversions is not None or _group(one) != CONVERSION]
        problems.add(composer.problems([*chosen, *keys], sweep=False))
        problems.add(_row_problems(sets, given))
        problems.add(_size_problems(sets, given))
    problems.stop()
    assert checked is not None  # otherwise there is a problem
    sets = _rotated(sets, given)
    request = _Request(composer=composer, model=checked, words=(*words, *given), sets=tuple(sets))
    if checked.module is None:
        return request
    from benchorch.frontends.api.live_model import export

    dynamic = _open_symbols(given) or ()
    return replace(request, program=export(checked.module, sets, dynamic))


def _run(invocation: Invocation, request: _Request) -> None:
    place = invocation.directory
    if place.is_file():
        raise ConfigError([f"directory: {place} is a file; give a folder, which may be new."])
    if (place / run_directory.PLAN).exists():
        raise ConfigError([f"directory: {place} holds a run already; give another."])
    new = [path for path in (place, *place.parents) if not path.exists()]
    invocation.open()
    try:
        words = [*_written(request, invocation.directory / "model"), *request.words]
        invocation.run(request.composer.jobs(words))
    except ConfigError as error:
        if invocation.plan is None:
            _remove(new)
        else:
            invocation.cut_short()
        if error.next:
            error.add_note(f"Next: {error.next}")
        raise
    except KeyboardInterrupt:
        invocation.interrupt()
        raise
    except ExecutorError:
        invocation.cut_short()
        raise
    except RecordError:
        invocation.abandon()
        raise
    invocation.close(complete=True)


def _remove(new: Sequence[Path]) -> None:
    """A run's directory, and the folders that were made for it."""
    for path in new[:1]:
        shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # another run has started there meanwhile
        for path in new[1:]:
            path.rmdir()


def _model_of(model: object, composer: Composer) -> _Model:
    if isinstance(model, str):
        return _named(model, composer)
    torch = sys.modules.get("torch")  # a module's owner has imported it
    if torch is not None and isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    if torch is not None and isinstance(model, torch.nn.Module):
        return _live(model)
    owner = getattr(model, "__self__", None)  # of estimator.predict
    if torch is not None and isinstance(owner, torch.nn.Module):
        if getattr(model, "__name__", "") == "_wrapped_call_impl":  # its __call__
            return _live(owner)
        if _is_generate(model, owner):
            return replace(_live(owner), only_generates=True)
    if isinstance(model, type) and torch is not None and issubclass(model, torch.nn.Module):
        _refuse_class_with_arguments(model)
    for each in (model, owner):
        if is_booster(each):
            return _estimator(each)
        if hasattr(each, "predict") and hasattr(each, "get_params"):
            return _estimator(each)
    if not callable(model):
        raise ConfigError(
            [
                f"model: expected a torch.nn.Module, a callable that makes one, a function of its "
                f"inputs, a fitted estimator, a name such as 'mlp' or 'path.py:callable', got a "
                f"{type(model).__name__}."
            ]
        )
    from benchorch.frontends.api.function_model import FunctionModule, is_function

    if is_function(model):
        return _live(FunctionModule(model))
    reference = _importable(model)
    if reference is not None:
        return _by_reference(reference)
    return _live(_made_by(model))


def _estimator(given: object) -> _Model:
    from benchorch.models.estimator import fitted_problem, write_estimator

    fitted = as_estimator(given)
    problem = fitted_problem(fitted)
    if problem:
        raise ConfigError([f"model: is {problem}."])
    name = spelled_name(type(given).__name__)
    return _Model(
        choice="estimator",
        words=(f"name={name}", f"++model.labels={{model:{name}}}"),
        names=("X",),
        write=partial(write_estimator, fitted),
    )


def _refuse_class_with_arguments(made: type) -> None:
    """ConfigError for a class that cannot make a module without being told how."""
    parameters = inspect.signature(made).parameters.values()
    fixed = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    needed = [one.name for one in fixed if one.default is one.empty]
    if needed:
        name, listed = made.__name__, ", ".join(needed)
        raise ConfigError(
            [f"model: {name} is a class that needs {listed}; give a module: {name}(...)."]
        )


def _by_reference(reference: str) -> _Model:
    """The model of a factory, which each trial's process calls."""
    from benchorch.models.callables import reference_problems

    grant(reference)  # by the user's own code
    problems = reference_problems("model", reference)
    if problems:
        raise ConfigError(problems)
    return _Model(choice="factory", words=(f"model.factory={spelled(reference)}",))


def _with_absolute_path(reference: str) -> str:
    """A reference with its file's absolute path, as the run may be resumed from elsewhere."""
    name, _, attribute = reference.rpartition(":")
    return f"{Path(name).resolve()}:{attribute}" if name.endswith(".py") else reference


def _named(model: str, composer: Composer) -> _Model:
    if ":" in model:
        return _by_reference(_with_absolute_path(model))
    if Path(model).suffix in _FILES:
        raise ConfigError([f"model: {model} is a file; {_FILES[Path(model).suffix]}."])
    problems = composer.problems([f"model={spelled(model)}"], sweep=False)
    if problems:
        raise ConfigError(problems)
    inputs = composer.option("model", model).get("inputs")
    names = tuple(inputs) if isinstance(inputs, Mapping) else None
    return _Model(choice=model, names=names)


def _live(module: torch.nn.Module) -> _Model:
    import torch

    from benchorch.frontends.api.function_model import by_name
    from benchorch.frontends.api.live_model import forward_names, model_name, module_problems

    compiled, module = module, getattr(module, "_orig_mod", module)
    if isinstance(module, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
        module = module.module
    module = by_name(module)
    problems = module_problems(module)
    if problems:
        raise ConfigError(problems)
    name = spelled_name(model_name(module))
    return _Model(
        choice="exported",
        words=(
            f"name={name}",
            f"model.architecture={name}",
            f"++model.labels={{model:{name}}}",
        ),
        module=module,
        names=forward_names(module),
        note=COMPILED_NOTE if hasattr(compiled, "_orig_mod") else "",
    )


def _is_generated(module: torch.nn.Module | None, given: Sequence[str]) -> bool:
    """Whether a live language model is to generate tokens, instead of one call of its forward."""
    if module is None or not _GENERATES & set(given):
        return False
    from benchorch.models.architectures.decoder import is_language_model

    return is_language_model(module)


def _is_generate(method: object, owner: torch.nn.Module) -> bool:
    """Whether it is the ``generate`` of a language model."""
    from benchorch.models.architectures.decoder import is_language_model

    return getattr(method, "__name__", "") == "generate" and is_language_model(owner)


def _generated(model: _Model, inputs: object) -> _Model:
    """The model saved to generate from prompts of the inputs' size; ConfigError where it cannot."""
    from benchorch.frontends.api.live_model import sets_by_name
    from benchorch.models.kept_programs import programs_folder
    from benchorch.models.saved_language_model import NotSavedError, save_language_model

    prompt = {} if inputs is None else sets_by_name(inputs, model.names)[0]
    shape = getattr(prompt.get("input_ids"), "shape", ())
    sizes = zip(("batch_size", "prompt_tokens"), shape, strict=False)
    try:
        node = save_language_model(model.module, programs_folder().parent / "language_models")
    except NotSavedError as error:
        raise ConfigError([f"model: cannot generate: {error}."]) from error
    return replace(
        model,
        choice="hub",
        words=(
            *model.words,
            *(f"workload.{symbol}={size}" for symbol, size in sizes),
            *(f"++model.{key}={spelled(value)}" for key, value in node.items()),
        ),
        module=None,
        note=f"{model.note} {PROMPTS_NOTE if prompt else ''}".strip(),
    )


def _importable(make: Callable[..., object]) -> str | None:
    """``module:name`` or ``path.py:name`` by which trials import the same object; else None."""
    module, name = getattr(make, "__module__", None), getattr(make, "__qualname__", "<lambda>")
    if not module or module == "__main__" or "<" in name:
        return None
    home = sys.modules.get(module)
    value: object = home
    for part in name.split("."):
        value = getattr(value, part, None)
    if home is None or value is not make:
        return None
    file = Path(getattr(home, "__file__", None) or module).resolve()
    if is_installed(file) or _is_found_by_trials(module):
        return f"{module}:{name}"
    return f"{file}:{name}" if file.suffix == ".py" and not home.__package__ else None


def _is_found_by_trials(module: str) -> bool:
    """Whether a trial's process, which knows the current folder alone, finds the same file."""
    top = module.partition(".")[0]
    spec = getattr(sys.modules.get(top), "__spec__", None)
    places = spec and [spec.origin, *(spec.submodule_search_locations or ())]
    command = [sys.executable, "-P", "-c", _FIND, top, json.dumps(places)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _made_by(make: Callable[..., object]) -> torch.nn.Module:
    import torch

    from benchorch.frontends.api.function_model import function_name

    name = function_name(make)
    remedy = "To measure a function itself, give one with arguments: lambda x: f(x)."
    try:
        module = make()
    except Exception as error:
        reason = summary_of(error).rstrip(".")
        problem = f"model: {name} called without arguments raised {reason}. {remedy}"
        raise ConfigError([problem]) from error
    if isinstance(module, torch.nn.Module):
        return module
    kind = type(module).__name__
    raise ConfigError([f"model: {name} returned a {kind}, not a module. {remedy}"])


def _group(word: str) -> str:
    return key_of(word).partition(".")[0]


def _choice(group: str, names: str | Sequence[str] | None, composer: Composer) -> list[str]:
    """The override that chooses the options; ConfigError for unknown names."""
    if names is None:
        return []
    listed = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    wrong = [name for name in listed if not isinstance(name, str)]
    problems = [f"{group}: expected a name, got {name!r}." for name in wrong]
    problems += [
        problem
        for name in listed
        if name not in wrong
        for problem in composer.problems([f"{group}={spelled(name)}"], sweep=False)
    ]
    problems += [] if listed else [f"{group}: the list is empty; None means the default."]
    if problems:
        raise ConfigError(problems)
    return [f"{group}={spelled(listed if len(listed) > 1 else listed[0])}"]


def _with_inputs(model: _Model | None, inputs: object) -> tuple[_Model | None, Sequence[Arrays]]:
    """The input sets, and the model that takes them: a live one may take more than tensors."""
    if model is None or (inputs is None and model.choice not in _WITHOUT_INPUTS):
        return model, []
    if inputs is None:
        takes = f" It takes: {', '.join(model.names)}." if model.names else ""
        raise ConfigError([f"inputs: give the tensors that forward is called with.{takes}"])
    from benchorch.frontends.api.live_model import input_sets, sets_by_name

    if model.module is None:
        return model, input_sets(inputs, model.names)
    from benchorch.frontends.api.call_inputs import holds_more, with_tensors_alone

    sets = sets_by_name(inputs, model.names)
    if not holds_more(sets):
        return model, input_sets(inputs, model.names)
    names = () if model.names is None else model.names
    call = with_tensors_alone(model.module, sets, names)
    return replace(model, module=call.module, note=f"{model.note} {call.note}".strip()), call.sets


def _rotated(sets: Sequence[Arrays], given: Sequence[str]) -> list[Arrays]:
    """As many sets as calls rotate through: the given ones first, then variations of them."""
    from benchorch.frontends.api.live_model import in_batches
    from benchorch.models.input_variation import varied

    if not sets:
        return []
    rows = _requested_rows(given)
    batches = in_batches(sets, int(rows) if rows else None)
    return varied(batches, max(INPUT_SETS, len(batches)))


def _row_problems(sets: Sequence[Arrays], given: Sequence[str]) -> list[str]:
    """Why the inputs do not fill a batch."""
    requested = _requested_rows(given)
    counts = [common_rows(each) for each in sets]
    rows = min((count for count in counts if count is not None), default=None)
    if requested is None or not sets:
        return []
    if rows is None:
        return [
            f"{_ROWS}: is {requested}, but the inputs have no first size in common, so a call "
            "counts as one item; leave it out."
        ]
    if requested.startswith("["):
        return [
            f"{_ROWS}: expected one size, got {requested}: the inputs are divided into batches of "
            "it. Call benchmark once for each size."
        ]
    if not requested.isdigit() or not 0 < int(requested) <= rows:
        return [f"{_ROWS}: is {requested}, but the inputs have {rows} rows; give at least as many."]
    is_split = any(count not in (None, int(requested)) for count in counts)
    return [
        f"{_ROWS}: is {requested}, but inputs[{number}] cannot be split into batches: its tensors "
        "have several first sizes."
        for number, count in enumerate(counts)
        if is_split and count is None
    ]


def _size_problems(sets: Sequence[Arrays], given: Sequence[str]) -> list[str]:
    """Why sizes that the inputs leave open cannot be left open."""
    from benchorch.frontends.api.input_shapes import InputShapes

    if _open_symbols(given) is None or not sets or not InputShapes.of(sets).open:
        return []
    return [
        f"{_DYNAMIC}: the inputs have several shapes, which already leaves these sizes open; give "
        "one of the two."
    ]


def _requested_rows(given: Sequence[str]) -> str | None:
    return next((word.partition("=")[2] for word in given if word.startswith(f"{_ROWS}=")), None)


def _open_symbols(given: Sequence[str]) -> tuple[str, ...] | None:
    """The symbols that an override leaves open; None without such an override."""
    word = next((word for word in given if word.startswith(f"{_DYNAMIC}=")), None)
    value = None if word is None else parse_override(word).value()
    return tuple(map(str, value)) if isinstance(value, list | dict) else None


def _written(request: _Request, directory: Path) -> list[str]:
    """Write the program, and inputs to the directory; the overrides that name them."""
    from benchorch.frontends.api.input_shapes import InputShapes
    from benchorch.frontends.api.live_model import write_inputs
    from benchorch.models.kept_programs import keep_program, programs_folder

    words = [f"model={request.model.choice}", *request.model.words]
    node: ConfigNode = {}
    if request.program is not None:
        node = keep_program(request.program, programs_folder())
    elif request.model.write is not None:
        node = request.model.write(directory)
    words += [f"model.{key}={spelled(value)}" for key, value in node.items()]
    if not request.sets:
        return words
    words.append(f"++model.inputs={spelled(write_inputs(request.sets, directory))}")
    shapes = InputShapes.of(request.sets)
    requested = any(word.startswith(f"{_ROWS}=") for word in request.words)
    for symbol, largest in shapes.largest.items():
        if symbol != ROWS or not requested:
            words.append(f"++workload.{symbol}={largest}")
    # Each set has the size that it has: none are named.
    sizes: dict[str, Json] = {symbol: [] for symbol in shapes.open}
    return [*words, f"{_DYNAMIC}={spelled(sizes)}"] if sizes else words
