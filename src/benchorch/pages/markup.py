"""Text from anywhere as content of XML, HTML, JSON and Markdown, where it is no markup."""

import re
from collections.abc import Mapping

import msgspec

from benchorch.formatting import LONGEST_NAME, bounded, printable

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 excludes even when escaped: control characters, lone surrogates."""

_MARKDOWN = re.compile(r"([\\`*_\[\]#|~!])")

_IN_SCRIPT = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}
"""Characters that could end a script element or begin a comment in one."""


def plain(text: object) -> str:
    """The text with a replacement character for each that no file can carry."""
    return _NOT_XML.sub("\ufffd", str(text))


def json_text(value: object) -> str:
    """Compact JSON of plain values, whose names may hold what no encoding has."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_clean(value)).decode()


def json_in_script(value: object) -> str:
    """JSON for a script element: no character in it is markup."""
    return re.sub("[<>&\u2028\u2029]", lambda found: _IN_SCRIPT[found[0]], json_text(value))


def shortened(text: object, most: int = LONGEST_NAME) -> str:
    """Text of anything in one line, of at most that many characters."""
    return bounded(" ".join(plain(text).split()), most)


def markdown_text(text: object, most: int) -> str:
    """One line of at most that many characters, of which none is Markdown or HTML."""
    line = shortened(printable(str(text)), most)
    return _MARKDOWN.sub(r"\\\1", line).replace("<", "&lt;")


def _clean(value: object) -> object:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
