"""Spark session for a command, in this process's JVM, with Spark's messages in a file."""

import contextlib
import os
import secrets
import signal
import sys
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
    # A job of a minute ends before the second compiler pays off: on two cores it used as much CPU as the tasks.
    # Classes fill more than the metaspace with which the JVM begins: each enlargement is a full collection.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC -XX:MetaspaceSize=256m",
    # Tables are small after commits are summed up: replanning each stage costs more than it could save.
    "spark.sql.adaptive.enabled": "false",
    # Several concurrent writers replace a sort of the whole history by the kind of its rows.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    "spark.sql.session.timeZone": "UTC",
    # A few per core are enough for the rows left after commits are summed up; Spark's default of 200 costs seconds.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}
_LOCAL_SMALL = _LOCAL | {
    # Compiling some forty plans took a third of the CPU time; few rows pass through each.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}


@contextlib.contextmanager
def running_spark(master: str | None, name: str, *, small: bool = False) -> Iterator["SparkSession"]:
    """Yield a session that stops with the block; under `spark-submit`, the submitted one with its settings.

    `small` chooses settings for a job of few rows, whose cost is mostly planning and start.
    Spark's processes write errors to stderr that a user cannot prevent, such as a broken pipe for
    each Python process that is released. Here they are written to a file, which is kept if Spark
    fails.
    """
    from pyspark_kohort import session

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = session(master, name, {})
        try:
            yield spark
        finally:
            spark.stop()
        return
    import tempfile

    path = Path(tempfile.gettempdir()) / f"kohort-spark-{secrets.token_hex(8)}.log"

    def interrupted() -> None:
        # Both before anything else: the process may end at any time after a signal.
        path.unlink(missing_ok=True)
        _end_descendants()

    if interruption.installed():
        interruption.on_begin(interrupted)  # before the file exists: a signal may arrive as soon as it does
    with open(path, "x+", opener=_private) as log:
        try:
            with _stderr_into(log.fileno()):
                spark = session(master or "local[*]", name, _LOCAL_SMALL if small else _LOCAL)
        except KeyboardInterrupt:
            path.unlink(missing_ok=True)
            raise
        except Exception as error:
            if interruption.begun():
                raise interruption.Interrupted(interruption.exit_code() - 128) from error
            raise KohortError(f"Spark did not start, see {path}: {_first_line(error)}") from error
        try:
            spark.sparkContext.setLogLevel("ERROR")
            if interruption.installed():
                interruption.install()  # Spark has replaced the SIGINT handler
            yield spark
        finally:
            # After a signal the JVM cleans up by itself; stopping the session in order takes seconds.
            if not interruption.begun():
                spark.stop()
    path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    """Open a file that only this user may read."""
    return os.open(path, flags, 0o600)


def _end_descendants() -> None:
    """Send SIGTERM to the JVM and to the scripts that start it.

    A JVM that is still starting would not notice the end of this process: its gateway waits for a
    connection, and writes the port to a directory that no longer exists.
    """
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):  # the process may have ended
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, ending = {os.getpid()}, list[int]()
    while more := [number for number, parent in parents.items() if parent in found and number not in found]:
        found.update(more)
        ending += more
    for number in ending:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGTERM)


@contextlib.contextmanager
def _stderr_into(descriptor: int) -> Iterator[None]:
    """Redirect stderr to the descriptor; processes started inside keep writing to it while they run."""
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
