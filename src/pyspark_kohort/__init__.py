"""Kafka consumer groups for Spark: `spark.readStream.format("kohort")`.

Spark finds `DefaultSource` by this package's name, and imports every `pyspark_*` package to do so: keep it light. Where
it does not look, as over Spark Connect, and in threads that write, `register(spark)` does the same.
"""

from typing import TYPE_CHECKING

from pyspark_kohort.session import session
from pyspark_kohort.source import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "register", "session"]


def register(spark: "SparkSession") -> None:
    """Make `format("kohort")` known to a session that did not find it by itself, and in the thread that calls this.

    Where Spark looks up what to write with it knows only the thread's active session: that of the thread that made the
    session, and of one that made a DataFrame from Python's data.
    """
    spark.dataSource.register(DefaultSource)
    spark.createDataFrame([], "nothing int")
