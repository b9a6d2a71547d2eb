"""Whether matches that are only counted or summed are left unmade (`situ.graph.tallies`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from situ.core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The setting of a session: `true`, the default, or `false`, by which all matches are made.
SETTING = "spark.situ.tallies"


def tallies_setting(session: SparkSession) -> bool:
    """What the session says."""
    text = (session.conf.get(SETTING, "true") or "true").lower()
    if text not in ("true", "false"):
        raise InputError(f"{SETTING} cannot be {text!r}", remedy="It is true or false.")
    return text == "true"
