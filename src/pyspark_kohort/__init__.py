"""Kafka consumer groups for Spark: `spark.readStream.format("kohort")`.

Spark finds `DefaultSource` by this package's name, and imports every `pyspark_*` package to do so: keep it light. Where
it does not look, as over Spark Connect, and in threads that write, `register(spark)` does the same; it also tells the
source how many tasks Spark runs at once.
"""

from pyspark_kohort.session import register, session
from pyspark_kohort.source import DefaultSource

__all__ = ["DefaultSource", "register", "session"]
