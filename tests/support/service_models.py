"""Values of AWS's service models, as botocore carries them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any


def value_of(place: str) -> Any:
    """What a place like ``ec2 RunInstances UserData max`` or ``text s3 SlowDown`` holds.

    For ``text`` it is whether the service's documentation has the words.
    """
    words = place.split()
    if words[0] == "text":
        return " ".join(words[2:]) in _text(words[1])
    if words[0] == "retry":
        return _retried(*words[1:])
    if words[1] == "shape":
        return list(_model(words[0]).shape_for(words[2]).enum)
    return _member_value(*words)


def _member_value(service: str, operation: str, *rest: str) -> Any:
    shape: Any = _model(service).operation_model(operation).input_shape
    for name in rest[0].split(".") if len(rest) == 2 else ():
        shape = shape.members[name]
    kind = rest[-1]
    if kind == "enum":
        return list(shape.enum)
    if kind == "required":
        return list(shape.required_members)
    return shape.metadata[kind]


def _retried(service: str, policy: str) -> dict[str, Any]:
    import botocore

    path = Path(botocore.__file__).parent / "data" / "_retry.json"
    policies = json.loads(path.read_text())["retry"][service]["__default__"]["policies"]
    when = policies[policy]["applies_when"]["response"]
    return {"code": when["service_error_code"], "status": when["http_status_code"]}


@cache
def _model(service: str) -> Any:
    import botocore.session

    return botocore.session.get_session().get_service_model(service)


@cache
def _text(service: str) -> str:
    """Every sentence of a service's documentation, without markup."""
    content = json.dumps(_model(service)._service_description, ensure_ascii=False)
    plain = re.sub(r"<[^>]+>", " ", content.replace("\\n", " ")).replace(":", "")
    return re.sub(r"\s+([.,])", r"\1", re.sub(r"\s+", " ", plain))
