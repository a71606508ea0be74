"""A model behind an HTTP endpoint, measured as its clients call it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final
from urllib.parse import urlsplit

from benchorch.config.components import suggest
from benchorch.domain.artifact import Format
from benchorch.domain.codec import Json, leaves
from benchorch.domain.tensors import Workload
from benchorch.errors import BuildError
from benchorch.files import read_small
from benchorch.models import trust
from benchorch.models.declared_model import DeclaredModel
from benchorch.models.seeding import frozen

if TYPE_CHECKING:
    import torch

    from benchorch.models.architectures.endpoint import Endpoint

_FROM_ENVIRONMENT = "env:"
_MOST_TIMEOUT_S = 86_400
_MOST_ANSWERS_BYTES = 2**28
_TOLERANCE = 1e-3  # of the largest number of an answer: a server may batch, and round, otherwise


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HttpModel(DeclaredModel):
    """Sends the inputs as JSON to one address, and to no other.

    Attributes:
        url: the address.
        method: of HTTP.
        body: the JSON of a request, in which ``$name`` stands for an input's values; None for an
            object of all inputs by name. Without any ``$name`` the model needs no inputs.
        headers: of each request; ``env:NAME`` reads a secret from the environment.
        timeout_s: seconds that the server may take.
        answers: a file of recorded answers, a line ``{"body": ..., "answer": ...}`` each, which the
            endpoint must give again before it is measured; None for none.
    """

    gives = (Format.CALLABLE,)  # an endpoint cannot be converted

    url: str
    method: str = "POST"
    body: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = 30.0
    answers: str | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """Host and path, for people; empty where the address has problems."""
        parts = urlsplit("" if _url_problems(self.url) else self.url)
        return {"model": f"{parts.netloc}{parts.path}"}

    def load(self, seed: int) -> torch.nn.Module:
        """The endpoint; BuildError if its address is not trusted, or if its answers differ."""
        from benchorch.models.architectures.endpoint import Endpoint

        refused = trust.refusal(self.url)
        if refused:
            raise BuildError(f"No request is sent: {refused}.", kind="user_code")
        headers = {name: _resolved(value) for name, value in self.headers.items()}
        endpoint = Endpoint(self.url, self.method, self.body, headers, self.timeout_s)
        if self.answers is not None:
            _check_answers(endpoint, Path(self.answers))
        return frozen(endpoint)

    def identity(self) -> Mapping[str, Json] | None:
        """None: what the server holds can change from one run to the next."""
        return None

    def requested(self) -> Mapping[str, Json]:
        """The request; headers only by name."""
        return {
            "url": self.url,
            "method": self.method,
            "body": self.body,
            "headers": sorted(self.headers),
        }

    def problems(self, workload: Workload) -> Sequence[str]:
        """Problems of the address, body, headers, recorded answers and inputs."""
        found = _url_problems(self.url)
        refused = trust.refusal(self.url)
        found += [refused.within("model.url: ", ".")] if refused and not found else []
        found += [*self._body_problems(), *self._file_problems()]
        found += self._header_problems()
        if not 0 < self.timeout_s <= _MOST_TIMEOUT_S:
            found.append(
                f"model.timeout_s: above 0, at most {_MOST_TIMEOUT_S}; got {self.timeout_s}."
            )
        if self.checkpoint is not None or self.kwargs:
            found.append("model: an endpoint takes neither checkpoint nor kwargs; give model.body.")
        is_fixed = self.body is not None and not self.inputs
        return [*found, *([] if is_fixed else self.declared_problems(workload))]

    def _header_problems(self) -> list[str]:
        """Variables that are not set, or that a recipe of others would send somewhere."""
        found: list[str] = []
        for name, value in self.headers.items():
            variable = value.removeprefix(_FROM_ENVIRONMENT)
            if variable == value:
                continue
            if refused := trust.choice_refusal(value):
                found.append(refused.within(f"model.headers.{name}: "))
            elif not _resolved(value):
                found.append(f"model.headers.{name}: the environment has no {variable}.")
        return found

    def _body_problems(self) -> list[str]:
        used, names = set(_placeholders(self.body)), self.input_names()
        unknown = sorted(used.difference(names)) if names or not self.inputs else []
        found = [
            f"model.body: ${name} is no input.{suggest(name, names)} "
            f"Inputs: {', '.join(names) or 'none'}."
            for name in unknown
        ]
        if self.body is not None and not used and self.inputs:
            found.append(
                "model.body: names no input, so every request is the same; write $name where an "
                "input's values go, or give model.inputs={}."
            )
        return found

    def _file_problems(self) -> list[str]:
        if self.answers is None:
            return []
        try:
            read_answers(Path(self.answers))
        except OSError as error:
            return [f"model.answers: {self.answers!r} cannot be read: {error.strerror}."]
        except ValueError as error:
            return [f"model.answers: {self.answers}: {error}."]
        return []


def _url_problems(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return [f"model.url: {error}."]
    if parts.scheme not in ("http", "https") or not parts.hostname:
        example = "http://127.0.0.1:8000/predict"
        return [f"model.url: {url!r} is no address of HTTP, such as {example}."]
    if parts.username or parts.password:
        return ["model.url: holds a password; give +model.headers.Authorization=env:NAME instead."]
    return []


def _resolved(value: str) -> str:
    if not value.startswith(_FROM_ENVIRONMENT):
        return value
    return os.environ.get(value.removeprefix(_FROM_ENVIRONMENT), "").strip()  # a file's line end


def _placeholders(body: Json) -> Iterator[str]:
    for _, text in leaves(body):
        if isinstance(text, str) and text.startswith("$") and text[1:].isidentifier():
            yield text[1:]


def read_answers(path: Path) -> list[tuple[Json, Json]]:
    """Bodies with their recorded answers; ValueError for an incomplete line."""
    found = []
    text = read_small(path, links=True, most_bytes=_MOST_ANSWERS_BYTES).decode()
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        try:
            record = json.loads(line)
            found.append((record["body"], record["answer"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            wanted = '{"body": ..., "answer": ...}'
            raise ValueError(f"line {number} is no {wanted}") from error
    if not found:
        raise ValueError("it has no line")
    return found


def _check_answers(endpoint: Endpoint, path: Path) -> None:
    from benchorch.models.architectures.endpoint import decoded

    for number, (body, recorded) in enumerate(read_answers(path), 1):
        answer = endpoint.send(json.dumps(body).encode())
        difference = _difference(decoded(answer), decoded(json.dumps(recorded).encode()))
        if difference:
            raise BuildError(
                f"{endpoint.url} does not give the answer that {path.name} has on line {number}: "
                f"{difference}",
                kind="answers_differ",
                remedy="record the answers again if this model is the one you mean",
            )


def _difference(answer: object, recorded: object) -> str:
    import numpy as np
    import torch

    from benchorch.frameworks.output_paths import leaf_paths

    ours, theirs = dict(leaf_paths(answer)), dict(leaf_paths(recorded))
    if ours.keys() != theirs.keys():
        return f"it has {', '.join(ours) or 'nothing'} instead of {', '.join(theirs) or 'nothing'}"
    for name, right in theirs.items():
        left, where = ours[name], name or "the answer"
        if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
            if left != right:
                return f"{where} is {left!r}, recorded was {right!r}"
            continue
        if left.shape != right.shape:
            return f"{where} has shape {list(left.shape)}, recorded was {list(right.shape)}"
        if not left.is_floating_point() and not right.is_floating_point():
            if not torch.equal(left.long(), right.long()):
                return f"{where} has other whole numbers"  # labels and ids have no tolerance
            continue
        a, b = left.double().numpy(), right.double().numpy()
        scale = float(np.abs(b).max()) if b.size else 0.0
        if not np.allclose(a, b, rtol=_TOLERANCE, atol=_TOLERANCE * scale):
            return f"{where} differs by up to {float(np.abs(a - b).max()):.3g}"
    return ""
