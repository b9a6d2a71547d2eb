"""A site of one: a query that runs on in this process, with the journal, the sources and the sinks of a site.

The plan in the journal has the rules in force. Other rules are its next version: they hold for events after the latest
one that was read. Those that stay as they are go on with their state; others begin without.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from situ.core.errors import QueryError, SituError
from situ.core.time import BEGINNING
from situ.graph.query import Query
from situ.lang.parse import parse
from situ.lang.unparse import unparse
from situ.runtime.sites.carrying import carried_on
from situ.runtime.sites.compiled_plan import compile_plan
from situ.runtime.sites.deployed_plan import DeployedPlan, NamedFunction, OperatorPlace, plan_of_json, plan_to_json
from situ.runtime.sites.messages import Done, Go, Prepare, Prepared
from situ.runtime.sites.process.site_process import SOURCE, SiteProcess, SiteSetup
from situ.runtime.sites.sinks.sink import SiteSink
from situ.runtime.sites.sources.source import SiteSource
from situ.runtime.sites.sqlite_journal import SqliteJournal
from situ.runtime.sites.wire.identity import Identities
from situ.service.rules import Change, rules_of

NAME = "here"
#: A new version begins so long after the latest event that was read, in microseconds: at first right after it, and if
#: more was read meanwhile, later.
_AFTER_US = (1, 1_000, 100_000, 1_000_000, 10_000_000)


@dataclass
class SiteAlone:
    """A site that talks to nobody. `functions` are those that rules call, by name."""

    journal: SqliteJournal
    streams: Sequence[str]
    open_source: Callable[[str, DeployedPlan], SiteSource]
    open_sink: Callable[[DeployedPlan], SiteSink]
    functions: tuple[NamedFunction, ...] = ()
    ended: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._may_read = threading.Event()
        setup = SiteSetup(
            NAME,
            None,
            {},
            Identities.of(NAME, [NAME], None),
            dict.fromkeys(self.streams, (SOURCE,)),
            lambda stream, _, plan: self.open_source(stream, plan),
            self.open_sink,
            may_read=self._may_read,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        self.process = SiteProcess(setup, self.journal)
        plans = {int(name.partition("/")[2]): text for name, text in self.journal.values().items() if _is_plan(name)}
        self._running = plan_of_json(plans[max(plans)]) if plans else None
        #: The rules in force; None before the first start.
        self.query: Query | None = parse(self._running.query) if self._running is not None else None
        self._thread = threading.Thread(target=self._run, name="situ-site", daemon=True)
        self._thread.start()

    def begin_to_read(self) -> None:
        """Lets sources be read. Not before: rules that are new at a start hold for all that is read after it."""
        self._may_read.set()

    def report(self) -> dict[str, Any]:
        """What the site reports."""
        return self.process.report()

    def take_rules(self, query: Query) -> Change | None:
        """Lets rules come into force; None if these are. SituError if they cannot: then nothing has changed."""
        if self.query is not None and unparse(query) == unparse(self.query):
            return None
        if not rules_of(query):
            raise QueryError("there is no rule", remedy="Write a `subscribe` into the query file, or keep one.")
        change = change_between(self.query, query)
        version = int(self.report()["version"]) + 1
        reason = ""
        # All that takes its time comes before the times are looked at: sources read on.
        plan = self._plan(query, version)
        if self._running is not None:
            plan = carried_on(plan, self._running)
        compile_plan(plan)  # an error of the query has a place, which a site's answer has not
        for after_us in _AFTER_US:
            latest = [s["latest_us"] for s in self.report()["sources"].values() if isinstance(s["latest_us"], int)]
            plan = plan.starting_at(BEGINNING if self.query is None else max(latest, default=0) + after_us)
            prepared = self.process.ask(Prepare(plan_to_json(plan)))
            assert isinstance(prepared, Prepared)
            if prepared.ready:
                done = self.process.ask(Go(version, plan.digest))
                assert isinstance(done, Done)
                if not done.done:
                    raise SituError(done.reason)
                self.query, self._running = query, plan
                return change
            reason = prepared.reason
        raise SituError(reason)

    def _plan(self, query: Query, version: int) -> DeployedPlan:
        return DeployedPlan(
            version,
            unparse(query),
            {stream.name: (NAME,) for stream in query.streams},
            {rule.name: OperatorPlace(NAME) for rule in rules_of(query)},
            (NAME,),
            self.functions,
        )

    def has_done_all(self) -> bool:
        """Whether sources have nothing more for now, and all results of what they had are written."""
        if not self.process.has_read_all:
            return False
        logs = [log for version in self.report()["versions"].values() for log in version["made"].values()]
        return all(reader["committed"] == log["events"] for log in logs for reader in log["readers"].values())

    def close(self) -> None:
        self.process.stop()
        self._may_read.set()
        self._thread.join()
        self.journal.close()

    def _run(self) -> None:
        try:
            self.process.run()
        except BaseException as error:
            self.error = error
        finally:
            self.ended.set()


def _is_plan(name: str) -> bool:
    return name.startswith("plan/")


def change_between(before: Query | None, after: Query) -> Change:
    """The names of rules that come, go, and become others."""
    old = {rule.name: rule for rule in rules_of(before)} if before else {}
    new = {rule.name: rule for rule in rules_of(after)}
    return Change(
        added=tuple(name for name in new if name not in old),
        replaced=tuple(name for name in new if name in old and new[name] != old[name]),
        removed=tuple(name for name in old if name not in new),
    )
