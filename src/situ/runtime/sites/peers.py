"""Who the other sites are: each introduces itself in its present life before it is believed.

A life is one run of a site's process on its directory. A site tells all its lives, each with how far its logs had come
when it began. A reader remembers the life from which it last read: if what followed that life began with less than the
reader has, the directory was set back to an old copy, and numbers would mean other events than they did.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from situ.runtime.sites.messages import Hello, Incarnation

#: Lives that a site remembers: a reader that was away for more of them has to be set up anew.
MOST_LIVES = 200


@dataclass(slots=True)
class Peer:
    """Another site: the life in which it was heard last, and those before; whether it knows this site's present life;
    and why it wants nothing to do with it, or this site with it."""

    life: str = ""
    past_lives: frozenset[str] = frozenset()
    greeted: bool = False
    hello_at: float | None = None
    refused_by: str = ""
    refused: str = ""


def reason_to_refuse(site: str, remembered: str, hello: Hello, positions: Mapping[str, int]) -> str:
    """Why a site that says hello cannot be read any more; nothing, if it can.

    `remembered` is the life that was read last ("" if none was), `positions` are those in its logs.

    >>> lives = (Incarnation("a", {}), Incarnation("b", {"events/A/north/1": 300}))
    >>> hello = Hello(lives, 1, "", 0, False)
    >>> reason_to_refuse("north", "a", hello, {"events/A/north/1": 300})
    ''
    >>> reason_to_refuse("north", "a", hello, {"events/A/north/1": 500})
    'north was set back: it began with 300 events of events/A/north/1, of which 500 were read here'
    """
    if not remembered or not any(positions.values()):
        return ""
    words = [life.word for life in hello.lives]
    if remembered not in words:
        return f"{site} was set back, or set up anew: it knows nothing of the life in which it was read here"
    following = words.index(remembered) + 1
    if following == len(words):
        return ""
    ends = hello.lives[following].ends
    for log, position in positions.items():
        if position > ends.get(log, 0):
            began = ends.get(log, 0)
            return f"{site} was set back: it began with {began} events of {log}, of which {position} were read here"
    return ""


def lives_to_json(lives: Sequence[Incarnation]) -> str:
    return json.dumps([[life.word, dict(life.ends)] for life in lives])


def lives_of_json(text: str) -> list[Incarnation]:
    return [Incarnation(word, ends) for word, ends in json.loads(text)]
