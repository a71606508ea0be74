"""The stack that an examination is asked for on the command line."""

import re
from collections.abc import Mapping, Sequence

from benchorch.errors import ConfigError
from benchorch.hardware.aws_account.request import StackRequest

_VARIABLE = re.compile(r'^variable "(\w+)" \{(.*?)^\}', re.MULTILINE | re.DOTALL)
_DEFAULT = re.compile(r"^  default\s*=\s*(.+)$", re.MULTILINE)
_IMAGE = re.compile(r'"?(\w+)"?\s*[=:]\s*"(/[^"]+)"')
_WORD = re.compile(r'"[^"]*"|[^\s{}\[\]",=:]+')
_NO_TEXT = re.compile(r'".*|[-+]?[\d.]+|true|false|null')
_SIZE = re.compile(r'"?([a-z][a-z0-9-]*\.[a-z0-9-]+)"?\s*[=:]\s*(\d+)')


def stack_request(name: str, variables_tf: str, overrides: Sequence[str]) -> StackRequest:
    """Requested stack: Terraform's defaults, overridden by ``KEY=VALUE`` words."""
    values = {**_defaults(variables_tf), **dict(_pair(word) for word in overrides)}
    fleet = {kind: int(most) for kind, most in _SIZE.findall(values.get("fleet", ""))}
    if not fleet:
        problem = f"fleet: {values.get('fleet', '')!r} names no instance type with a number"
        raise ConfigError([f"""{problem}; expected --var 'fleet={{"g5.xlarge"=1}}'"""])
    return StackRequest(
        name=name,
        region=_plain(values.get("region", "us-east-1")),
        fleet=fleet,
        markets=re.findall(r"\b(spot|on_demand)\b", values.get("markets", "spot on_demand")),
        head_type=_plain(values.get("head_type", "m7i.large")),
        ttl_minutes=_minutes(values.get("ttl_minutes", "480")),
        image_parameters=dict(_IMAGE.findall(values.get("image_parameters", ""))),
    )


def quoted(value: str) -> str:
    """A map or list of Terraform's with the quotes that a shell has taken: ``{g5.xlarge=1}``."""
    if not value.lstrip().startswith(("{", "[")):
        return value
    return _WORD.sub(lambda word: _quoted_word(word[0]), value)


def _quoted_word(word: str) -> str:
    return word if _NO_TEXT.fullmatch(word) else f'"{word}"'


def _defaults(variables_tf: str) -> Mapping[str, str]:
    found = {name: _DEFAULT.search(body) for name, body in _VARIABLE.findall(variables_tf)}
    return {name: match[1] for name, match in found.items() if match}


def _pair(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals:
        raise ConfigError([f"--var {word}: expected KEY=VALUE, e.g. --var region=eu-west-1"])
    return key.strip(), quoted(value)


def _minutes(text: str) -> float:
    if not re.fullmatch(r"\d+", _plain(text)):
        raise ConfigError([f"ttl_minutes: {text!r}; expected minutes, e.g. --var ttl_minutes=60"])
    return float(_plain(text))


def _plain(text: str) -> str:
    return text.strip().strip('"')
