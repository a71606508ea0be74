"""Override errors: every mistake of a command at once, each with the name that was meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from benchorch.config.components import misspelt, nearest
from benchorch.config.composition import (
    composition_errors,
    first_line,
    group_options,
    load,
    plain_node,
)
from benchorch.config.descriptions import default_keys, groups, model_like, option_keys, options
from benchorch.config.hardware_aliases import HARDWARE, is_made
from benchorch.config.overrides import (
    PLAIN_OVERRIDE,
    as_dict,
    as_list,
    is_scalar,
    key_of,
    parse_override,
    sweep_jobs,
    top_node,
)
from benchorch.domain.codec import Json
from benchorch.domain.trial import ConfigNode, value_at
from benchorch.errors import ConfigError, Correction, Problem

if TYPE_CHECKING:
    from hydra.core.config_loader import ConfigLoader
    from hydra.core.override_parser.types import Override

    from benchorch.config.option_nodes import OptionNodes

_LONGEST_NAME = 80
_MOST_LISTED = 20
_LISTED_BY = {"conversion": "benchorch conversions", "hardware": "benchorch backends"}
_DEVICES = {**dict.fromkeys(("cuda", "gpu"), "hardware=local_gpu"), "cpu": "hardware=local"}
_GUESSED = ("model", "conversion", "hardware", "scenario", "stopping", "executor")
_CONVERSIONS = {
    **dict.fromkeys(("pytorch", "torch"), "conversion=eager"),
    **dict.fromkeys(("ort", "CPUExecutionProvider"), "conversion=[eager,onnxruntime]"),
    "CUDAExecutionProvider": "conversion=[eager,onnxruntime_cuda]",
    **dict.fromkeys(("float16", "fp16"), "conversion=[eager,fp16]"),
    **dict.fromkeys(("bfloat16", "bf16"), "conversion=[eager,bf16]"),
    **dict.fromkeys(("torch.compile", "compile", "dynamo"), "conversion=[eager,inductor]"),
    "onnx": "conversion=[eager,onnxruntime]",
    "jit": "conversion=[eager,torchscript]",
}
"""What other tools call a conversion."""


def reaches_out(group: str, base: Mapping[str, Json], chosen: Mapping[str, Json]) -> bool:
    """Whether a choice in a group has changed other nodes than the group's own."""
    others = {*base, *chosen} - {group}
    return any(base.get(key) != chosen.get(key) for key in others)


class OverrideErrors:
    """Checks each override by itself, so that one mistake hides no other; Hydra composes each."""

    def __init__(
        self, loader: ConfigLoader, config_name: str, groups: frozenset[str], files: OptionNodes
    ) -> None:
        self._loader = loader
        self._config_name = config_name
        self._groups = groups
        self._files = files
        self._found: dict[tuple[str, ...], list[str]] = {}
        self._bases: dict[tuple[str, ...], Mapping[str, Json]] = {}
        self._defaults: Mapping[str, str | None] = {}  # options chosen where the line chooses none

    def of_command(self, overrides: Sequence[str], *, sweep: bool) -> list[str]:
        """Every problem of a command's overrides, with each value of a sweep."""
        broken = [text for text in overrides if _syntax_problem(text)]
        found: list[str] = [problem for text in broken if (problem := _syntax_problem(text))]
        sound = [text for text in overrides if text not in broken]
        jobs = sweep_jobs(sound, self._loader) if sweep else [sound]
        return found + list(dict.fromkeys(text for job in jobs for text in self.of_job(job)))

    def of_job(self, overrides: Sequence[str]) -> list[str]:
        """What is wrong with each override by itself, given the options chosen beside it."""
        choices = {
            key_of(text): text
            for text in overrides
            if key_of(text) in self._groups and not self._of(text, ())
        }
        found: list[str] = []
        for text in overrides:
            own = choices.get(top_node(text))
            beside = (own,) if own and own != text else ()
            problems = self._of(text, beside)
            chooses = key_of(text) in self._groups
            if problems and own is None and not chooses:  # another group's option may decide it
                reaching = tuple(c for c in choices.values() if self._reaches_out(c))
                problems = self._of(text, reaching) if reaching else problems
            found += problems
        return found

    def _reaches_out(self, choice: str) -> bool:
        """Whether an option changes other nodes than its own."""
        try:
            base = self._base(())
            if self._follows_from_files(choice):
                return False
            chosen = self._base((choice,))
        except ConfigError:
            return False
        return reaches_out(key_of(choice), base, chosen)

    def _of(self, text: str, choice: tuple[str, ...]) -> list[str]:
        key = (*choice, text)
        if key not in self._found:
            self._found[key] = self._look(text, choice)
        return self._found[key]

    def _look(self, text: str, choice: tuple[str, ...]) -> list[str]:
        broken = _syntax_problem(text)
        if broken:
            return [broken]
        override = parse_override(text)
        choosing = override.key_or_group in self._groups
        if override.is_sweep_override():
            key, _, names = text.partition("=")
            listed = f", or listed as {key}=[{names}]" if choosing else ""
            problem = f"{text}: several values are crossed with -m{listed}."
            return [Problem(problem, Correction(added=["-m"]))]
        is_added = override.is_add() and not override.package
        if choosing and is_added and override.key_or_group in groups():
            meant = Correction(typed=text, meant=text.removeprefix("+"))
            return [Problem(f"{text}: a run has this group already, so there is no +.", meant)]
        if choosing:
            found = self._option_problems(override)
            if found or override.is_add() or not override.package:
                return found
            plain = f"{override.key_or_group}={text.partition('=')[2]}"
            problem = f"{text}: a group has one place; leave out @{override.package}."
            return [Problem(problem, Correction(typed=text, meant=plain))]
        is_hydras = override.key_or_group.startswith("hydra.")  # which reports its own mistakes
        if override.is_add() and not is_hydras:
            return self._added_again(override, text, choice)
        if is_hydras or override.is_force_add() or override.is_delete():
            return []
        unknown = _unknown_key(self._base(choice), override.key_or_group)
        if unknown and unknown.correction is None:
            is_deep = top_node(override.key_or_group) in self._groups
            guess = None if is_deep else self._by_value(override.key_or_group, text)
            unknown = guess or _by_last_part(override.key_or_group) or unknown
        if unknown and top_node(override.key_or_group) not in self._groups:
            return [unknown]
        if unknown is None and _replaces_scalar(self._base(choice), override, text):
            return []
        expected = composition_errors()
        try:
            self._load((*choice, text))
        except expected as error:
            inner = _unknown_inner_key(self._base(choice), override, text)
            return [unknown or inner or f"{text}: {first_line(error)}"]
        return []

    def _by_value(self, key: str, text: str) -> Problem | None:
        """``backend=onnxruntime``: a key that is probably the group whose option is its value."""
        value = text.partition("=")[2]
        if machine := _DEVICES.get(value.partition(":")[0]):
            problem = f"{key}: unknown key. A device is a machine here: {machine}."
            return Problem(problem, Correction(typed=text, meant=machine))
        if conversion := _CONVERSIONS.get(value):
            problem = f"{key}: unknown key. {value} is a conversion here: {conversion}."
            return Problem(problem, Correction(typed=text, meant=conversion))
        names = value.strip("[]").split(",")
        of_value = (g for g in _GUESSED if {*names} <= {*group_options(self._loader, g)})
        group = next(of_value, None)
        if group is None:
            return None
        kind = f"an {group}" if group[0] in "aeiou" else f"a {group}"
        problem = f"{key}: unknown key. {', '.join(names)} is {kind}. Did you mean {group!r}?"
        return Problem(problem, Correction(typed=key, meant=group))

    def _added_again(self, override: Override, text: str, choice: tuple[str, ...]) -> list[str]:
        """``+`` before a key that has a value."""
        value = value_at(self._base(choice), override.key_or_group.split("."))
        if value is None or isinstance(override.value(), dict | list):
            return []
        meant = Correction(typed=text, meant=text.removeprefix("+"))
        return [Problem(f"{text}: the key has a value; + adds a new one.", meant)]

    def _option_problems(self, override: Override) -> list[str]:
        group = override.key_or_group
        options = group_options(self._loader, group)
        values = override.value()
        chosen = values if isinstance(values, list) else [values]
        names = [str(value) for value in chosen if value is not None]
        problems = [self._choice_problem(group, name, options) for name in names]
        return [problem for problem in problems if problem]

    def _choice_problem(self, group: str, name: str, options: Sequence[str]) -> str | None:
        """Why a name is no option, if so; one that is made of others must compose."""
        if name in options:
            return None
        repository = self._loader.repository  # type: ignore[attr-defined]
        expected = composition_errors()
        try:
            if not repository.config_exists(f"{group}/{name}"):
                return _no_such_option(group, name, options)
            self._load((f"{group}={name}",))
        except expected as error:
            from benchorch.config.aliases_source import ImpossibleChain

            known = isinstance(error, ImpossibleChain)
            return str(error) if known else _no_such_option(group, name, options)
        return None

    def _base(self, choice: tuple[str, ...]) -> ConfigNode:
        """The keys there are once an option is chosen, groups included."""
        if choice not in self._bases:
            self._bases[choice] = self._base_by_files(choice) or self._composed_base(choice)
        return self._bases[choice]

    def _base_by_files(self, choice: tuple[str, ...]) -> ConfigNode | None:
        """The same of one option whose files tell it, which takes a tenth of composing it."""
        if len(choice) != 1:
            return None
        group, _, name = choice[0].partition("=")
        try:
            base = self._base(())
        except ConfigError:  # whose cause the choice may remove
            return None
        node = self._files.node(group, name) if self._follows_from_files(choice[0]) else None
        return None if node is None else {**base, group: node}

    def _follows_from_files(self, choice: str) -> bool:
        """Whether an option, and each that it may replace, changes its own node alone."""
        inside = self._files.stays_inside(*choice.partition("=")[::2])
        return inside and not self._files.reaching(self._defaults)

    def _composed_base(self, choice: tuple[str, ...]) -> ConfigNode:
        expected = composition_errors()
        try:
            config = load(self._loader, self._config_name, choice)
            plain = plain_node(config)
        except expected as error:
            raise ConfigError([first_line(error)]) from error
        if not choice:
            self._defaults = dict(config.hydra.runtime.choices)
        own = sorted(self._groups & set(groups()))  # not the folders beside a recipe
        return {**dict.fromkeys(own), **plain}

    def _load(self, overrides: tuple[str, ...]) -> ConfigNode:
        return plain_node(load(self._loader, self._config_name, overrides))


def _no_such_option(group: str, name: str, options: Sequence[str]) -> Problem:
    """What is wrong with a name, and which was meant."""
    if group == HARDWARE and is_made(name):
        from benchorch.config.hardware_aliases import backend

        try:
            backend(name)
        except ConfigError as error:
            return error.problems[0]
    shown = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."
    if (group, name) == ("conversion", "all"):
        problem = (
            "conversion: there is no 'all'. Without the key, those of the hardware are measured"
        )
        return Problem(f"{problem}; all: {_LISTED_BY[group]}.", Correction(typed="conversion=all"))
    if meant := _called_elsewhere(group, name, options):
        problem = f"{group}: there is no {shown!r}. Did you mean {meant!r}?"
        return Problem(problem, Correction(typed=name, meant=meant))
    listed = f" Options: {', '.join(options)}."
    if len(options) > _MOST_LISTED:
        listed = f" All: {_LISTED_BY.get(group, f'benchorch help {group}')}."
    return misspelt(f"{group}: there is no {shown!r}.", name, options, listed)


def _called_elsewhere(group: str, name: str, options: Sequence[str]) -> str:
    """The option for another tool's name of it: ``cuda:0``, ``bert-base-uncased``; else empty."""
    if group == "model":
        return model_like(name, options)
    known = {HARDWARE: _DEVICES, "conversion": _CONVERSIONS}.get(group, {})
    setting = known.get(name.partition(":")[0] if group == HARDWARE else name, "")
    return setting.strip("]").replace(",", "=").rpartition("=")[2]


def _syntax_problem(text: str) -> Problem | None:
    from hydra.errors import HydraException

    try:
        parse_override(text)
    except HydraException as error:
        why = first_line(error)
        if " input " in why or why.startswith("token"):  # the parser's own words
            why = "expected KEY=VALUE, and KEY=[A,B] for a list; quote other values: KEY='\"...\"'."
        meant = as_list(text)
        if as_json := as_dict(text):
            why, meant = "Hydra takes the keys of a dict without quotes.", as_json
        correction = Correction(typed=text, meant=meant) if meant else None
        return Problem(f"{text!r} is not an override: {why}", correction)
    return None


def _unknown_key(base: ConfigNode, dotted: str) -> Problem | None:
    """Why a dotted key does not exist, naming the nearest one that does."""
    node: Json = base
    path: list[str] = []
    for part in dotted.split("."):
        if not isinstance(node, Mapping):
            return None
        if part not in node:
            where = ".".join(path)
            place = f"{where}." if where else ""
            keys = f"Keys here: {', '.join(f'{place}{key}' for key in node)}."
            if option := _option_with(dotted):
                problem = f"{dotted}: is a key of {option}."
                return Problem(problem, Correction(settings=[option]))
            meant = nearest(part, node) if path else _meant_anywhere(part, node)
            correction = Correction(typed=part, meant=meant) if meant else None
            if not node:
                keys = f"{where} holds no keys yet; + adds one: +{dotted}=..."
                correction = Correction(typed=dotted, meant=f"+{dotted}")
            if meant and not path:
                keys = "All: benchorch run --help."
            hint = f" Did you mean {meant!r}?" if meant else ""
            return Problem(f"{dotted}: unknown key.{hint} {keys}", correction)
        path.append(part)
        node = node[part]
    return None


def _replaces_scalar(base: ConfigNode, override: Override, text: str) -> bool:
    """Whether an override gives a scalar in place of a scalar, which always composes."""
    present = value_at(base, override.key_or_group.split("."))
    scalars = present is not None and is_scalar(present) and is_scalar(override.value())
    return scalars and PLAIN_OVERRIDE.match(text) is not None


def _unknown_inner_key(base: ConfigNode, override: Override, text: str) -> Problem | None:
    """``model.arguments={hidden: 64}``: a key of a dict that its place does not have."""
    value = override.value()
    keys = map(str, value) if isinstance(value, dict) else ()
    found = (_unknown_key(base, f"{override.key_or_group}.{key}") for key in keys)
    problem = next(filter(None, found), None)
    if problem and problem.correction and problem.correction.meant.startswith("+"):
        return Problem(str(problem), Correction(typed=text, meant=f"+{text}"))
    return problem


def _by_last_part(dotted: str) -> Problem | None:
    """``scenario.input_shapes.batch_size``: a key that is called so elsewhere, and only there."""
    last = dotted.rpartition(".")[2]
    found = [key for key in default_keys() if key.rpartition(".")[2] == last and key != dotted]
    if len(found) != 1 or "." not in dotted:
        return None
    problem = f"{dotted}: unknown key. Did you mean {found[0]!r}?"
    return Problem(problem, Correction(typed=dotted, meant=found[0]))


def _option_with(dotted: str) -> str:
    """``scenario=server`` of a key that only this option of a group has; empty for none."""
    group = dotted.partition(".")[0]
    names = options(group) if group in groups() else ()
    found = (one for one in names if dotted in (key.name for key in option_keys(group, one)))
    option = next(found, "")
    return f"{group}={option}" if option else ""


def _meant_anywhere(part: str, root: ConfigNode) -> str:
    """The key that one which is not at the root stands for: ``batch`` is of the workload."""
    inner = {key.rpartition(".")[2]: key for key in reversed(default_keys()) if "." in key}
    begins = [key for name, key in inner.items() if name.split("_")[0] == part]
    known = {**inner, **{name: name for name in root}}
    found = begins[0] if len(begins) == 1 else known.get(nearest(part, known))
    return next((name for name in root if part.removesuffix("s") == name), found or "")
