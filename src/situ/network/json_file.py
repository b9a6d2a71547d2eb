"""Reads JSON files, and says of what is wrong where it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from situ.core.errors import SituError
from situ.network.network import suggestion

Object: TypeAlias = Mapping[str, Any]


class JsonFile:
    """A JSON file whose top is an object. `error`: the class of what is raised."""

    def __init__(self, path: Path, error: type[SituError]) -> None:
        self.path, self._error = path, error

    def read(self) -> Object:
        try:
            text = self.path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise self.wrong("", "is not UTF-8 text", "Write it as UTF-8.") from None
        except OSError as error:
            raise self.wrong("", f"cannot be read: {error.strerror}", "Name a JSON file.") from None
        try:
            return self.expect_object(json.loads(text, object_pairs_hook=self._once), "the top")
        except (ValueError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError):  # numbers or nesting beyond all measure
                raise self.wrong("", f"is not JSON that situ reads: {error}", "Simplify it.") from None
            place = f"{self.path}:{error.lineno}:{error.colno}"
            raise self._error(
                f"is not JSON: {error.msg}", place=place, remedy="Mend the text there, or just before."
            ) from None

    def wrong(self, where: str, cause: str, remedy: str) -> SituError:
        return self._error(cause, place=f"{self.path}: {where}" if where else str(self.path), remedy=remedy)

    def expect_object(self, value: object, where: str) -> Object:
        if isinstance(value, dict):
            return value
        raise self.wrong(where, f"is {_kind(value)}, not an object", "Write it as {...}.")

    def expect_objects(self, value: object, where: str) -> list[Object]:
        if not isinstance(value, list):
            raise self.wrong(where, f"is {_kind(value)}, not a list", "Write it as [...].")
        return [self.expect_object(each, f"{where}[{number}]") for number, each in enumerate(value)]

    def check_fields(self, value: Object, where: str, needed: Collection[str], optional: Collection[str]) -> None:
        for field in value:
            if field not in needed and field not in optional:
                raise self.wrong(where, f"has an unknown field {field!r}", suggestion(field, [*needed, *optional]))
        for field in needed:
            if field not in value:
                raise self.wrong(where, f"has no {field!r}", f"Give it: {', '.join(needed)}.")

    def expect_text(self, value: object, where: str) -> str:
        if isinstance(value, str):
            return value
        raise self.wrong(where, f"is {_kind(value)}, not a text", 'Write it as "...".')

    def expect_number(self, value: object, where: str) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        raise self.wrong(where, f"is {_kind(value)}, not a number", "Write a number, without quotes.")

    def _once(self, pairs: list[tuple[str, object]]) -> Object:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise self.wrong("", f"an object has {twice!r} twice", "Keep one of the two.")
        return value


def _kind(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, int | float):
        return f"the number {value}"
    return "a list" if isinstance(value, list) else "an object"
