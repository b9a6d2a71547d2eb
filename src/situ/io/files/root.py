"""A file or directory as somebody wrote it, and where it really is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True)
class Root:
    """A file or directory as the user wrote it. Tasks run elsewhere, so they are told where it really is."""

    given: str
    absolute: str

    @classmethod
    def of(cls, path: Path) -> Self:
        # A link keeps its name, because the suffix says the format. Spark would take `..` out of a path by itself.
        named = path.name not in ("", "..")
        return cls(str(path), str(path.parent.resolve() / path.name if named else path.resolve()))

    def absolute_path(self, file: Path) -> str:
        """Where a file really is that was found below the root."""
        return str(Path(self.absolute, file.relative_to(self.given)))

    def shown(self, text: str) -> str:
        """A text that begins with an absolute path, with the path as the user would write it."""
        if not text.startswith(self.absolute):
            return text
        below = text.removeprefix(self.absolute)
        return str(Path(self.given, below.lstrip("/"))) if below.startswith("/") else self.given + below

    def shown_uri(self, uri: str) -> str:
        """
        >>> Root("data", "/home/me/data").shown_uri("file:///home/me/data/a%20b.parquet")
        'data/a b.parquet'
        """
        return self.shown(unquote(urlsplit(uri).path))
