"""What `situ status` makes of two reports of a site."""

from __future__ import annotations

from typing import Any

from situ.cli.site_status import _events_between


def report(**versions: tuple[int, int, int, str | int]) -> dict[str, Any]:
    """By version: rows of its source, half of which another site is sent, rows of another site's log, complex events,
    and how far the other site's log has come."""
    return {
        "sources": {"Ping": {}},
        "versions": {
            number[1:]: {
                "made": {
                    f"events/Ping/here/{number[1:]}": {"events": own},
                    f"events/Ping.1/here/{number[1:]}": {"events": own // 2},
                    f"events/High/here/{number[1:]}": {"events": found},
                },
                "read": {f"events/Pong/there/{number[1:]}": {"committed": read, "promise_us": promise}},
            }
            for number, (own, read, found, promise) in versions.items()
        },
    }


def test_a_log_that_has_ended_is_counted_as_before() -> None:
    before, after = report(v1=(10, 5, 2, 7)), report(v1=(14, 8, 3, "end"))
    assert _events_between(before, after, "in") == 7
    assert _events_between(before, after, "out") == 1


def test_a_version_that_is_forgotten_takes_nothing_away() -> None:
    before, after = report(v1=(10, 5, 2, "end"), v2=(1, 0, 0, 7)), report(v2=(4, 2, 1, 8))
    assert _events_between(before, after, "in") == 5
    assert _events_between(before, after, "out") == 1
