"""Figures of a site for Prometheus: what its core reports, and what its process counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from situ.runtime.sites.messages import LogName
from situ.service.prometheus import Metric, demand_metrics, metrics_to_text

#: What is counted of each link, apart.
_SENT = {
    "frames": "Frames sent to a site.",
    "bytes": "Bytes sent to a site.",
    "events": "Events sent to a site.",
    "repeats": "Events sent to a site again.",
    "requests": "Requests to pull events sent to a site.",
    "questions": "Questions sent to a site, about time and positions.",
    "promises": "Batches without events sent to a site: how far time has come.",
    "acknowledgements": "Positions in a site's logs sent to it.",
}


def site_metrics(report: dict[str, Any]) -> str:
    """The figures of one site, each log and link apart."""
    return metrics_to_text(_metrics(report))


def _metrics(report: dict[str, Any]) -> Iterator[Metric]:
    process, rows = report["process"], report["rows"]
    made = [(name, log) for version in report["versions"].values() for name, log in version["made"].items()]
    read = [(name, log) for version in report["versions"].values() for name, log in version["read"].items()]
    links = {to: dict.fromkeys(_SENT, 0) | report["links"].get(to, {}) | link for to, link in process["links"].items()}
    yield "situ_site_restarts_total", "counter", "Lives of the site before this one.", {"": report["lives"] - 1}
    yield "situ_site_up_seconds", "gauge", "How long the process runs.", {"": process["up_s"]}
    yield (
        "situ_site_memory_bytes",
        "gauge",
        "Memory of the process.",
        {"": process["memory_bytes"]},
    )
    yield "situ_site_commits_total", "counter", "Commits, in all lives.", {"": report["commits"]}
    yield "situ_site_plan_version", "gauge", "The version of the plan that it knows.", {"": report["version"]}
    yield (
        "situ_site_rows_total",
        "counter",
        "Rows of its own sources in this life, by what became of them.",
        {f'{{became="{what}"}}': count for what, count in rows.items()},
    )
    yield (
        "situ_site_log_events_total",
        "counter",
        "Events of logs that the site makes.",
        {_of_log(name): log["events"] for name, log in made},
    )
    yield (
        "situ_site_log_bytes",
        "gauge",
        "What is kept of a log for its readers.",
        {_of_log(name): log["bytes"] for name, log in made},
    )
    yield (
        "situ_site_outstanding_events",
        "gauge",
        "Events of a log that a reader has not committed.",
        {
            _of_log(name, reader=site): log["events"] - reader["committed"]
            for name, log in made
            for site, reader in log["readers"].items()
        },
    )
    yield (
        "situ_site_promise_timestamp_seconds",
        "gauge",
        "No earlier event of a log will follow.",
        {_of_log(name): log["promise_us"] / 1e6 for name, log in [*made, *read] if isinstance(log["promise_us"], int)},
    )
    yield (
        "situ_site_held_streams",
        "gauge",
        "Streams that are not read for now.",
        {"": len(report["held"])},
    )
    if (coordinator := report["coordinator"]) is not None:
        yield from _coordination(coordinator)
    yield "situ_site_received_bytes_total", "counter", "From other sites.", {"": process["received"]["bytes"]}
    yield (
        "situ_site_refused_total",
        "counter",
        "Frames and connections that were refused.",
        {"": sum(process["refused"].values()) + report["refused_messages"]},
    )
    for name, about in _SENT.items():
        yield f"situ_site_sent_{name}_total", "counter", about, {_to(site): link[name] for site, link in links.items()}
    yield (
        "situ_site_link_up",
        "gauge",
        "Whether there is a connection to a site.",
        {_to(site): int(link["up"]) for site, link in links.items()},
    )


def _coordination(coordinator: dict[str, Any]) -> Iterator[Metric]:
    """What the site that coordinates knows of demands, and what it has done about them."""
    yield from demand_metrics(coordinator["demands"])
    yield "situ_adapts", "gauge", "Whether operators are moved without being told to.", {"": int(coordinator["adapts"])}
    yield "situ_transitions_total", "counter", "Transitions that are done.", {"": coordinator["transitions"]}
    yield (
        "situ_transition_under_way",
        "gauge",
        "Whether operators are being moved.",
        {"": int(coordinator["transition"] is not None)},
    )


def _of_log(name: str, **further: str) -> str:
    log = LogName.parse(name)
    labels = {"kind": log.kind, "type": log.type, "origin": log.origin, "version": str(log.version)}
    labels |= {"selection": str(log.selection)} if log.selection else {}
    labels |= further
    return "{" + ",".join(f'{label}="{_escaped(value)}"' for label, value in labels.items()) + "}"


def _to(site: str) -> str:
    return f'{{to="{_escaped(site)}"}}'


def _escaped(value: str) -> str:
    """
    >>> _escaped('a "b"')
    'a \\\\"b\\\\"'
    """
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
