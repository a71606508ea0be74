"""The corrected line for a refused one: made from its problems, and planned before it is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import click

from benchorch.cli.catalog import COMMANDS, EXAMPLES, command_called
from benchorch.cli.mistakes import as_list
from benchorch.config.components import nearest
from benchorch.config.descriptions import default_keys, groups, option_keys, root_keys
from benchorch.config.overrides import key_of
from benchorch.errors import BenchorchError, ConfigError, NoMachine
from benchorch.recorders.location import strike_out
from benchorch.results.compare.load_run import is_run

_ROUNDS = 6
_CROSSED = "are crossed with -m"
_IN_A_FILE = re.compile(r"\S+\.ya?ml:(?:\d+:\d+:| is (?:empty|not YAML))|.* has a syntax error on")
_QUOTED = re.compile(r"'([^']+)'")
_SUGGESTED = re.compile(r" [Dd]id you mean '([^']+)'")
_UNKNOWN_RUN = re.compile(r"'([^']+)' is neither a run's")
_KEY = re.compile(r"'?[+~]*([\w-]+(?:[./][\w-]+)*)(?:=[^:]*?)?'?: ?(?:(\w+)\b)?")
_LIST = re.compile(
    r"(?:[Oo]ne of|It has:|(?!All)[A-Z][a-z]+:) ('?[\w+-]+'?(?:(?:,| or) '?[\w+-]+'?)*)"
)
_TRUST = re.compile(r"add (--trust \S+\w)")
_BOUND = re.compile(r"(?:above|at least|from|between) (\d+)")
_SHARED = frozenset({"--json", "--quiet", "-q", "--verbose", "-v", "--yes", "-y", "--here"})
_WITH_VALUE = frozenset({"--output", "-o", "--head", "--working-dir"})

Line = list[str]


def next_line(words: Sequence[str], error: ConfigError) -> str:
    """The line to type after an error: the corrected one, else an example of the command.

    A line that the error offers is planned, too; what that finds is added to its problems.
    """
    offered = error.next
    if offered and not (offered.endswith(" --help") or offered == "benchorch status"):
        typed = shlex.split(offered)[1:]
        found = _problems_of(typed) if offered.startswith("benchorch ") else ()
        error.problems = tuple(dict.fromkeys([*error.problems, *found]))
        return (corrected(typed, found) or example(typed) if found else "") or offered
    if needed := _TRUST.findall(" ".join(error.problems)):  # a person's decision: never planned
        return shlex.join(["benchorch", *words, *(word for one in needed for word in one.split())])
    found = corrected(words, error.problems)
    if not found and offered.endswith("status"):
        return offered if _runs() else "benchorch run recipes/tiny.yaml"
    return found or example(words) or offered or _help(error.problems)


def _help(problems: Sequence[str]) -> str:
    """The help of the key that a problem is about, or of a run."""
    keys = (found[1].replace("/", ".") for found in map(_KEY.match, problems) if found)
    known = next((key for key in keys if key in default_keys()), "")
    if any(problem.startswith("model.factory: ") for problem in problems):
        return f"benchorch {EXAMPLES['init']}"
    return f"benchorch help {known}" if known else "benchorch run --help"


def corrected(words: Sequence[str], problems: Sequence[str]) -> str:
    """The line without its mistakes; empty where that is not known.

    Mistakes in a recipe's file stay, for they are corrected there. Any other line of a run is
    planned before it is shown, and corrected again where planning finds more.
    """
    line = [*words]
    if _command_of(line) == "init":  # whose recipe is not there yet
        problems = [_IN_A_FILE.sub("", problem).strip() for problem in problems]
    for _ in range(_ROUNDS):
        own = [problem for problem in problems if not _IN_A_FILE.match(problem)]
        mended = _mended(line, own)
        if mended is None or (own and mended == line):
            return ""
        line = mended
        problems = _problems_of(line) if own else ()
        if all(map(_IN_A_FILE.match, problems)):
            return shlex.join(["benchorch", *map(strike_out, line)])
    return ""


def example(words: Sequence[str]) -> str:
    """A correct line of the command that a line names; empty for a run or an unknown command."""
    command = _command_of(words)
    runs = _runs()
    if command not in EXAMPLES or ("RUN" in EXAMPLES[command] and not runs):
        return ""
    older = runs[1] if len(runs) > 1 else runs[:1] and runs[0]
    line = EXAMPLES[command]
    return f"benchorch {line.replace('RUN_A', older or '').replace('RUN', runs[0] if runs else '')}"


def _command_of(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def _runs() -> list[str]:
    """The plan ids of this machine's newest runs."""
    from benchorch.journal.registry import newest_plans

    return newest_plans(20)


def _mended(line: Line, problems: Iterable[str]) -> Line | None:
    """The line with each problem answered; None where one is not."""
    for problem in problems:
        answers = (answer(line, problem) for answer in _ANSWERS)
        found = next((answer for answer in answers if answer is not None), None)
        if found is None:
            return None
        line = found
    return line


def _problems_of(line: Line) -> Sequence[str]:
    """The problems that planning a run's line finds, or parsing another command's."""
    from benchorch.cli.arguments import is_recipe, parse
    from benchorch.cli.commands.plan import planned
    from benchorch.models import trust

    words = _without_shared(line)
    if words[:1] and words[0] in ("run", "plan", "submit"):
        words = words[1:]
    elif not (words and ("=" in words[0] or is_recipe(words[0]) or words[0] == "-m")):
        return _usage_of(words)
    try:
        with trust.declared(words):
            planned(parse([word for word in words if word not in ("--cheapest", "--check")]))
    except NoMachine:
        return ()
    except ConfigError as error:
        return error.problems
    except BenchorchError:
        return ()
    return ()


def _usage_of(words: Line) -> Sequence[str]:
    """The problems of the arguments of a command, which is not carried out."""
    above = click.Context(click.Group("benchorch"), info_name="benchorch")
    try:
        if words and words[0] in COMMANDS:
            command_called(words[0]).make_context(words[0], words[1:], parent=above)
    except ConfigError as error:
        return error.problems
    except click.exceptions.Exit:
        return ()
    return ()


def _without_shared(line: Line) -> Line:
    """The words without the options of every command."""
    words = [word for word in line if word not in _SHARED]
    at = next((n for n, word in enumerate(words) if word in _WITH_VALUE), None)
    return words if at is None else words[:at] + words[at + 2 :]


def _crossed(line: Line, problem: str) -> Line | None:
    """Values that are parted by commas, crossed."""
    if _CROSSED not in problem:
        return None
    return line if "-m" in line else [*line, "-m"]


def _known_run(line: Line, problem: str) -> Line | None:
    """A run's name that does not exist, replaced by the nearest one or the newest."""
    unknown = _UNKNOWN_RUN.search(problem)
    if not unknown:
        return None
    named = (n for n, word in enumerate(line) if unknown[1] in (word, word.partition("=")[2]))
    at = next(named, None)
    if at is None:
        return None
    if unknown[1] in COMMANDS and at > 0:
        return [unknown[1], *line[at + 1 :]]
    runs = [run for run in _runs() if not any(run in word for word in line)]
    meant = nearest(unknown[1], runs) or (runs[0] if runs and "cancel" not in line else "")
    mended = _replaced(line, at, unknown[1], meant) if meant else None
    if mended is None or line[0] != "compare":
        return mended
    others = [n for n in range(1, len(line)) if n != at and line[n][:1] != "-"]
    older = runs[1] if len(runs) > 1 else meant
    return [older if n in others and not is_run(word) else word for n, word in enumerate(mended)]


def _missing(line: Line, problem: str) -> Line | None:
    """A required key, set to its example."""
    _, sign, setting = problem.partition(": is missing; set ")
    if not sign or setting.endswith("..."):
        return None
    key = key_of(setting)
    typed = any(key_of(word) == key or key_of(word).startswith(f"{key}.") for word in line)
    return line if typed else [*line, *shlex.split(setting)]


def _once(line: Line, problem: str) -> Line | None:
    """A line of two recipes without the second."""
    name, sign, _ = problem.partition(": one recipe at a time")
    if not sign or name not in line:
        return None
    at = max(n for n, word in enumerate(line) if word == name)
    return [*line[:at], *line[at + 1 :]]


def _added(line: Line, problem: str) -> Line | None:
    """``+`` before a key that does not exist yet, or no ``+`` before one that does."""
    adds = re.search(r"\+ adds one: \+([\w.]+)=", problem)
    exists = re.search(r"An item is already at '([\w.]+)'", problem)
    found = adds or exists
    at = _at(line, found[1]) if found else None
    if at is None:
        return None
    bare = line[at].lstrip("+~")
    return [*line[:at], f"+{bare}" if adds else bare, *line[at + 1 :]]


def _suggested(line: Line, problem: str) -> Line | None:
    """The suggested name in place of the one that was typed."""
    meant = _SUGGESTED.search(problem)
    if not meant or "no module" in problem:
        return None
    said = problem[: meant.start()]
    typed = [*_QUOTED.findall(said)[::-1], *(found[1] for found in [_KEY.match(said)] if found)]
    typed += [name.rpartition(".")[2] for name in typed]
    for name in typed:
        pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        exact = [n for n, word in enumerate(line) if name in (word, *word.split("=", 1))]
        at = next(iter([*exact, *(n for n, word in enumerate(line) if pattern.search(word))]), None)
        if at is not None:
            return _replaced(line, at, name, meant[1])
    return None


def _callable(line: Line, problem: str) -> Line | None:
    """A callable that the named file or module has, or one of a file in the current folder."""
    key = problem.partition(": ")[0]
    at = line.index("--module") + 1 if "--module" in line[:-1] else _at(line, key)
    if at is None or not (" has no '" in problem or "there is no module" in problem):
        return None
    setting, reference = line[at].rpartition("=")[::2]
    before = f"{setting}=" if setting else ""
    file, _, name = reference.rpartition(":")
    if "there is no module" in problem:
        files = re.search(r"current folder: (\w[\w.-]*\.py)", problem)
        return [*line[:at], f"{before}{files[1]}", *line[at + 1 :]] if files else None
    known = _allowed(problem)
    meant = nearest(name, known) or (known[0] if known else "")
    return [*line[:at], f"{before}{file}:{meant}", *line[at + 1 :]] if meant else None


def _listed(line: Line, problem: str) -> Line | None:
    """A list as Hydra takes it."""
    typed = _QUOTED.match(problem)
    if not typed or "is not an override" not in problem or typed[1] not in line:
        return None
    meant = as_list(typed[1])
    return [meant if word == typed[1] else word for word in line] if meant else None


def _given(line: Line, problem: str) -> Line | None:
    """The setting or the address that a problem asks for."""
    setting = re.search(r"(?:Give|[Ss]et|[Ww]rite|use) ([\w.]+=[\w./:-]+\w)", problem)
    addresses = re.findall(r"(?:write|expected|or) (\w+:///?[\w./:-]+\w)", problem)
    typed = _QUOTED.search(problem)
    of_typed = [one for one in addresses if typed and typed[1] in one]
    address = next(iter([*of_typed, *addresses]), "")
    found = _KEY.match(problem)
    if setting:
        meant = setting[1]
    elif address and found:
        names = (f"{found[1]}.{found[2]}", found[1])
        key = next((name for name in names if _at(line, name) is not None), "")
        meant = f"{key}={address}" if key else ""
    else:
        return None
    at = _at(line, key_of(meant)) if meant else None
    return [*line[:at], meant, *line[at + 1 :]] if at is not None else [*line, meant]


def _switched_off(line: Line, problem: str) -> Line | None:
    """``recorder=none`` for ``~recorder``."""
    off = re.search(r"To switch it off: (\S+?)\.?$", problem)
    at = _at(line, key_of(off[1])) if off else None
    return [*line[:at], off[1], *line[at + 1 :]] if off and at is not None else None


def _valued(line: Line, problem: str) -> Line | None:
    """A value that is allowed: of a list the nearest, else the default, else the lower bound."""
    highest = re.search(r"above the (\d+) .*; lower ([\w.]+\w)", problem)
    if highest and (at := _at(line, highest[2])) is not None:
        return [*line[:at], f"{highest[2]}={highest[1]}", *line[at + 1 :]]
    found = _KEY.match(problem)
    names = [f"{found[1]}.{found[2]}", found[1]] if found else []
    at = next((at for at in (_at(line, name) for name in names) if at is not None), None)
    if at is None:
        return None
    key, _, value = line[at].partition("=")
    allowed = _allowed(problem)
    default = _default(line, key_of(key))
    usual = default if default in allowed or not allowed else allowed[0]
    meant = nearest(value, allowed, cutoff=0.5) or usual
    bound = _BOUND.search(problem)
    if not meant and (bound or "number" in problem):
        meant = str(max(1, int(bound[1]) if bound else 1))
    return [*line[:at], *([f"{key}={meant}"] if meant and meant != value else []), *line[at + 1 :]]


_ANSWERS = (
    _crossed, _known_run, _once, _missing, _added, _callable, _suggested, _listed, _given,
    _switched_off, _valued,
)  # fmt: skip


def _allowed(problem: str) -> list[str]:
    """The values that a problem lists."""
    found = _LIST.search(problem)
    return [one.strip("' ") for one in re.split(",| or ", found[1])] if found else []


def _default(line: Line, key: str) -> str:
    """A key's default where it is a plain value, of the option that the line chooses."""
    if key in groups():
        return groups()[key]
    group = key.partition(".")[0]
    at = _at(line, group)
    option = line[at].partition("=")[2] if at is not None else groups().get(group, "")
    for known in (*root_keys(), *option_keys(group, option)):
        if known.name == key and re.fullmatch(r"[\w.+-]+", known.default):
            return "" if known.default == "null" else known.default
    return ""


def _at(line: Line, key: str) -> int | None:
    """The place of the word that sets a key."""
    from benchorch.config.renamed_keys import current_name

    settings = ((n, word) for n, word in enumerate(line) if "=" in word or word.startswith("~"))
    places = (n for n, word in settings if key in (key_of(word), key_of(current_name(word))))
    return next(places, None)


def _replaced(line: Line, at: int, typed: str, meant: str) -> Line:
    """The line with a name replaced at one place."""
    key, sign, value = line[at].partition("=")
    if sign and typed == key.lstrip("+~"):
        word = f"{meant}={value}"
    else:
        word = re.sub(rf"(?<!\w){re.escape(typed)}(?!\w)", lambda _: meant, line[at], count=1)
    return [*line[:at], word, *line[at + 1 :]]
