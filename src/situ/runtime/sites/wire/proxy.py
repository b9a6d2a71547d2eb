"""Links of a network, emulated on one machine: a proxy for each direction that delays, limits and cuts.

A proxy works on TCP, below TLS, so that what it does to bytes is what a real link would do. Delays come from a seed;
how fast a machine answers does not, so tests assert what arrives, and never when.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from situ.runtime.sites.wire.outgoing import SiteAddress

#: Bytes that are read at once, and that may be on their way in one direction of a connection.
_CHUNK, _ON_THE_WAY = 1 << 18, 16 << 20
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class LinkQuality:
    """What a link does to bytes, in each direction: delay, how much that varies, how many it carries."""

    latency_ms: float = 0.0
    jitter_ms: float = 0.0
    bytes_per_s: float | None = None
    seed: int = 0


class Proxies:
    """Proxies that run in one thread, until they are closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._proxies: list[LinkProxy] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="situ-links", daemon=True)
        self._thread.start()

    def open(self, target: SiteAddress, quality: LinkQuality, host: str = "127.0.0.1") -> LinkProxy:
        """A proxy before a target, at a port of its own."""
        proxy = LinkProxy(self, target, quality)
        proxy.address = SiteAddress(host, self.call(proxy.listen(host)))
        self._proxies.append(proxy)
        return proxy

    def call(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        """Does something in the thread of the proxies, and waits for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        for proxy in self._proxies:
            self.call(proxy.end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class LinkProxy:
    """One direction of one link: connections to its address reach the target as late as over the link."""

    address: SiteAddress

    def __init__(self, proxies: Proxies, target: SiteAddress, quality: LinkQuality) -> None:
        self._proxies, self.target, self.quality = proxies, target, quality
        self._random = random.Random(quality.seed)
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._refuses = False
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        #: Bytes that went to the target.
        self.bytes = 0

    def cut(self, *, reset: bool = False) -> None:
        """Nothing passes any more. Bytes on their way wait, as TCP would repeat them; with `reset`, connections
        break, and new ones are refused."""
        self._proxies.call(self._cut(reset))

    def heal(self) -> None:
        """Everything passes again."""
        self._proxies.call(self._heal())

    async def _cut(self, reset: bool) -> None:
        self._is_whole.clear()
        self._refuses = reset
        if reset:
            for writer in list(self._open):
                writer.transport.abort()

    async def _heal(self) -> None:
        self._refuses = False
        self._is_whole.set()

    async def listen(self, host: str) -> int:
        self._server = await asyncio.start_server(self._serve, host, 0, limit=_CHUNK)
        return int(self._server.sockets[0].getsockname()[1])

    async def end(self) -> None:
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(self.target.host, self.target.port, limit=_CHUNK)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        ways = [self._carry(reader, back, counted=True), self._carry(there, writer, counted=False)]
        self._tasks |= (tasks := {asyncio.ensure_future(way) for way in ways})
        try:
            # When one direction breaks, the other has nobody to talk to.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._tasks -= tasks
            for end in (writer, back):
                end.transport.abort()
            self._open -= {writer, back}

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool) -> None:
        """Carries the bytes of one direction, until it ends or breaks."""
        way = _Way()
        read = asyncio.ensure_future(self._read(reader, way))
        try:
            with suppress(OSError):
                while (piece := await way.next()) is not None:
                    due, data = piece
                    delay = due - asyncio.get_running_loop().time()
                    if delay > 0:
                        await asyncio.sleep(delay)
                    await self._is_whole.wait()
                    if counted:
                        self.bytes += len(data)  # before anybody can have read them
                    writer.write(data)
                    await writer.drain()
        finally:
            read.cancel()

    async def _read(self, reader: asyncio.StreamReader, way: _Way) -> None:
        last_due = 0.0
        quality = self.quality
        try:
            while data := await reader.read(_CHUNK):
                delay_s = (quality.latency_ms + self._random.uniform(0, quality.jitter_ms)) / 1000
                due = max(asyncio.get_running_loop().time() + delay_s, last_due)  # bytes do not overtake each other
                if quality.bytes_per_s:
                    due = max(due, last_due + len(data) / quality.bytes_per_s)
                last_due = due
                await way.put(due, data)
        except OSError:
            pass
        finally:
            way.end()


@dataclass
class _Way:
    """What is on its way in one direction: when it is due, and the bytes."""

    pieces: deque[tuple[float, bytes]] = field(default_factory=deque)
    size: int = 0
    ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, due: float, data: bytes) -> None:
        """Adds a piece, and waits while too much is on its way."""
        self.pieces.append((due, data))
        self.size += len(data)
        self.changed.set()
        while self.size > _ON_THE_WAY:
            self.changed.clear()
            await self.changed.wait()

    async def next(self) -> tuple[float, bytes] | None:
        while not self.pieces:
            if self.ended:
                return None
            self.changed.clear()
            await self.changed.wait()
        due, data = self.pieces.popleft()
        self.size -= len(data)
        self.changed.set()
        return due, data

    def end(self) -> None:
        self.ended = True
        self.changed.set()
