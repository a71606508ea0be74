"""``${oc.env:NAME}``: whose value a configuration may have, and what of it may be shown.

A plan, a run's folder and the tracker store a configuration with its values, so a secret's variable
is for the tracker's URI alone, which is stored without its password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import Container

_OWN = ("CACHE_DIR", "RESULTS_URL", "STARTS_URL", "STORE_URL")
READ_BY_DEFAULTS = frozenset(f"BENCHORCH_{name}" for name in _OWN)
HIDDEN = "***"
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(API|ACCESS|PRIVATE)_?KEY", re.IGNORECASE
)
_STORED_WITHOUT_SECRETS = "recorder"
_NONE = object()
_refusal: ContextVar[Callable[[str], str] | None] = ContextVar("refusal", default=None)
_hides: ContextVar[bool] = ContextVar("hides", default=False)


def guard() -> None:
    """Let every interpolation of a variable pass here, whatever text a file puts together."""
    from omegaconf import OmegaConf

    OmegaConf.register_new_resolver("oc.env", _value, replace=True)


@contextmanager
def withheld(refusal: Callable[[str], str]) -> Iterator[None]:
    """Until it ends, no interpolation gives the value of a variable that is refused.

    Args:
        refusal: why a variable's value is not given, or an empty text.
    """
    token = _refusal.set(refusal)
    try:
        yield
    finally:
        _refusal.reset(token)


@contextmanager
def hidden() -> Iterator[None]:
    """Until it ends, `HIDDEN` stands for the value of every variable: it is printed."""
    token = _hides.set(True)
    try:
        yield
    finally:
        _hides.reset(token)


def _value(name: str, default: object = _NONE, *, _parent_: Container) -> object:
    from omegaconf.resolvers import oc

    own = name in READ_BY_DEFAULTS
    refusal = _refusal.get()
    why = "" if own else (refusal and refusal(name)) or _stored(name, _parent_)
    if why:
        raise ValueError(why)
    value: object = oc.env(name) if default is _NONE else oc.env(name, default)
    if own and value == "" and default is not _NONE:  # as CI sets what is unset
        value = default
    return HIDDEN if _hides.get() and not own and value != default else value


def _stored(name: str, parent: Container) -> str:
    """Why the variable's value may not be written to files; empty where it may."""
    if not _SECRET.search(name) or str(parent._get_full_key("")) == _STORED_WITHOUT_SECRETS:
        return ""
    return (
        f"{name} is a secret by its name, and plan.json, the run's folder and MLflow would store "
        "its value; let the code that needs it read the variable"
    )
