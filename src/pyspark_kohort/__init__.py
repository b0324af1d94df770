"""Kafka consumer groups for Spark: `spark.readStream.format("kohort")`.

Spark finds `DefaultSource` by this package's name, and imports every `pyspark_*` package to do so: keep it light. Where
it does not look, as over Spark Connect, `register(spark)` does the same.
"""

from typing import TYPE_CHECKING

from pyspark_kohort.session import session
from pyspark_kohort.source import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "register", "session"]


def register(spark: "SparkSession") -> None:
    """Make `format("kohort")` known to a session that did not find it by itself."""
    spark.dataSource.register(DefaultSource)
