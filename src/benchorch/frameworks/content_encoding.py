"""Bodies of HTTP answers that a server compressed."""

import zlib

_MOST_CODINGS = 3
_GZIP_OR_ZLIB, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS
_KNOWN = {"gzip": _GZIP_OR_ZLIB, "x-gzip": _GZIP_OR_ZLIB, "deflate": _GZIP_OR_ZLIB}


def decompressed(content: bytes, encoding: str, *, most_bytes: int) -> bytes:
    """The plain body.

    Args:
        encoding: the header ``Content-Encoding``: the codings in the order they were applied.
        most_bytes: that it may have, so that a small body cannot fill the memory.

    Raises:
        ValueError: a coding is unknown, its data is damaged or too long; the message is the rest of
            a sentence that begins with "answered".
    """
    codings = [each.strip().lower() for each in encoding.split(",")]
    codings = [each for each in codings if each not in ("", "identity")]
    unknown = [each for each in codings if each not in _KNOWN]
    if unknown or len(codings) > _MOST_CODINGS:
        raise ValueError(
            f"in Content-Encoding {', '.join(codings)!r}, which was not requested; "
            "gzip and deflate are decoded"
        )
    for coding in reversed(codings):
        content = _inflated(content, coding, most_bytes) if content else content
    return content


def _inflated(content: bytes, coding: str, most_bytes: int) -> bytes:
    # Some servers send deflate without the zlib header that its definition has.
    bits = _KNOWN[coding]
    if coding == "deflate" and not _has_zlib_header(content):
        bits = _RAW
    parts, left = [], most_bytes
    while content:  # a gzip body may have several members
        inflate = zlib.decompressobj(bits)
        try:
            part = inflate.decompress(content, left + 1)
        except zlib.error as error:
            raise ValueError(f"in {coding} that is damaged: {error}") from error
        left -= len(part)
        if left < 0:
            raise ValueError(f"more than {most_bytes >> 20} MiB when decompressed from {coding}")
        if not inflate.eof:
            raise ValueError(f"in {coding} that is cut short")
        parts.append(part)
        content = inflate.unused_data.lstrip(b"\0")  # members may be padded
    return b"".join(parts)


def _has_zlib_header(content: bytes) -> bool:
    """Whether it begins with a zlib header (RFC 1950, section 2.2)."""
    head = content[:2]
    return len(head) == 2 and head[0] & 15 == 8 and int.from_bytes(head, "big") % 31 == 0
