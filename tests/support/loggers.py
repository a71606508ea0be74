"""Loggers as they were before a command ran in this process: Hydra disables those it finds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unchanged_loggers() -> Iterator[None]:
    """Restore which loggers are disabled, and the root logger's level and handlers."""
    root = logging.root
    disabled, level, handlers = _disabled(), root.level, root.handlers[:]
    try:
        yield
    finally:
        for logger in _disabled() - disabled:
            logger.disabled = False
        root.setLevel(level)
        root.handlers[:] = handlers


def _disabled() -> set[logging.Logger]:
    loggers = logging.root.manager.loggerDict.values()
    return {one for one in loggers if isinstance(one, logging.Logger) and one.disabled}
