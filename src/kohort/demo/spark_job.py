"""Spark process of the demo: a member of `delays-spark` that writes delays per month as Parquet.

The stream writes each flight once to `flights/`, joined with the airlines' names. A batch job sums
the flights up in `delays/`.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kohort.demo.processes import read_client_options
from pyspark_kohort import session

_FLIGHT = "carrier STRING, month INT, arr_delay INT"


def quiet_session(directory: Path) -> SparkSession:
    """Return a session with two cores, without Spark's web UI, that logs only errors."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    spark = session("local[2]", "kohort demo", settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def land(
    spark: SparkSession,
    connection: Mapping[str, str],
    group: str,
    topic: str,
    airlines: Path,
    directory: Path,
) -> None:
    """Write all available uncommitted flights, then stop (Trigger.AvailableNow). `connection` names the brokers."""
    checkpoint = str(directory / "checkpoint")
    records = (
        spark.readStream.format("kohort")
        .options(**connection)
        .option("kafka.group.id", group)
        .option("groupMode", "member")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("checkpointLocation", checkpoint)
        .load()
    )
    flights = records.select(
        f.from_json(f.col("value").cast("string"), _FLIGHT).alias("flight"), "timestamp", "partition", "offset"
    ).select("flight.*", "timestamp", "partition", "offset")
    names = spark.read.csv(str(airlines), header=True)
    query = (
        flights.join(f.broadcast(names), "carrier", "left")
        .writeStream.format("parquet")
        .option("path", str(directory / "flights"))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def summarise(spark: SparkSession, directory: Path) -> DataFrame:
    """Write and return the flights and minutes of delay per carrier and month."""
    landed = spark.read.parquet(str(directory / "flights"))
    delays = landed.groupBy("carrier", "name", "month").agg(
        f.count("*").alias("flights"), f.coalesce(f.sum("arr_delay"), f.lit(0)).alias("arrival_delay")
    )
    delays.coalesce(1).write.mode("overwrite").parquet(str(directory / "delays"))
    return spark.read.parquet(str(directory / "delays"))


def main() -> int:
    """For each line on stdin, write new flights, sum up, and print the totals per carrier as a JSON line."""
    parser = argparse.ArgumentParser(description="The Spark query of the demo.")
    for name in ("bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--airlines", type=Path, required=True)
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--command-config", type=Path)
    given = parser.parse_args()
    options = {"bootstrap.servers": given.bootstrap, **read_client_options(given.command_config)}
    connection = {f"kafka.{name}": value for name, value in options.items()}
    spark = quiet_session(given.directory)
    for _ in sys.stdin:
        began = time.monotonic()
        land(spark, connection, given.group, given.topic, given.airlines, given.directory)
        totals = summarise(spark, given.directory).groupBy("carrier").agg(f.sum("flights"), f.sum("arrival_delay"))
        report = {
            "seconds": round(time.monotonic() - began, 1),
            "carriers": {carrier: [flights, delay] for carrier, flights, delay in totals.collect()},
        }
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
