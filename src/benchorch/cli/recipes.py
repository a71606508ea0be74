"""Mistakes of the recipe of a request, with their places in its file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchorch.cli.arguments import Request
from benchorch.errors import ConfigError, NoMachine


@contextmanager
def placed_mistakes(request: Request) -> Iterator[None]:
    """Where the work finds mistakes, those of the recipe's file first, with their lines."""
    if request.recipe is None:
        yield
        return
    from benchorch.config.recipe_errors import check_file

    check_file(request.recipe)
    try:
        yield
    except NoMachine:
        raise
    except ConfigError as error:
        raise _placed(request, error) from error


def _placed(request: Request, error: ConfigError) -> ConfigError:
    from benchorch.config.composer import Composer, config_loader
    from benchorch.config.recipe_errors import placed, recipe_problems

    assert request.recipe is not None  # its caller has looked
    try:
        composer = Composer(config_loader(request.directories))
        found = recipe_problems(request.recipe, composer, request.overrides)
    except ConfigError:
        found = []
    others: list[str] = [text for text in error.problems if not any(text in one for one in found)]
    if found:
        others = [text for text in others if not text.startswith("In '")]
    keys = {one.partition(" ")[2].partition(": ")[0] for one in found}
    others = [text for text in others if text.partition(": ")[0] not in keys]
    by_hand = {word.partition("=")[0] for word in request.overrides}
    others = [
        text if text.partition(": ")[0] in by_hand else placed(request.recipe, text)
        for text in others
    ]
    return ConfigError([*found, *others], next=error.next)
