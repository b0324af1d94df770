"""A Spark session with the settings that this source is fast with."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark_kohort import home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # By loopback TCP every Python task waits some 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # The option filterPushdown needs it; it concerns no reader that does not ask for filters.
    "spark.sql.python.filterPushdown.enabled": "true",
}


def register(spark: "SparkSession") -> None:
    """Make `format("kohort")` known to a session, and in the thread that calls this.

    The source then plans as many tasks as Spark runs at once; a source that Spark finds by itself knows only the cores
    of the driver's host. Where Spark looks up what to write with it knows only the thread's active session: that of the
    thread that made the session, and of one that made a DataFrame from Python's data.
    """
    _register(spark)
    spark.createDataFrame([], "nothing int")


def _register(spark: "SparkSession") -> None:
    from pyspark_kohort.source import DefaultSource, with_slots

    slots = _slots(spark)
    if slots is None:
        spark.dataSource.register(DefaultSource)
    else:
        _without_warning(spark)
        spark.dataSource.register(with_slots(slots))


def _slots(spark: "SparkSession") -> int | None:
    """Tasks that Spark runs at once. Executors of a cluster may still be starting: then what its settings promise.

    None over Spark Connect, whose server may be anywhere.
    """
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except PySparkException:
        return None
    conf = context.getConf()
    promised = int(conf.get("spark.executor.instances") or 0) * int(conf.get("spark.executor.cores") or 1)
    return max(context.defaultParallelism, promised)


def _without_warning(spark: "SparkSession") -> None:
    """Spark would warn that this source replaces the one that it has found by itself, as is meant."""
    logging: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    name = "org.apache.spark.sql.execution.datasources.DataSourceManager"
    logging.core.config.Configurator.setLevel(name, logging.Level.ERROR)


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
        spark = builder.getOrCreate()
    _register(spark)
    return spark


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
