"""What a script's process reports of its models; checked on reading, as a script may write it."""

from collections.abc import Mapping
from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta

from benchorch.domain.codec import Json

MOST_BYTES = 2**27
"""Size of the reports of one script's models, each as it was reported last."""

# Numbers that can be printed and added up, whoever wrote them.
Count = Annotated[int, Meta(ge=0, le=2**62)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
_Line = Annotated[int, Meta(ge=-1, le=2**31)]
_Depth = Annotated[int, Meta(ge=0, le=10_000)]


class ReportedInput(TypedDict):
    """A tensor of a call; `held_by` is the object that it was passed in."""

    name: str
    shape: list[Count]
    dtype: str
    held_by: NotRequired[str]


class ReportedCall(TypedDict):
    """A call of a model; `model` is its configuration, where it can be made again."""

    hash: str
    signature: list[str]
    calls: Count
    seconds: Seconds
    inputs: list[ReportedInput]
    obstacle: str
    step: NotRequired[str]
    model: NotRequired[Mapping[str, Json]]
    not_exported: NotRequired[str]
    not_captured: NotRequired[str]


ReportedModel = TypedDict(
    "ReportedModel",
    {
        "name": str,
        "hash": str,
        "class": str,
        "file": str,
        "line": _Line | None,
        "called_from": str,
        "depth": _Depth,
        "instances": Count,
        "calls": Count,
        "seconds": Seconds,
        "parameters": Count,
        "parameter_bytes": Count,
        "buffer_bytes": Count,
        "dtypes": list[str],
        "generates": bool,
        "more_signatures": Count,
        "invocations": list[ReportedCall],
        "in_child": NotRequired[bool],
    },
)
"""A model with its calls."""
