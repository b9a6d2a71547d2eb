"""Which engine a command runs on, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal as OneOf
from typing import TypeAlias

from situ.core.errors import InputError
from situ.core.memory import parse_memory

Engine: TypeAlias = OneOf["spark", "embedded"]


@dataclass(frozen=True, slots=True)
class OnSpark:
    """A Spark to run on: where (None: as Spark's own files say, else on this machine), and its settings."""

    master: str | None
    conf: dict[str, str]

    @property
    def is_here(self) -> bool:
        """Does it run on this machine, as far as the command line says?"""
        return self.master is None or self.master.startswith("local")


def chosen_engine(engine: Engine | None) -> Engine:
    """The one that is asked for, else Spark where it is installed."""
    return engine or ("spark" if find_spec("pyspark") else "embedded")


def chosen_spark(
    engine: Engine | None, master: str | None, conf: Sequence[str], memory: str | None = None
) -> OnSpark | None:
    """What --engine, --master, --conf and --memory ask for; None is the embedded engine.

    >>> chosen_spark("spark", "local[2]", ["spark.sql.shuffle.partitions=8"])
    OnSpark(master='local[2]', conf={'spark.sql.shuffle.partitions': '8'})
    """
    spark_options = ["--master"] * (master is not None) + ["--conf"] * bool(conf)
    if engine == "embedded" and spark_options:
        raise InputError(
            f"{spark_options[0]} is for the Spark engine, and the embedded one is asked for",
            remedy=f"Leave out {' and '.join(spark_options)}, or say --engine spark.",
        )
    if not spark_options and chosen_engine(engine) == "embedded":
        return None
    settings = settings_of(conf)
    if memory is not None:
        parse_memory(memory)  # wrong ones are said at once
        settings["spark.situ.memory"] = memory
    return OnSpark(master, settings)


def settings_of(conf: Sequence[str]) -> dict[str, str]:
    """What --conf says, given several times."""
    return dict(map(_setting, conf))


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    key = key.strip()
    remedy = "Write it as KEY=VALUE: --conf spark.sql.shuffle.partitions=8"
    if not equals or not key:
        raise InputError(f"--conf '{text}' is no setting", remedy=remedy)
    if not key.startswith("spark."):
        raise InputError(f"--conf '{text}': the names of Spark's settings begin with 'spark.'", remedy=remedy)
    return key, value.strip()
