"""The corrected line for a refused one: made from its problems, and planned before it is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from benchorch.cli.arguments import is_recipe, parse
from benchorch.cli.catalog import COMMANDS, EXAMPLES, command_called
from benchorch.cli.examples import FIRST, filled
from benchorch.cli.mistakes import OWN_WITH_VALUE
from benchorch.config.components import nearest
from benchorch.config.descriptions import default_of, groups, options
from benchorch.config.overrides import key_of
from benchorch.errors import BenchorchError, ConfigError, Correction, NoMachine, Problem, as_problem
from benchorch.models import trust
from benchorch.recorders.location import strike_out
from benchorch.results.compare.load_run import is_run
from benchorch.results.history.collect import is_folder_of_runs
from benchorch.units import SECONDS

_ROUNDS = 6
_RECIPES_TRIED = 3
_SHARED = frozenset({"--json", "--quiet", "-q", "--verbose", "-v", "--yes", "-y", "--here"})
_WITH_VALUE = frozenset({"--output", "-o", "--head", "--working-dir"})

_STATUS = "benchorch status"
_OF_A_TRIAL = {"rerun": "--only {trial}", "logs": "{run} {trial}", "compare": "{run}::{trial}"}
_OF_A_TRIAL |= dict.fromkeys(("export", "reproduce"), "{run}:{trial}")
"""How commands about a run name one of its trials."""

_NUMBER = re.compile(r"[-+]?(\d+(?:\.\d*)?(?:e[-+]?\d+)?) *([a-z%]*)", re.IGNORECASE)

_LIST = re.compile(r"\[[\w.+-]+(?:,[\w.+-]+)+\]")

_LAST = re.compile(r"last(?:~\d{1,3})?")

Line = list[str]


def next_line(words: Sequence[str], error: ConfigError) -> str:
    """The line to type after an error: the corrected one, else an example of the command.

    A line that the error offers is planned, too; what that finds is added to its problems.
    """
    line = _next_line(words, error)
    for word, directory in _runs_by_last(words):
        line = line.replace(shlex.quote(str(directory)), shlex.quote(word))
    return line


def _next_line(words: Sequence[str], error: ConfigError) -> str:
    offered = error.next
    if _is_line(offered) or not (offered.endswith(" --help") or offered in ("", _STATUS)):
        return _carried_out(offered, error)
    if needed := _trust_of(error.problems):  # a person's decision: never planned
        return shlex.join(["benchorch", *words, *needed])
    found = corrected(words, error.problems) or example(words)
    if any(one.key == "model.factory" and one.correction is None for one in error.problems):
        found = found or example(["init"])
    if not found and offered == _STATUS:
        return offered if _runs() else _first()
    if found := found or _without_a_word(words):
        return found
    return _first().replace(" run ", " plan ") if _command_of(words) == "plan" else _first()


def _first() -> str:
    """A run of this folder's newest recipe that can be planned; else of a built-in one."""
    own = sorted(filter(Path.is_file, Path().glob("*.yaml")), key=lambda one: -one.stat().st_mtime)
    known = (str(path) for path in own[:_RECIPES_TRIED] if _error_of([str(path)]) is None)
    return next((shlex.join(["benchorch", "run", name]) for name in known), FIRST)


def _is_line(text: str) -> bool:
    """Whether an error offers a corrected line, which can be wrong itself."""
    return text.startswith("benchorch ") and not (text.endswith(" --help") or text == _STATUS)


def _carried_out(line: str, error: ConfigError) -> str:
    """An offered line, corrected until nothing is wrong with it; its problems are added."""
    for _ in range(_ROUNDS):
        typed = shlex.split(line)[1:]
        found = _error_of(typed) if _is_line(line) else None
        if found is None:
            return line
        error.problems = tuple(dict.fromkeys([*error.problems, *found.problems]))
        mended = corrected(typed, found.problems)
        usual = example(typed) or (_first() if _needs_a_run(typed) else "")
        offered = found.next if _is_line(found.next) or found.next == _STATUS else ""
        line = mended or offered or usual or line
        if mended or line == usual:
            return line
    return line


def _trust_of(problems: Sequence[Problem]) -> list[str]:
    """The options by which a person trusts what problems are about."""
    added = (one.correction.added for one in problems if one.correction)
    return [word for words in added if trust.FLAG in words for word in words]


def _without_a_word(words: Sequence[str]) -> str:
    """The line less the one word without which it can be planned; empty where there is none."""
    for at in reversed(range(len(words))):
        line = [*words[:at], *words[at + 1 :]]
        if {"=", "."} & set("".join(line)) and _error_of(line) is None:
            return shlex.join(["benchorch", *map(strike_out, line)])
    return ""


def corrected(words: Sequence[str], problems: Sequence[str]) -> str:
    """The line without its mistakes; empty where that is not known.

    Mistakes in a recipe's file stay, for they are corrected there. Any other line of a run is
    planned before it is shown, and corrected again where planning finds more.
    """
    line, left = [*words], [*map(as_problem, problems)]
    of_a_file = _command_of(line) != "init"  # whose recipe is not there yet
    for _ in range(_ROUNDS):
        own = [problem for problem in left if not (of_a_file and problem.in_file)]
        mended = _mended(line, own)
        if mended is None or (own and mended == line):
            return ""
        line = mended
        if not line:  # nothing is left of it
            return ""
        left = [*_problems_of(line)] if own else []
        if left and {*filter(is_recipe, line)} - {*words}:  # another file with mistakes is no help
            return ""
        if all(problem.in_file for problem in left):
            return shlex.join(["benchorch", *map(strike_out, line)])
    return ""


def example(words: Sequence[str]) -> str:
    """A correct line of the command that a line names; empty for a run or an unknown command.

    It is about the runs that the line names. Where these cannot be had what the line requests, it
    is the report of them.
    """
    command = _command_of(words)
    if command not in EXAMPLES:
        return ""
    form = EXAMPLES[command]
    named = _named_runs(words)
    options = [word for word in form.split() if word.startswith("--")]
    is_complete = "RUN_A" in form or {*options} <= {word.partition("=")[0] for word in words}
    if "RUN" in form and len(named) >= form.count("RUN") and is_complete:
        report = shlex.join(["benchorch", "report", *(run.partition(":")[0] for run in named)])
        return _STATUS if command == "report" else report
    others = [run for run in _runs() if run not in named]
    runs = [*others[: form.count("RUN") - len(named)], *reversed(named)]
    if len(runs) < form.count("RUN"):  # a run is not compared with itself
        return ""
    line = form.replace("RUN_A", shlex.join(runs[1:2])).replace("RUN", shlex.join(runs[:1]))
    return filled(f"benchorch {line}")


def _named_runs(words: Sequence[str]) -> list[str]:
    """The runs that a line names, each once, with their trials; not what was exported of some."""
    before = ("", *words)
    named = (
        word
        for word, option in zip(words, before, strict=False)
        if word[:1] != "-" and option not in _WITH_VALUE and word != _command_of(words)
    )
    runs = (word for word in named if is_run(word.partition(":")[0]) and not Path(word).is_file())
    return list(dict.fromkeys(runs))


def _command_of(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _runs() -> list[str]:
    """The plan ids of this machine's newest runs."""
    from benchorch.journal.registry import newest_plans

    return newest_plans(20)


def _mended(line: Line, problems: Iterable[Problem]) -> Line | None:
    """The line with each problem answered; None where one is not."""
    for problem in problems:
        answered = _answered(line, problem)
        if answered is None:
            return None
        line = answered
    return line


def _answered(line: Line, problem: Problem) -> Line | None:
    """The line with a problem's correction; without one its key goes back to the default."""
    one = problem.correction
    if one is None or one.allowed:
        allowed = one.allowed if one else ()
        changed = _reordered(line, problem.key) or _crossed(line, problem.key, allowed)
        return changed or _reset(line, problem, allowed)
    if one.run:
        return _with_known_run(line, one.run)
    renamed = _renamed(line, one, problem.key) if one.typed else line
    if renamed is None:
        return None
    for setting in one.settings:
        renamed = _with_setting(renamed, setting)
    added = [*one.added]  # an option with its value, each of which may be there in another place
    known = any(renamed[at : at + len(added)] == added for at in range(len(renamed)))
    return renamed if known else [*renamed, *added]


def _problems_of(line: Line) -> Sequence[Problem]:
    error = _error_of(line)
    return error.problems if error else ()


def _error_of(line: Line) -> ConfigError | None:
    """What planning a run's line finds, or parsing another command's."""
    from benchorch.cli.commands.plan import planned

    words = _without_shared(line)
    if words[:1] and words[0] in ("run", "plan", "submit"):
        if words == ["run"]:
            return ConfigError([Problem("run: names no model.", Correction(added=["model=bert"]))])
        words = words[1:]
    elif not (words and ("=" in words[0] or is_recipe(words[0]) or words[0].startswith("-"))):
        at = line.index(words[0]) if words else 0
        return _usage_of([*line[at:], *line[:at]])
    try:
        with trust.declared(words):
            planned(parse([word for word in words if word not in ("--cheapest", "--check")]))
    except NoMachine:
        return None
    except ConfigError as error:
        return error
    except BenchorchError:
        return None
    return None


def _usage_of(words: Line) -> ConfigError | None:
    """What is wrong with the arguments of a command, which is not carried out."""
    above = click.Context(click.Group("benchorch"), info_name="benchorch")
    try:
        if words and words[0] in COMMANDS:
            made = command_called(words[0]).make_context(words[0], words[1:], parent=above)
            return _without_run(words[0], made.params)
    except ConfigError as error:
        return error
    except click.exceptions.Exit:
        return None
    return None


def _without_run(command: str, given: Mapping[str, Any]) -> ConfigError | None:
    """That a command about a run names none that exists."""
    values = given.get("run"), *given.get("runs", ())
    separator = ":" if command == "export" else "::"
    named = [str(one) for one in values if isinstance(one, str)]
    missing = [one for one in named if not is_run(one.partition(separator)[0])]
    if command == "history":
        missing = [one for one in missing if not is_folder_of_runs(one)]
    unknown = [Problem(f"{one!r} is not a run.", Correction(run=one)) for one in missing]
    return ConfigError(unknown) if unknown and _needs_a_run([command]) else None


def _needs_a_run(words: Sequence[str]) -> bool:
    """Whether a line's command is about a run."""
    return "RUN" in EXAMPLES.get(_command_of(words), "")


def _without_shared(line: Line) -> Line:
    """The words without the options of every command."""
    words = [word for word in line if word not in _SHARED]
    at = next((n for n, word in enumerate(words) if word in _WITH_VALUE), None)
    return words if at is None else words[:at] + words[at + 2 :]


def _with_known_run(line: Line, unknown: str) -> Line | None:
    """A run's name that does not exist, replaced by the nearest one or the newest."""
    named = (n for n, word in enumerate(line) if unknown in (word, word.partition("=")[2]))
    at = next(named, None)
    if at is None:
        return None
    if unknown in COMMANDS and at > 0:
        return [unknown, *line[at + 1 :]]
    typed = [*line, *_plans_by_last(line)]
    runs = [run for run in _runs() if not any(run in word for word in typed)]
    if line[0] in _OF_A_TRIAL and runs and unknown in options("conversion"):
        form = _OF_A_TRIAL[line[0]]
        so_called = {name: form.format(run=runs[0], trial=name) for name in options("conversion")}
        parts = [so_called[word].split() if word in so_called else [word] for word in line[at:]]
        return [*line[:at], *(word for part in parts for word in part)]
    meant = nearest(unknown, runs) or (runs[0] if runs and "cancel" not in line else "")
    if not meant:
        return None
    mended = [*line[:at], _replaced(line[at], unknown, meant), *line[at + 1 :]]
    if line[0] != "compare":
        return mended
    others = (n for n in range(1, len(line)) if n != at and line[n][:1] != "-")
    unknown_too = [n for n in others if not is_run(line[n])]
    if unknown_too and len(runs) < 2:  # a run is not compared with itself
        return None
    return [runs[1] if n in unknown_too else word for n, word in enumerate(mended)]


def _runs_by_last(line: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """The directories of the runs that ``last`` and ``last~1`` stand for in a line."""
    from benchorch.journal.registry import find_invocation

    for word in filter(_LAST.fullmatch, line):
        with suppress(ConfigError):
            yield word, find_invocation(word, _command_of(line))


def _plans_by_last(line: Line) -> Iterator[str]:
    """The plan ids of those runs."""
    from benchorch.journal.run_directory import read_plan

    for _, directory in _runs_by_last(line):
        with suppress(ConfigError):
            yield read_plan(directory).plan_id


def _renamed(line: Line, one: Correction, key: str) -> Line | None:
    """The word that has the wrong name, with the right one or without the word."""
    names = (one.typed, one.typed.rpartition(".")[2])
    at = next((n for name in names for n in _places_of(line, name, key)), None)
    if at is None:
        return None
    name = next(name for name in names if at in _places_of(line, name, key))
    meant = one.meant if name == one.typed else one.meant.rpartition(".")[2]
    if not meant:  # an option goes with its value
        is_value = line[at] == name and at > 0 and line[at - 1] in {*OWN_WITH_VALUE, key}
        return [*line[: at - is_value], *line[at + 1 :]]
    return [*line[:at], _replaced(line[at], name, meant), *line[at + 1 :]]


def _places_of(line: Line, name: str, key: str) -> list[int]:
    """Places of the words that hold a name: the word that sets the key first, then whole names."""
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    found = [n for n, word in enumerate(line) if name == word or pattern.search(word)]
    whole = [n for n in found if name in (line[n], *line[n].lstrip("+~").split("=", 1))]
    is_option = key.startswith("--")
    of_key = [n for n in found if n == _at(line, key) or (is_option and line[n - 1] == key)]
    return [*of_key, *whole, *found]


def _with_setting(line: Line, setting: str) -> Line:
    """The line with a setting, in place of the one of its key; a mapping's parts stay."""
    at = _at(line, key_of(setting))
    if at is not None:
        return [*line[:at], setting, *line[at + 1 :]]
    key = key_of(setting)
    has_parts = key not in groups() and any(key_of(w).startswith(f"{key}.") for w in line)
    return line if has_parts else [*line, setting]


def _reordered(line: Line, key: str) -> Line | None:
    """The line with a chain of conversions the other way round; None where that is not wrong."""
    at = _at(line, "conversion") if key.startswith("conversion.") else None
    if at is None or "+" not in line[at] or _at(line, key) is not None:
        return None
    turned = re.sub(r"[\w.-]+(?:\+[\w.-]+)+", _reversed, line[at].partition("=")[2])
    return [*line[:at], f"conversion={turned}", *line[at + 1 :]]


def _crossed(line: Line, key: str, allowed: Sequence[str]) -> Line | None:
    """The line with a list for a key of single trials as values to cross; None for another word."""
    from benchorch.run.planner import SESSION_KEYS

    at = _at(line, key)
    if at is None or allowed or "." not in key or key.partition(".")[0] in SESSION_KEYS:
        return None
    name, _, value = line[at].partition("=")
    if not _LIST.fullmatch(value):
        return None
    flag = [] if {"-m", "--multirun"} & set(line) else ["-m"]
    return [*line[:at], f"{name}={value.strip('[]')}", *line[at + 1 :], *flag]


def _reversed(chain: re.Match[str]) -> str:
    return "+".join(reversed(chain[0].split("+")))


def _reset(line: Line, problem: Problem, allowed: Sequence[str]) -> Line | None:
    """The line with an allowed value of a key: the nearest one, else the default."""
    key = problem.key
    at = _at(line, key)
    if at is None:
        return None
    name, sign, value = line[at].rpartition("=") if key[:2] == "--" else line[at].partition("=")
    if name == "model" and ":" in value:  # a module of one's own
        own = ["model=factory", f"model.factory={value.removeprefix('./')}"]
        return [*line[:at], *own, *line[at + 1 :]]
    default = _default(line, key_of(name))
    usual = default if default in allowed or not allowed else allowed[0]
    number = "" if allowed else _number_in(name, value)
    meant = _listed(name, value) or nearest(value, allowed, cutoff=0.5) or number or usual
    is_limit = "a number" in problem or _NUMBER.fullmatch(value)
    if not meant and is_limit:  # without a value it would be none
        meant = "1"
    answer = [f"{name}{sign}{meant}"] if meant and meant != value else []
    return [*line[: at - (key[:2] == "--" and not answer)], *answer, *line[at + 1 :]]


def _number_in(key: str, value: str) -> str:
    """The number that a value such as ``2min``, ``8GB``, ``5%`` or ``$5`` holds; empty for none."""
    found = _NUMBER.fullmatch(value.strip("'\"$€ "))
    if found is None or not float(found[1]):
        return ""
    unit, number = found[2].lower(), float(found[1])
    own = SECONDS.get(re.split("[._]", key)[-1])
    if unit == "%":
        number /= 100
    elif own and unit in SECONDS:
        number *= SECONDS[unit] / own
    elif unit[:1] == "m" and key.endswith("_gib"):
        number /= 1024
    text = f"{number:g}"
    return text if text != value else ""


def _listed(key: str, value: str) -> str:
    """The list that a range such as ``1..8`` or ``1;8`` of a size stands for; empty for none."""
    numbers = re.findall(r"\d+", value)
    is_range = key.startswith("workload.") and re.fullmatch(r"\d+(?:\W+\d+)+", value)
    return f"[{','.join(numbers)}]" if is_range else ""


def _default(line: Line, key: str) -> str:
    """A key's default where it is a plain value, of the option that the line chooses."""
    if key in groups():
        return groups()[key]
    at = _at(line, key.partition(".")[0])
    default = default_of(key, line[at].partition("=")[2] if at is not None else "")
    is_plain = re.fullmatch(r"[\w.+-]+", default) and default != "null"
    return default if is_plain else ""


def _at(line: Line, key: str) -> int | None:
    """The place of the word that sets a key, or of an option's value."""
    from benchorch.config.renamed_keys import current_name

    if key.startswith("--"):
        return line.index(key) + 1 if key in line[:-1] else None
    settings = ((n, word) for n, word in enumerate(line) if "=" in word or word.startswith("~"))
    places = (n for n, word in settings if key in (key_of(word), key_of(current_name(word))))
    return next(places, None) if key else None


def _replaced(word: str, typed: str, meant: str) -> str:
    """The word with a name replaced."""
    key, sign, value = word.partition("=")
    if word == typed:
        return meant
    if sign and typed == key.lstrip("+~"):
        return f"{meant}={value}"
    return re.sub(rf"(?<!\w){re.escape(typed)}(?!\w)", lambda _: meant, word, count=1)
