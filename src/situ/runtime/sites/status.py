"""How a site is, in words and numbers: for `situ status`, and for whoever looks into a simulation that hangs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from situ.core.time import BEGINNING, END
from situ.runtime.sites.logs import SINK
from situ.runtime.sites.messages import LogName
from situ.runtime.sites.running_version import RunningVersion

if TYPE_CHECKING:
    from situ.runtime.sites.site import SiteCore


def status_of(site: SiteCore) -> dict[str, Any]:
    """A site's state as JSON: versions, logs and their readers, sources, and who waits for whom."""
    return {
        "site": site.name,
        "lives": len(site.conversation.lives),
        "version": site.controls.known.version,
        "prepared": None if site.controls.prepared is None else site.controls.prepared.version,
        "commits": site.commits,
        "steps": site.steps,
        "rows": dict(site.admission.counts),
        "refused_messages": site.conversation.refusals,
        "peers": {name: _peer_words(peer) for name, peer in site.conversation.peers.items()},
        "links": {to: asdict(counts) for to, counts in sorted(site.relays.sent.items())},
        "coordinator": None if site.coordinator is None else site.coordinator.status(),
        "latencies_us": site.monitor.latencies_us(),
        "held": {stream: reason for stream, reason in site.admission.held.items() if reason},
        "sources": {
            stream: {
                "promise_us": _time(time.promise_us),
                "latest_us": _time(max((s.latest_us for s in time.sources.values()), default=BEGINNING)),
                "ended": all(source.ended for source in time.sources.values()),
            }
            for stream, time in site.admission.times.items()
        },
        "versions": {str(number): _version(version) for number, version in site.versions.items()},
    }


def _peer_words(peer: Any) -> str:
    if peer.refused or peer.refused_by:
        return str(peer.refused or peer.refused_by)
    return "heard" if peer.greeted else "not heard yet"


def _version(version: RunningVersion) -> dict[str, Any]:
    lows = version.watermarks()
    here = version.operators_here()
    return {
        "starts_us": _time(version.plan.starts_us),
        "ends_us": _time(version.ends_us),
        "over": version.is_over,
        "figures": dict(version.host.figures()),
        "state_bytes": dict(version.host.state_bytes()),
        "operators": here,
        "finishing": [
            name
            for name, place in version.plan.operators.items()
            if place.finished_at == version.site and version.made[_events(name, version)].watermark_us < END
        ],
        "states_missing": [log.type for log in version.missing_states()],
        "results": list(version.plan.results),
        "predicted": version.plan.predicted.at(version.site, here).to_json(),
        "counted": version.event_counts.to_json(),
        "made": {
            str(name): {
                "events": log.durable_end,
                "promise_us": _time(log.durable_us),
                "bytes": log.shelf.size,
                "pulled": None if log.pulled is None else log.pulled.number,
                "readers": {
                    site or "sink": {"sent": reader.sent, "committed": reader.committed}
                    for site, reader in log.readers.items()
                },
            }
            for name, log in version.made.items()
        },
        "read": {
            str(name): {
                "committed": log.committed,
                "promise_us": _time(log.committed_us),
                "written": None if log.sink is None else log.sink.committed,
                "requests": None if log.pulled is None else log.pulled.number,
                "asked_us": _time(log.asked.until_us) if log.asked is not None and log.is_asked else None,
            }
            for name, log in version.read.items()
        },
        "batches": _batches(version),
        "waits_for": sorted(_waits_for(version, lows)),
    }


def _events(name: str, version: RunningVersion) -> LogName:
    return LogName("events", name, version.site, version.number)


def _batches(version: RunningVersion) -> dict[str, Any] | None:
    """How far the query is that drives the operators here, if one does."""
    if not version.host.driven:
        return None
    until = version.last_batch.until
    return {
        "taken": version.last_batch.number + 1,
        "behind_bytes": sum(version.behind_bytes(name) for name in version.readable()),
        "behind_events": sum(at.number - until[n].number if n in until else at.number
                             for n, at in version.readable().items()),
    }  # fmt: skip


def _waits_for(version: RunningVersion, lows: dict[str, int]) -> set[str]:
    """Who holds time back, or has not taken what was sent."""
    last = max(lows.values(), default=BEGINNING)
    holding = {
        f"{log.name.origin} for the time of {log.name.type}"
        for log in version.read.values()
        if log.by_operators and log.name.kind == "events" and log.taken_us < last
    }
    holding |= {f"{log.origin} for the state of {log.type}" for log in version.missing_states()}
    return holding | {
        f"{site} to read {name}"
        for name, log in version.made.items()
        for site, reader in log.readers.items()
        if site != SINK and log.owes(reader)
    }


def _time(micros: int) -> int | str | None:
    return {BEGINNING: None, END: "end"}.get(micros, micros)
