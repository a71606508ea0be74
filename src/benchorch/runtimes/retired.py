"""Placeholder of a conversion whose upstream is gone."""

from dataclasses import dataclass
from typing import NoReturn, final

from benchorch.domain.artifact import Format
from benchorch.errors import MeasureError
from benchorch.interfaces.runtime import LoadRequest, Runtime


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Retired(Runtime):
    """Never available: a plan shows the reason and the successor.

    Attributes:
        reason: what became of it, in one sentence.
        successor: the conversion to choose instead; empty where there is none.
    """

    consumes = (Format.MODULE,)
    requires = ()

    reason: str
    successor: str = ""

    def unavailable(self, device: str) -> str | None:
        """Always the reason."""
        instead = f" Instead: conversion={self.successor}." if self.successor else ""
        return f"retired: {self.reason}{instead}"

    def load(self, request: LoadRequest) -> NoReturn:
        """Never reached through a plan."""
        raise MeasureError(self.reason, kind="retired", remedy=f"conversion={self.successor}")
