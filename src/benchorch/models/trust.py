"""Allow-list of code that may run, checked before any user code is imported.

What runs besides benchorch itself: model classes of installed packages; what the command line names
by a reference or by ``--trust``, or the user's own settings by ``trust:``; what lies in the user's
own git work tree beside a recipe of that tree. Nothing else does: a recipe, a plan, a checkpoint or
a cache entry never widens the list. Requests go to an address by the same rule. A trial's process
is given the references that passed, and asks for no other reason. Where neither has been said, the
caller is Python code, whose own choice of functions is the user's.
"""

from __future__ import annotations

import json
import os
import re
import site
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import final

from benchorch.config.environment_references import withheld
from benchorch.config.user_settings import settings_path, user_settings
from benchorch.domain.codec import leaves
from benchorch.domain.session import Session
from benchorch.domain.trial import Plan, Trial
from benchorch.errors import ConfigError, Correction, Problem
from benchorch.files import expanded
from benchorch.formatting import shell_word
from benchorch.models.source import module_place
from benchorch.models.start_folder import from_start

FLAG = "--trust"
VARIABLE = "BENCHORCH_TRUST"
"""Tells a trial's process what it may import, and from where."""

IN_FILE = re.compile(r"(.+\.py):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
PICKLES = (".joblib", ".pkl", ".pickle")
"""Suffixes of files that run code when they are loaded."""

_FILES = (".py", *PICKLES)
_ADDRESSES = ("http://", "https://")
_CONFIG_DIRECTORY = ("--config-dir", "-cd")
_CODE = ("model", "parity")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """Trusted code and addresses.

    Attributes:
        everything_of_the_users: whether any code that is not installed may run.
        words: of the command line; a reference in one of them is named by the user.
        paths: files, and folders with what is below them.
        references: to be run whatever they are.
        recipes: of the command line, with folders of configuration.
        foreign: those of them that are not trusted.
    """

    everything_of_the_users: bool = False
    words: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()
    references: frozenset[str] = frozenset()
    recipes: tuple[Path, ...] = ()
    foreign: tuple[Path, ...] = ()

    def names(self, reference: str) -> bool:
        """Whether the command line holds the reference as a whole."""
        whole = rf"(?<![\w./:]){re.escape(reference)}(?![\w.:])"
        return any(
            word == reference or (_sets(word, reference) and re.search(whole, word))
            for word in self.words
        )

    def holds(self, place: Path) -> bool:
        """Whether a file is at or below one of the paths, after following links."""
        return any(place.is_relative_to(path) for path in self.paths)


def _sets(word: str, unless: str = "") -> bool:
    """Whether a word sets a key to a value of the user's; a stranger chose the name of a file."""
    _, sign, value = word.partition("=")
    is_name = os.path.lexists(word) or (value != unless and os.path.lexists(value))
    return bool(sign) and not is_name


_policy = _Policy(everything_of_the_users=True)
_looked_in: set[str] = set()
_NONE = Problem("")


@contextmanager
def declared(arguments: Sequence[str]) -> Iterator[None]:
    """Trust for one command what its line names; ConfigError for a path that does not exist."""
    global _policy
    before = _policy
    words, named = split(arguments)
    always = user_settings().trust
    references = {
        word for word in (*named, *always) if REFERENCE.fullmatch(word) or _is_address(word)
    }
    places = {word: expanded(word) for word in named if word not in references}
    missing = [
        Problem(f"{FLAG}: there is no {word!r}.", Correction(typed=_option_of(word)))
        for word, place in places.items()
        if not os.path.exists(place)  # noqa: PTH110 - Path.exists raises for long names
    ]
    if missing:
        raise ConfigError(missing)
    paths = [place.resolve() for place in places.values()]
    recipes = _recipes(words)
    tree = _own_work_tree(recipes)
    _policy = _Policy(
        words=tuple(words),
        paths=(*paths, *_settled(always, references), *([tree] if tree else [])),
        references=frozenset(references),
    )
    foreign = [path for path in recipes if not (_policy.holds(path) or is_installed(path))]
    _policy = replace(_policy, recipes=tuple(recipes), foreign=tuple(foreign))
    try:
        with withheld(_withholds):
            yield
    finally:
        _policy = before


def _option_of(word: str) -> str:
    """What to leave out of a line: the option alone where its value is a setting of the run."""
    return FLAG if "=" in word else word


def _settled(always: Sequence[str], references: Collection[str]) -> list[Path]:
    """The paths of the user's settings; one that is not there now trusts nothing.

    Raises:
        ConfigError: a path that would mean another folder in every folder.
    """
    paths = [expanded(word) for word in always if word not in references]
    problems = [
        f"{settings_path()}: trust: {str(path)!r} must be an absolute path, begin with ~, or be "
        "package.module:callable."
        for path in paths
        if not path.is_absolute()
    ]
    if problems:
        raise ConfigError(problems)
    return [path.resolve() for path in paths]


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments without ``--trust``, and what it names."""
    words: list[str] = []
    named: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word == FLAG or word.startswith(f"{FLAG}="):
            value = word.partition("=")[2] or next(rest, "")
            if not value:
                raise ConfigError([f"{FLAG}: needs a file, a folder or package.module:callable."])
            named.append(value)
        else:
            words.append(word)
    return words, named


def grant(*references: str) -> None:
    """Trust references that the user has named in another way, until the command ends."""
    global _policy
    _policy = replace(_policy, references=_policy.references | set(references))


def trusts(path: Path) -> bool:
    """Whether the command line trusts everything below a path."""
    return _policy.holds(path.resolve())


def is_users_own(script: Path) -> bool:
    """Whether a script is trusted besides being named: by its path, or in the user's work tree."""
    place = script.resolve()
    return _policy.everything_of_the_users or _policy.holds(place) or _in_own_tree(place)


def _in_own_tree(place: Path) -> bool:
    return place.exists() and _own_work_tree([place]) is not None


def refusal(reference: str) -> Problem:
    """Why what a reference or a script's path names may not run; empty where it may.

    Of an address, why it may be sent no requests. An installed package's is let through to
    `may_call`, which looks at what it is.
    """
    if reference in _policy.references:
        return _NONE
    if _is_address(reference):
        return _address_refusal(reference)
    place = _place(reference)
    if place is not None and is_installed(place):
        return _NONE
    if _policy.everything_of_the_users or _policy.names(reference):
        return _NONE
    if place is not None and _policy.holds(place):
        return _NONE
    where = place or reference.rpartition(":")[0] or reference
    return _until_trusted(
        f"{where} is code that the command line does not name and that is not in your own git "
        "work tree with the recipe; if you trust it",
        where,
    )


def _address_refusal(url: str) -> Problem:
    own = bool(_policy.recipes) and not _policy.foreign
    if _policy.everything_of_the_users or own or _policy.names(url):
        return _NONE
    return _until_trusted(
        f"{url} is an address that neither the command line nor a recipe of your own git work tree "
        "names; if requests may go there",
        url,
    )


def _until_trusted(text: str, place: object) -> Problem:
    """A refusal that ends once a person trusts a place."""
    return Problem(f"{text}, add {FLAG} {shell_word(place)}", Correction(added=(FLAG, str(place))))


def has_foreign_recipe() -> bool:
    """Whether a recipe of the command line, or its folder of configuration, is not the user's."""
    return bool(_policy.foreign)


def choice_refusal(value: str) -> Problem:
    """Why a recipe may not choose this place or program; empty where it or the user may."""
    typed = {word.partition("=")[2].strip("'\"") for word in _policy.words}
    if not _policy.foreign or value in typed or value in _policy.references:
        return _NONE
    return _of_others(f"{value!r} is not for a recipe of others to choose")


def _of_others(what: str) -> Problem:
    path = _policy.foreign[0]
    why = f"{what}: {path} is not in your own git work tree; if you trust it"
    return _until_trusted(why, path)


def _withholds(variable: str) -> Problem:
    if not _policy.foreign or any(
        f"oc.env:{variable}" in word and _sets(word) for word in _policy.words
    ):
        return _NONE
    return _of_others(f"a recipe of others may not read the variable {variable}")


def may_call(found: object, reference: str) -> str:
    """Why an imported callable may not be called; empty where it may.

    A file of the user's may only lead to what is defined in files of the user's, or to a class of
    modules: whatever it imports would be open otherwise.
    """
    while isinstance(found, partial):
        found = found.func
    name = getattr(found, "__module__", None) or ""
    if name.partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
        return "it is Python's own"
    if _is_module_class(found):
        return ""
    source = _place(reference)
    named_itself = source is not None and is_installed(source)
    if named_itself and reference in _policy.references:
        return ""
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is not None and not is_installed(Path(file).resolve()):
        return ""
    return _of_a_package(reference, named_itself=named_itself)


def definition_refusal(reference: str, file: Path) -> Problem:
    """Why what is no class of modules may not be called, by its file; empty where it may."""
    place = _place(reference)
    named_itself = place is not None and is_installed(place)
    if not is_installed(file.resolve()) or (named_itself and reference in _policy.references):
        return _NONE
    return _of_a_package(reference, named_itself=named_itself)


def _of_a_package(reference: str, *, named_itself: bool) -> Problem:
    why = "it is an installed package's and no subclass of torch.nn.Module; to call it"
    if named_itself:
        return _until_trusted(why, reference)
    return Problem(f"{why}, call it in a function of your own")


def _is_module_class(found: object) -> bool:
    torch = sys.modules.get("torch")  # whatever made a subclass of its class has imported it
    return torch is not None and isinstance(found, type) and issubclass(found, torch.nn.Module)


def is_installed(place: Path) -> bool:
    """Whether a file came with Python, with a package or with benchorch."""
    return any(place.is_relative_to(folder) for folder in _installation())


@cache
def _installation() -> tuple[Path, ...]:
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    named = [sysconfig.get_path(kind) for kind in kinds]
    named += [*site.getsitepackages(), site.getusersitepackages()]
    # An interpreter may have packages of others by a path in a file of its own.
    named += [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    return (*{Path(path).resolve() for path in named if path}, Path(__file__).resolve().parents[1])


def _place(reference: str) -> Path | None:
    """The file that a reference or a script's path leads to, links followed; imports nothing."""
    if reference.endswith(_FILES):
        return from_start(reference).resolve()
    name = reference.rpartition(":")[0]
    if IN_FILE.fullmatch(reference):
        return from_start(name).resolve()
    place = module_place(name) if REFERENCE.fullmatch(reference) else None
    return place.resolve() if place else None


def session_of(plan: Plan, directory: Path) -> Session:
    """A plan's session, with those references of its trials that passed."""
    passed = [text for text in references_of(plan) if _is_users(text) and not refusal(text)]
    return replace(Session.of(plan, directory), trusted=tuple(passed))


def _is_users(reference: str) -> bool:
    """Whether a trial's process needs leave for it: installed code is judged by what it is."""
    place = _place(reference)
    return reference in _policy.references or place is None or not is_installed(place)


def references_of(plan: Plan) -> list[str]:
    """References in a plan's trials: dotted names, paths to code and addresses."""
    return [
        text
        for text in _texts(plan.trials)
        if text.endswith(_FILES) or is_reference(text) or _is_address(text)
    ]


def own_files(trials: Iterable[Trial]) -> Mapping[str, Path]:
    """The files of the user that trials name or refer to, by that text."""
    places = {
        text: _place(text) if is_reference(text) else Path(text)
        for text in _texts(trials)
        if "\0" not in text and (is_reference(text) or "/" in text or Path(text).suffix)
    }
    return {
        text: place
        for text, place in places.items()
        if place is not None and os.path.isfile(place) and not is_installed(place.resolve())  # noqa: PTH113 - Path.is_file raises for long names
    }


def is_reference(text: str) -> bool:
    """Whether a text has the form of ``module:name`` or ``file.py:name``."""
    return bool(REFERENCE.fullmatch(text) or IN_FILE.fullmatch(text))


def _is_address(text: str) -> bool:
    return text.lower().startswith(_ADDRESSES)


def _texts(trials: Iterable[Trial]) -> Iterable[str]:
    """What trials name, each once."""
    nodes = (trial.spec.get(key) for trial in trials for key in _CODE)
    found = (text for node in nodes for _, text in leaves(node) if isinstance(text, str))
    return dict.fromkeys(found)


def variables(session: Session) -> dict[str, str]:
    """Environment variables with the policy for a trial's process; `obey` reads them."""
    policy = {"references": list(session.trusted), "paths": list(session.search_path)}
    return {VARIABLE: json.dumps(policy)}


def obey() -> None:
    """Trust in this process what its parent has let pass, and nothing else.

    The user's folders come last where modules are looked for, so that a file of theirs never takes
    the place of a package; and only where some code of theirs is to run.
    """
    global _policy
    policy = json.loads(os.environ.pop(VARIABLE, "{}"))
    _policy = _Policy(references=frozenset(policy.get("references", ())))
    has_code = not all(map(_is_address, _policy.references))
    look_in(policy.get("paths", ()) if has_code else ())


def look_in(paths: Sequence[str]) -> None:
    """Look for modules in these folders too, after all others."""
    new = [path for path in paths if path not in sys.path]
    sys.path += new
    _looked_in.update(new)


def look_beside(file: Path) -> None:
    """Look for modules beside a file of the user's too, before the folders that `look_in` added.

    Folders of ``PYTHONPATH`` stay first: before them, a file of the user's could hide a package.
    """
    folder = str(file.parent)
    at = next((n for n, path in enumerate(sys.path) if path in _looked_in), len(sys.path))
    if folder not in sys.path[: at + 1]:
        sys.path.insert(at, folder)
        _looked_in.add(folder)


def _recipes(words: Sequence[str]) -> list[Path]:
    """The recipes and the folders of configuration that a command line names."""
    found: list[Path] = []
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, sign, value = word.partition("=")
        if name in _CONFIG_DIRECTORY:
            found.append(Path(value if sign else following))
        elif word.endswith((".yaml", ".yml")) and not sign:
            found.append(Path(word))
    return [path.resolve() for path in found if os.path.exists(path)]  # noqa: PTH110 - Path.exists raises for long names


def _own_work_tree(recipes: Sequence[Path]) -> Path | None:
    """The git work tree of the current folder, if it and the recipes in it are the user's.

    A home that is one is none: what was downloaded lies there too.
    """
    here = Path.cwd().resolve()
    root = next((path for path in (here, *here.parents) if (path / ".git").exists()), None)
    if root is None or root == expanded("~").resolve() or not recipes:
        return None
    inside = all(path.is_relative_to(root) for path in recipes)
    own = all(path.stat().st_uid == os.geteuid() for path in (root, root / ".git", *recipes))
    return root if inside and own else None
