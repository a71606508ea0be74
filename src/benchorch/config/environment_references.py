"""``${oc.env:NAME}`` for recipes of strangers: only what benchorch's own configuration reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_OWN = ("CACHE_DIR", "RESULTS_URL", "STARTS_URL", "STORE_URL")
READ_BY_DEFAULTS = frozenset(f"BENCHORCH_{name}" for name in _OWN)
_NONE = object()


@contextmanager
def withheld(refusal: Callable[[str], str]) -> Iterator[None]:
    """Until it ends, no interpolation gives the value of a variable that is refused.

    The resolver itself is replaced: whatever text a file puts together, this is called.

    Args:
        refusal: why a variable's value is not given, or an empty text.
    """
    from omegaconf import OmegaConf
    from omegaconf.resolvers import oc

    def env(name: str, default: object = _NONE) -> object:
        why = "" if name in READ_BY_DEFAULTS else refusal(name)
        if why:
            raise ValueError(why)
        return oc.env(name) if default is _NONE else oc.env(name, default)

    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
