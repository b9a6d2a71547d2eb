"""What was made of an object, for as long as it is made of the same object under the same circumstances.

Of thousands of rules one changes: the others are the same objects as before, and need not be looked through, not even
to find out that they are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Given = TypeVar("Given")
Made = TypeVar("Made")


class IdentityCache(Generic[Item, Given, Made]):
    """Values by the identity of an object, which is kept, so that no other one gets it. The oldest are forgotten.

    >>> made = []
    >>> cache = IdentityCache(most=2)
    >>> rule = ["a rule"]
    >>> [cache.get(rule, given, lambda: made.append(given) or len(made)) for given in (1, 1, 2)]
    [1, 1, 2]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, tuple[Item, Given, Made]] = {}

    def get(self, item: Item, given: Given, make: Callable[[], Made]) -> Made:
        """What was made of `item`, if it was made of it before with an equal `given`; else what `make` makes."""
        known = self._known.get(id(item))
        if known is not None and known[0] is item and known[1] == given:
            return known[2]
        made = make()
        self._known[id(item)] = (item, given, made)
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]
        return made
