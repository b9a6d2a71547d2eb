"""Durations: microseconds inside, words outside."""

from __future__ import annotations

#: Microseconds of each unit; the first name of a length is how it is printed.
UNITS: dict[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
}

#: Times and durations lie within this many microseconds (73,000 years), so that their sums never overflow.
LIMIT = 2**61

#: Other spellings that the language reads.
SYNONYMS: dict[str, str] = {
    "microsecond": "us", "microseconds": "us",
    "millisecond": "ms", "milliseconds": "ms",
    "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "mins": "min", "minute": "min", "minutes": "min",
    "hour": "h", "hours": "h",
    "d": "day", "days": "day",
}  # fmt: skip


def format_duration(micros: int) -> str:
    """The shortest exact spelling, which `parse_duration` reads back.

    >>> format_duration(90_000_000), format_duration(120_000_000), format_duration(1500)
    ('90 s', '2 min', '1500 us')
    """
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if micros and micros % length == 0:
            return f"{micros // length} {unit}"
    return f"{micros} us"


def parse_duration(text: str) -> int:
    """Microseconds of a text such as `5 mins` or `1.5 s`; ValueError if it is none.

    >>> parse_duration("5 mins"), parse_duration("1.5 s")
    (300000000, 1500000)
    """
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text[len(text.rstrip("abcdefghijklmnopqrstuvwxyz")) :]
    length = UNITS.get(SYNONYMS.get(unit, unit))
    if length is None or not digits:
        raise ValueError(f"{text!r} is no duration")
    micros = int(digits) * length if digits.isdigit() else round(float(digits) * length)
    if micros >= LIMIT:
        raise ValueError(f"{text!r} is longer than 73,000 years")
    return micros
