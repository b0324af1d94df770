"""One Spark session that runs the cases it reads from stdin, a JSON line each, and answers each by a JSON line.

`settings` of a case are the session's while it runs.

It also runs under the older Spark for which Maven has the JVM connector, and where there is no kohort.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    # A query that does not stop must not stop the comparison.
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}


def main() -> None:
    """Takes the connector's jars, comma-separated, or nothing: then it is ours."""
    spark = _with_jars(sys.argv[1]) if sys.argv[1] else _ours()
    spark.sparkContext.setLogLevel("OFF")
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        case, settings = CASES[asked.pop("case")], asked.pop("settings", {})
        for name, value in settings.items():
            spark.conf.set(name, value)
        print(json.dumps(case(spark, **asked)), flush=True)
        for name in settings:
            spark.conf.unset(name)
    spark.stop()


def _with_jars(jars: str) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("contestant").master("local[2]")
    for name, value in (SETTINGS | {"spark.jars": jars}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _ours() -> SparkSession:
    from pyspark_kohort import session

    return session("local[2]", "contestant", SETTINGS)


def _reader(spark: SparkSession, form: str, options: dict[str, str], schema: str | None) -> DataFrame:
    reader = spark.read.format(form).options(**options)
    return (reader.schema(schema) if schema else reader).load()


def batch(spark: SparkSession, form: str, options: dict[str, str], schema: str | None = None) -> dict[str, Any]:
    """Read everything once. `schema` narrows what is read where the source can; else a select does."""
    frame = _reader(spark, form, options, schema if form == "kohort" else None)
    if schema:
        frame = frame.select(schema.split()[0])
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return {"seconds": time.perf_counter() - begin}


def stream(spark: SparkSession, form: str, options: dict[str, str]) -> dict[str, Any]:
    """Trigger.AvailableNow to its end; the duration of each batch in ms, as Spark has it.

    A member is of a group of its own each time: the last one's has no records left to read.
    """
    home = tempfile.mkdtemp(prefix="bench-stream-")
    if "kafka.group.id" in options:
        options = options | {"kafka.group.id": f"{options['kafka.group.id']}-{uuid.uuid4().hex}"}
    given = options | ({"checkpointLocation": home} if form == "kohort" else {})
    begin = time.perf_counter()
    frame = spark.readStream.format(form).options(**given).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", home)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - begin
    batches = [(found.numInputRows, found.batchDuration) for found in query.recentProgress if found.numInputRows]
    phases: dict[str, list[int]] = {}
    for found in query.recentProgress[1:]:
        for name, spent in found.durationMs.items() if found.numInputRows else ():
            phases.setdefault(name, []).append(spent)
    shutil.rmtree(home, ignore_errors=True)
    return {"seconds": seconds, "batches": batches, "phases": phases}


def latency(spark: SparkSession, form: str, options: dict[str, str], seconds: int) -> dict[str, Any]:
    """Follow the topic's end for that long: for each batch how many records are done, and when, in s since 1970."""
    home = tempfile.mkdtemp(prefix="bench-latency-")
    given = options | ({"checkpointLocation": home} if form == "kohort" else {})
    frame = spark.readStream.format(form).options(**given).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", home).start()
    query.awaitTermination(seconds)  # it ends by itself only where it fails, and then says why
    query.stop()
    done = []
    for found in query.recentProgress:
        if not found.numInputRows:
            continue
        at = time.mktime(time.strptime(found.timestamp[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        at += float(found.timestamp[19:].rstrip("Z")) + found.durationMs["triggerExecution"] / 1000
        ends = json.loads(found.sources[0].endOffset)
        done.append(
            (sum(n for topic in ends.values() if isinstance(topic, dict) for p, n in topic.items() if p.isdigit()), at)
        )
    shutil.rmtree(home, ignore_errors=True)
    return {"done": done}


def sink(spark: SparkSession, form: str, options: dict[str, str], rows: int) -> dict[str, Any]:
    """Write that many rows of 100 bytes with 8-byte keys."""
    frame = spark.range(rows).selectExpr(
        "cast(lpad(cast(id as string), 8, '0') as binary) key", "cast(repeat('v', 100) as binary) value"
    )
    begin = time.perf_counter()
    frame.write.format(form).options(**options).mode("append").save()
    return {"seconds": time.perf_counter() - begin}


CASES: dict[str, Callable[..., dict[str, Any]]] = {"batch": batch, "stream": stream, "latency": latency, "sink": sink}


if __name__ == "__main__":
    main()
