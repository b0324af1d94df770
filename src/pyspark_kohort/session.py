"""A Spark session with the settings that this source is fast with."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark_kohort import home

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
    versions when it was started from a virtual environment; so unless the user chose one, they get this interpreter. On
    this host alone (`local`) they also find PySpark compiled (`home`), unless the user chose a SPARK_HOME.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in (SETTINGS | (settings or {})).items():
        builder = builder.config(key, value)
    # A cluster's executors may have no such folder, and those of a local one would keep their work in it.
    with _compiled() if (master or "").partition("[")[0] == "local" else contextlib.nullcontext():
        return builder.getOrCreate()


@contextlib.contextmanager
def _compiled() -> Iterator[None]:
    """The JVM takes its home from the environment when it is started."""
    if "SPARK_HOME" in os.environ or (chosen := home.made()) is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(chosen)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
