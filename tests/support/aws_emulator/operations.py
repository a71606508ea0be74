"""Which operation of a service a call by path is, by botocore's own models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import parse_qsl

from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader

ELSEWHERE = ("CopyObject", "UploadPartCopy", "ListDirectoryBuckets")
"""Operations that only a header or another host tells from their namesakes."""

Route = tuple[str, str, re.Pattern[str], frozenset[str], int]


def operation_of(service: str, method: str, path: str, query: Mapping[str, str]) -> str:
    """``GetBucketAcl``, of several the most particular; method and path for what AWS has not."""
    fits = [
        (len(wanted), -variables, name)
        for name, verb, pattern, wanted, variables in _routes(service)
        if verb == method and pattern.fullmatch(path.rstrip("/") or "/") and wanted <= query.keys()
    ]
    return max(fits)[2] if fits else f"{method} {path}"


@cache
def _routes(service: str) -> Sequence[Route]:
    try:
        model = Loader().load_service_model(service, "service-2")
    except UnknownServiceError:
        return ()
    found = model["operations"].items()
    return [_route(name, told, model["shapes"]) for name, told in found if name not in ELSEWHERE]


def _route(name: str, told: Mapping[str, Any], shapes: Mapping[str, Any]) -> Route:
    path, _, query = told["http"]["requestUri"].partition("?")
    shape = shapes[told["input"]["shape"]] if "input" in told else {}
    wanted = {key for key, _ in parse_qsl(query, keep_blank_values=True)} | {*_required(shape)}
    pattern = re.sub(r"\\{[^}]+?\\\+\\}", "(.+)", re.escape(path))
    pattern = re.sub(r"\\{[^}]+?\\}", "([^/]+)", pattern).rstrip("/") or "/"
    return name, told["http"]["method"], re.compile(pattern), frozenset(wanted), path.count("{")


def _required(shape: Mapping[str, Any]) -> Iterator[str]:
    for name in shape.get("required", ()):
        member = shape["members"][name]
        if member.get("location") == "querystring":
            yield member["locationName"]
