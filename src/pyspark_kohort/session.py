"""A Spark session with the settings that this source is fast with."""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # By loopback TCP every Python task waits some 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # The option filterPushdown needs it; it concerns no reader that does not ask for filters.
    "spark.sql.python.filterPushdown.enabled": "true",
}


def session(master: str | None = None, name: str = "kohort", settings: dict[str, str] | None = None) -> "SparkSession":
    """The session, made or found; `settings` are Spark's and win over ours.

    Spark runs its Python processes with `python3` from the PATH, where it finds neither this package nor the right
    versions when it was started from a virtual environment; so unless the user chose one, they get this interpreter.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in (SETTINGS | (settings or {})).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
