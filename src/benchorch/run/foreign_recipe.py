"""What a stranger's recipe may not choose: programs that are started, addresses and places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchorch.config.composer import Composer, config_loader
from benchorch.domain.codec import leaves
from benchorch.domain.trial import ConfigNode, node_of
from benchorch.models import trust

_NODES = ("profiler", "executor", "store", "recorder")
_KEYS = (*_NODES, "keep_at")
_WORD = re.compile(r"\w[\w-]*")
_PROGRAM = "program"


def chosen_places(session: ConfigNode, choices: Mapping[str, str]) -> Iterator[str]:
    """Texts of a session's components that only a stranger's recipe chose, a sentence each.

    What benchorch's own option says, what the command line sets and plain words, which are neither
    an address nor a place, are let through.

    Args:
        choices: the option of each group.
    """
    if not trust.has_foreign_recipe():
        return
    default = _defaults(choices)
    yield from _chosen_quota(session, choices.get("store", ""))
    for place, value in _texts(session):
        harmless = _WORD.fullmatch(value) and not place.endswith(f".{_PROGRAM}")
        if harmless or value == default.get(place):
            continue
        if why := trust.choice_refusal(value):
            yield why.within(f"{place}: ")


def _chosen_quota(session: ConfigNode, option: str) -> Iterator[str]:
    """A limit of the store that only a stranger's recipe chose: what exceeds it is deleted."""
    quota = node_of(session, "store").get("quota_gib")
    own = Composer(config_loader())
    if not trust.choice_refusal(option) and option in own.options("store"):
        quota = None if own.option("store", option).get("quota_gib") == quota else quota
    if quota is not None and (why := trust.choice_refusal(str(quota))):
        yield why.within("store.quota_gib: ")


def _defaults(choices: Mapping[str, str]) -> Mapping[str, str]:
    """The texts of the same options of benchorch's own, by their places."""
    own = Composer(config_loader())
    known = [
        f"{group}={choices[group]}" for group in _NODES if choices.get(group) in own.options(group)
    ]
    config = own.session(known)
    return dict(_texts(config))


def _texts(session: ConfigNode) -> Iterator[tuple[str, str]]:
    """Each text of a session's components, by its place."""
    for key in _KEYS:
        for place, value in leaves(session.get(key), key):
            if isinstance(value, str):
                yield place, value
