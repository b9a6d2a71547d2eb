"""Whether keys of DataFrames are divided by slices of time (`situ.runtime.spark.plan.sliced_keys`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from situ.core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The setting of a session: a key is `whole`, the default, or in `slices`.
SETTING = "spark.situ.keys"


def keys_are_sliced(session: SparkSession) -> bool:
    """What the session says."""
    text = session.conf.get(SETTING, "whole") or "whole"
    if text not in ("whole", "slices"):
        raise InputError(f"{SETTING} cannot be {text!r}", remedy="It is whole or slices.")
    return text == "slices"
