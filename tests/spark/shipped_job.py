"""A job that brings kohort along in a zip file: its batch and its stream run on executors that have none.

    spark-submit --py-files kohort.zip shipped_job.py '{"bootstrap": ..., "topic": ..., "group": ..., "home": ...}'

It imports nothing of the tests. The last line of its output is JSON: records by batch and by stream, and the files from
which executors have imported the source.
"""

import json
import sys

from pyspark.sql import SparkSession

import pyspark_kohort


def imported_from(rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    import pyspark_kohort.source.fetch

    yield pyspark_kohort.source.fetch.__file__


def main() -> None:
    asked: dict[str, str] = json.loads(sys.argv[1])
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    pyspark_kohort.register(spark)
    options = {"kafka.bootstrap.servers": asked["bootstrap"], "subscribe": asked["topic"], "minPartitions": "2"}
    batch = spark.read.format("kohort").options(**options).load().count()
    options |= {"kafka.group.id": asked["group"], "startingOffsets": "earliest"}
    writer = spark.readStream.format("kohort").options(**options).load().writeStream.format("noop")
    query = writer.option("checkpointLocation", f"{asked['home']}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    files = spark.sparkContext.parallelize(range(4), 4).mapPartitions(imported_from).distinct().collect()
    streamed = sum(found.numInputRows for found in query.recentProgress)
    print(json.dumps({"batch": batch, "stream": streamed, "files": files}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
