"""The embedded engine: one process, no JVM."""

from situ.runtime.embedded.engine import Engine, Output

__all__ = ["Engine", "Output"]
