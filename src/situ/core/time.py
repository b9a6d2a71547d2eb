"""Times and durations: microseconds inside, words outside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

#: Microseconds of each unit; the first name of a length is how it is printed.
UNITS: dict[str, int] = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
}

#: Durations lie within this many microseconds (73,000 years), so that sums with times never overflow.
LIMIT = 2**61

#: Before every event, and after the last one: no time has passed yet, and no event will come any more.
BEGINNING = int(np.iinfo(np.int64).min)
END = int(np.iinfo(np.int64).max)

#: The first and the last time that an event may have: of the years 1 to 9999, as in the calendars of Python and SQL.
#: Microseconds that are sent as milliseconds lie beyond.
FIRST_TIME_US = -62_135_596_800_000_000
LAST_TIME_US = 253_402_300_799_999_999

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


def format_time(micros: int) -> str:
    """A time in UTC, also one outside the years that Python's calendar has.

    >>> format_time(1_772_359_200_500_000), format_time(LAST_TIME_US + 1), format_time(FIRST_TIME_US - 1_000_000)
    ('2026-03-01 10:00:00.500000', '10000-01-01 00:00:00', '0000-12-31 23:59:59')
    """
    return str(np.datetime64(micros, "us")).replace("T", " ").removesuffix(".000000")


def time_to_micros(time: datetime) -> int:
    """Microseconds since the epoch; a time without a zone is in UTC.

    >>> time_to_micros(datetime(2026, 3, 1, 10)), time_to_micros(datetime.fromisoformat("2026-03-01T11:00+01:00"))
    (1772359200000000, 1772359200000000)
    """
    zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


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
