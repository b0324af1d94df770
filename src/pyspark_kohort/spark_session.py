"""Spark session with the settings that make this source fast."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark_kohort import worker_environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    # Over loopback TCP, every Python task waits about 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # Required by the option filterPushdown; it does not affect readers that do not ask for filters.
    "spark.sql.python.filterPushdown.enabled": "true",
}
ON_ONE_HOST = {
    # Spark's default asks for links and sets permissions of local files by the programs `readlink` and `chmod`, 18
    # processes for the two files that a micro-batch adds to its checkpoint. This class, which Spark itself uses for
    # other file systems, starts 4. Both write a temporary file and its checksum, and rename them. On HDFS the
    # default starts none, and this one does not replace a file of a batch that is repeated.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings for a session whose driver and executors are one process (`local`)."""


def register(spark: "SparkSession") -> None:
    """Make `format("kohort")` known to a session, and to the thread that calls this function.

    With it, the source plans as many tasks as Spark runs at once. A source that Spark finds by
    itself knows only the number of cores of the driver's host. When Spark looks up the source for a
    write, it uses the active session of the thread. Only the thread that created the session, and
    threads that created a DataFrame from Python data, have one.
    """
    _register(spark)
    spark.createDataFrame([], "nothing int")


def _register(spark: "SparkSession") -> None:
    from pyspark_kohort.data_source import DefaultSource, with_slots

    slots = _slots(spark)
    if slots is None:
        spark.dataSource.register(DefaultSource)
    else:
        _without_warning(spark)
        spark.dataSource.register(with_slots(slots))


def _slots(spark: "SparkSession") -> int | None:
    """Return the number of tasks that Spark runs at once, or None over Spark Connect, whose server may run anywhere.

    The executors of a cluster may still be starting, so the number that the settings promise counts
    as well.
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
    """Suppress Spark's warning that this source replaces the one that Spark found by itself, which is intended."""
    logging: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    name = "org.apache.spark.sql.execution.datasources.DataSourceManager"
    logging.core.config.Configurator.setLevel(name, logging.Level.ERROR)


def session(master: str | None = None, name: str = "kohort", settings: dict[str, str] | None = None) -> "SparkSession":
    """Return a Spark session: the existing one, or a new one. `settings` are Spark's and override Kohort's.

    Spark runs its Python processes with the `python3` on the PATH. If Spark was started from a
    virtual environment, that interpreter has neither this package nor the right versions. So they
    get this interpreter, unless the user has chosen one. On a single host (`local`) they also find
    PySpark compiled (`worker_environment`), unless SPARK_HOME is set, and Spark writes checkpoints
    with fewer processes.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in settings_of(master, settings or {}).items():
        builder = builder.config(key, value)
    # The executors of a cluster may not have this folder, and those of a local cluster would keep their work
    # in it.
    with _compiled() if _is_one_process(master) else contextlib.nullcontext():
        spark = builder.getOrCreate()
    _register(spark)
    return spark


def settings_of(master: str | None, settings: dict[str, str]) -> dict[str, str]:
    """Return all settings of a new session: Kohort's and the user's, which override them."""
    return SETTINGS | (ON_ONE_HOST if _is_one_process(master) else {}) | settings


def _is_one_process(master: str | None) -> bool:
    return (master or "").partition("[")[0] == "local"


@contextlib.contextmanager
def _compiled() -> Iterator[None]:
    """Set SPARK_HOME while the JVM starts, which is when the JVM reads it."""
    if "SPARK_HOME" in os.environ or (chosen := worker_environment.environment_directory()) is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(chosen)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]
