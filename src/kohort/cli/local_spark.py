"""Spark for a command: in this process's JVM, with what it has to say in a file instead of between our lines."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kohort import interruption
from kohort.errors import KohortError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "3g",
    # A job of a minute ends before the second compiler has paid: of two cores it took as much as the tasks.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    # Tables are small once commits were summed up: planning each stage anew costs more than it could save.
    "spark.sql.adaptive.enabled": "false",
    # Some writers at a time instead of a sort of the whole history by the kind of its rows.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.sql.session.timeZone": "UTC",
    # As many as there are cores are enough for what is left after commits were summed up; Spark's 200 cost seconds.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}


@contextlib.contextmanager
def running_spark(master: str | None, name: str) -> Iterator["SparkSession"]:
    """A session that ends with the block; under `spark-submit` the one that was submitted, with its settings.

    Spark's processes write on stderr what a user cannot help, as a broken pipe for each Python process that is let go.
    Here that goes into a file, which is left for who wants to know why Spark failed.
    """
    from pyspark_kohort import session

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = session(master, name, {})
        try:
            yield spark
        finally:
            spark.stop()
        return
    with tempfile.NamedTemporaryFile("w+", prefix="kohort-spark-", suffix=".log", delete=False) as log:
        try:
            with _stderr_into(log.fileno()):
                spark = session(master or "local[*]", name, _LOCAL)
        except KeyboardInterrupt:
            Path(log.name).unlink()
            raise
        except Exception as error:
            raise KohortError(f"Spark did not start, see {log.name}: {_first_line(error)}") from error
        try:
            spark.sparkContext.setLogLevel("ERROR")
            if interruption.installed():
                interruption.install()  # Spark took SIGINT over
            yield spark
        finally:
            if interruption.begun():
                # The JVM ends by itself, and tidies up, when this process is gone; to stop it in order takes seconds.
                Path(log.name).unlink()
            else:
                spark.stop()
    Path(log.name).unlink()


@contextlib.contextmanager
def _stderr_into(descriptor: int) -> Iterator[None]:
    """What is started inside writes its errors there, for as long as it lives."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
        os.close(ours)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
