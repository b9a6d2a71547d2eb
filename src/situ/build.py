"""Queries in Python, without text: `from situ.build import define, detect, query, stream, subscribe`.

The words are those of `situ.lang.build`, under a name that is easy to remember; docs/python.md has all of them.
"""

from situ.lang.build import *  # noqa: F403
from situ.lang.build import __all__ as __all__
