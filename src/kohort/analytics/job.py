"""The batch job: a history in, tables as Parquet and a report out.

The history is read and decoded once and kept as rows below `--out`; every table is computed from it, written, and read
back by the tables that build on it. So a run that died can be looked at, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.analytics.arrow_functions import mapped
from kohort.analytics.ends import ENDS_DDL
from kohort.analytics.journal import journal_rows
from kohort.analytics.savings import savings
from kohort.analytics.schema import HISTORY_DDL, RAW
from kohort.analytics.source import HistorySource
from kohort.analytics.tables import STEPS
from kohort.errors import ConfigError
from kohort.recorder import JOURNAL_TOPIC
from pyspark_kohort import options as reading_options
from pyspark_kohort.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MINUTE_MS = 60_000

Told = Callable[[str], None]
"""Takes the name of the table that is begun."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What counts as what. Times in milliseconds."""

    window_ms: int = MINUTE_MS
    """Of commit rates and lag; one row per partition, group and window in which there was a commit."""
    return_ms: int = 10 * MINUTE_MS
    """A member that comes back within this time has returned."""
    episode_ms: int = 60 * MINUTE_MS
    """Returns no further apart are one episode."""
    least_returns: int = 3
    """A member flaps when an episode has so many returns."""
    burst_ms: int = 5 * MINUTE_MS
    """Rebalances no further apart are one burst."""
    least_rebalances: int = 5
    """A group thrashes when a burst has so many rebalances."""

    def as_text(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in self.__slots__}


def from_cluster(spark: SparkSession, bootstrap: str, settings: Settings) -> DataFrame:
    """The history in a cluster's `__consumer_offsets`."""
    return _reader(spark, settings).option("kafka.bootstrap.servers", bootstrap).load()  # type: ignore[attr-defined, no-any-return]


def from_segments(spark: SparkSession, path: str, settings: Settings) -> DataFrame:
    """The history in copies of brokers' data directories, somewhere below `path`, which every executor sees."""
    return _reader(spark, settings).option("path", path).load()  # type: ignore[attr-defined, no-any-return]


def from_raw(raw: DataFrame, settings: Settings) -> DataFrame:
    """The history in raw records from anywhere: columns key, value, partition, offset and timestamp.

    Records of one shard must come in order within a task, as they do where an archive was written by the source.
    """
    missing = set(RAW.names) - set(raw.columns)
    if missing:
        raise ConfigError(f"Raw records have the columns {', '.join(RAW.names)}; {min(missing)} is missing.")
    return decoded(raw.select(*RAW.names), settings.window_ms)


def decoded(raw: DataFrame, window_ms: int) -> DataFrame:
    """Rows of the history from the columns of `RAW`; also of a stream, whose batches are then summed up each alone."""

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from kohort.analytics.decoding import Decoder

        return Decoder(window_ms).decode(batches)

    return mapped(raw, decode, HISTORY_DDL)


def journal_of_cluster(spark: SparkSession, bootstrap: str) -> DataFrame | None:
    """The records of the journal, where the cluster has one."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": JOURNAL_TOPIC}
    cluster = Cluster(reading_options.parse(options, streaming=False).broker)
    try:
        there = cluster.partitions(reading_options.Topics(pattern=JOURNAL_TOPIC))
    finally:
        cluster.close()
    return spark.read.format("kohort").options(**options).schema("value BINARY").load() if there else None


def _reader(spark: SparkSession, settings: Settings) -> object:
    spark.dataSource.register(HistorySource)
    return spark.read.format(HistorySource.name()).option("windowMs", settings.window_ms)


def analyse(
    history: DataFrame,
    out: str,
    settings: Settings,
    *,
    ends: Callable[[], DataFrame] | None = None,
    journal: DataFrame | None = None,
    told: Told = lambda name: None,
) -> None:
    """Write the rows of the history and all tables below `out`, each a directory of Parquet named as the table.

    `ends` says where topics ended at the edges of windows, and is called when the view `history` is there; without it
    the table `lag` stays empty. `journal` has the records of `__kohort_rebalances` in its column `value`.
    """
    spark = history.sparkSession
    told("history")
    history.write.mode("overwrite").partitionBy("kind").parquet(f"{out}/history")
    # A kind that has no rows has no directory, so the schema is told and not inferred.
    spark.read.schema(HISTORY_DDL).parquet(f"{out}/history").createOrReplaceTempView("history")
    found = ends() if ends is not None else spark.createDataFrame([], ENDS_DDL)
    found.createOrReplaceTempView("ends")
    for step in STEPS:
        view = spark.sql(step.sql.format(**settings.as_text()))
        if step.kept:
            view = _kept(view, f"{out}/{step.name}", step.name, told)
        view.createOrReplaceTempView(step.name)
    _kept(savings(spark), f"{out}/savings", "savings", told).createOrReplaceTempView("savings")
    if journal is not None:
        _kept(journal_rows(journal), f"{out}/journal", "journal", told).createOrReplaceTempView("journal")


def _kept(view: DataFrame, target: str, name: str, told: Told) -> DataFrame:
    """The same rows, computed and written once."""
    told(name)
    view.write.mode("overwrite").parquet(target)
    return view.sparkSession.read.parquet(target)
