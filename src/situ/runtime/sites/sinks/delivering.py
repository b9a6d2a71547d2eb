"""Results to where they belong: what is found for an actor goes to his address, all else to the output of the site."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from situ.runtime.sites.messages import LogName
from situ.runtime.sites.sinks.sink import NumberedRows, SiteSink


class DeliveringSink:
    """Opens the sink of an actor, or the site's own, when the first rows come for it. `actor_of` says to whom the rows
    of a log go; None: to nobody in particular."""

    def __init__(
        self,
        actor_of: Callable[[LogName], str | None],
        actors: Mapping[str, Callable[[], SiteSink]],
        open_own: Callable[[], SiteSink],
    ) -> None:
        self._actor_of, self._actors, self._open_own = actor_of, actors, open_own
        self._open: dict[str | None, SiteSink] = {}

    def write(self, results: NumberedRows) -> None:
        actor = self._actor_of(results.log)
        if actor not in self._open:
            self._open[actor] = self._open_own() if actor is None else self._actors[actor]()
        self._open[actor].write(results)

    def close(self) -> None:
        for sink in self._open.values():
            sink.close()
