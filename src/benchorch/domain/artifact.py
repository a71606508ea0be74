"""Artifacts between the links of a chain, and the keys by which they are found again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchorch.domain.codec import Json


class Format(str):
    """The kind of thing one link hands to the next: a name, so that packages can add their own."""

    __slots__ = ()

    MODULE: ClassVar[Format]
    CALLABLE: ClassVar[Format]
    LIGHTNING_MODULE: ClassVar[Format]
    EXPORTED_PROGRAM: ClassVar[Format]
    ONNX: ClassVar[Format]
    AOTI_PACKAGE: ClassVar[Format]
    INDUCTOR_CACHE: ClassVar[Format]
    TORCHSCRIPT: ClassVar[Format]
    OPENVINO_IR: ClassVar[Format]
    EXECUTORCH_PROGRAM: ClassVar[Format]
    TVM_LIBRARY: ClassVar[Format]
    TENSORRT_ENGINE: ClassVar[Format]
    GGUF: ClassVar[Format]
    ONNX_GENAI: ClassVar[Format]
    HUB_FOLDER: ClassVar[Format]
    REFERENCE: ClassVar[Format]


for _name in Format.__annotations__:
    setattr(Format, _name, Format(_name.lower()))


def canonical_json(value: Json) -> str:
    """The one spelling of a JSON value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: Json) -> str:
    """SHA-256 (hex) of a JSON value's canonical spelling."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildKey:
    """Everything that determines an artifact, and the digest of it.

    Attributes:
        fields: what determines the bytes: model identity, each step with its version and
            parameters, tensor specs, package versions, hardware facts.
    """

    fields: Mapping[str, Json]

    @property
    def digest(self) -> str:
        """SHA-256 (hex) over the fields, whatever their order."""
        return digest_of(dict(self.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Immutable files in a store.

    Attributes:
        key: digest of the BuildKey.
        format: what the files are.
        path: the directory that holds them.
        size_bytes: sum of the files' sizes.
        build_s: what the build took when it was made, in seconds of wall time.
    """

    key: str
    format: Format
    path: Path
    size_bytes: int
    build_s: float
