"""Spark data source for Kafka consumer groups: `spark.readStream.format("kohort")`.

Spark finds `DefaultSource` by the name of this package. To do so it imports every `pyspark_*`
package, so keep this one light. Spark does not search over Spark Connect, nor in threads that write;
`register(spark)` makes the source known there. It also passes the number of tasks that Spark runs at
once to the source.
"""

from pyspark_kohort.data_source import DefaultSource
from pyspark_kohort.spark_session import register, session

__all__ = ["DefaultSource", "register", "session"]
