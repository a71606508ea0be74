"""The only place where powers of ten and of two are applied to quantities."""

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000
SECONDS_PER_HOUR = 3600.0

SECONDS = {
    **{"us": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "seconds": 1, "m": 60, "min": 60, "minutes": 60},
    **{"h": 3600, "hours": 3600, "d": 86400},
}
"""Seconds in the units of time that people write after a number, and that end the names of keys."""

_BINARY_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB")


def ns_to_ms(duration_ns: float) -> float:
    """Milliseconds in a duration given in nanoseconds."""
    return duration_ns / NS_PER_MS


def ns_to_s(duration_ns: float) -> float:
    """Seconds in a duration given in nanoseconds."""
    return duration_ns / NS_PER_S


def ms_to_ns(duration_ms: float) -> int:
    """Whole nanoseconds in a duration given in milliseconds."""
    return round(duration_ms * NS_PER_MS)


def s_to_ns(duration_s: float) -> int:
    """Whole nanoseconds in a duration given in seconds."""
    return round(duration_s * NS_PER_S)


def format_bytes(size_bytes: float) -> str:
    """A size for people, in binary prefixes: ``format_bytes(2048) == "2.0 KiB"``."""
    value = float(size_bytes)
    for prefix in _BINARY_PREFIXES[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} B" if prefix == "B" else f"{value:.1f} {prefix}"
        value /= 1024
    return f"{value:.1f} {_BINARY_PREFIXES[-1]}"


def format_seconds(duration_s: float) -> str:
    """A duration for people: ``0.4 ms``, ``3.2 s``, ``2 min 05 s``."""
    if duration_s < 0.9995:  # from there on 1000 ms, in three digits
        return f"{duration_s * 1000:.3g} ms"
    if duration_s < 60:
        return f"{duration_s:.1f} s"
    minutes, seconds = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {seconds:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def format_ns(duration_ns: float) -> str:
    """A duration in nanoseconds, or a difference of two, for people: ``-0.4 ms``."""
    return f"{'-' if duration_ns < 0 else ''}{format_seconds(ns_to_s(abs(duration_ns)))}"


def format_ms(duration_ms: float) -> str:
    """A latency for people, in milliseconds with four significant digits."""
    return significant(duration_ms)


def significant(value: float, digits: int = 4) -> str:
    """A value for people, with so many significant digits; 12345 has all of its own.

    Powers of ten are left to what is below 1e-4, or not below 1e9.
    """
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e9 else text
