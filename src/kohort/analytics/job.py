"""The batch job: a history in, tables out.

The history is read and decoded once and kept as rows beside the tables; every table is computed from it, written, and
read back by the tables that build on it. So a run that died can be looked at, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.analytics.arrow_functions import mapped
from kohort.analytics.ends import ENDS_DDL
from kohort.analytics.journal import journal_rows
from kohort.analytics.savings import savings
from kohort.analytics.schema import HISTORY_DDL, RAW
from kohort.analytics.source import HistorySource
from kohort.analytics.stores import Store
from kohort.analytics.tables import REBALANCES, RUNS, THROUGHPUT, Step
from kohort.analytics.tables.through import Through
from kohort.errors import ConfigError
from kohort.recorder import JOURNAL_TOPIC
from pyspark_kohort import options as reading_options
from pyspark_kohort.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MINUTE_MS = 60_000

Told = Callable[[str], None]
"""Takes the name of the table that is begun; from two threads."""


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


def has_journal(bootstrap: str) -> bool:
    """Whether the cluster keeps a journal. Raises KohortError where no broker answers."""
    cluster = Cluster(reading_options.parse(_journal(bootstrap), streaming=False).broker)
    try:
        return bool(cluster.partitions(reading_options.Topics(pattern=JOURNAL_TOPIC)))
    finally:
        cluster.close()


def journal_of_cluster(spark: SparkSession, bootstrap: str) -> DataFrame:
    """The records of the journal."""
    return spark.read.format("kohort").options(**_journal(bootstrap)).schema("value BINARY").load()


def _journal(bootstrap: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": JOURNAL_TOPIC}


def _reader(spark: SparkSession, settings: Settings) -> object:
    spark.dataSource.register(HistorySource)
    return spark.read.format(HistorySource.name()).option("windowMs", settings.window_ms)


def analyse(
    history: DataFrame,
    store: Store,
    settings: Settings,
    *,
    ends: Callable[[], DataFrame] | None = None,
    journal: DataFrame | None = None,
    told: Told = lambda name: None,
) -> None:
    """Keep the rows of the history and all tables in the store, each under its name, and make views of them.

    `ends` says where topics ended at the edges of windows; it is called, in a thread, when the view `history` is there.
    Without it the table `lag` stays empty. `journal` has the records of `__kohort_rebalances` in its column `value`.
    """
    spark = history.sparkSession
    told("history")
    store.keep(history, "history", "kind").createOrReplaceTempView("history")
    _view(spark, RUNS.made, settings).createOrReplaceTempView(RUNS.name)

    def keep(frame: DataFrame, name: str) -> None:
        told(name)
        store.keep(frame, name).createOrReplaceTempView(name)

    def make(steps: Iterable[Step]) -> None:
        for step in steps:
            view = _view(spark, step.made, settings)
            if step.kept:
                keep(view, step.name)
            else:
                view.createOrReplaceTempView(step.name)

    def make_throughput() -> None:
        found = ends() if ends is not None else spark.createDataFrame([], ENDS_DDL)
        found.createOrReplaceTempView("ends")
        make(THROUGHPUT)

    # Each chain leaves cores idle: while its next view is planned, and where few rows make a single task.
    with ThreadPoolExecutor(1, "throughput") as beside:
        throughput = beside.submit(make_throughput)
        make(REBALANCES)
        keep(savings(spark), "savings")
        if journal is not None:
            keep(journal_rows(journal), "journal")
        throughput.result()


def _view(spark: SparkSession, made: str | Through, settings: Settings) -> DataFrame:
    if isinstance(made, str):
        return spark.sql(made.format(**settings.as_text()))
    rows = spark.sql(made.sql.format(**settings.as_text()))
    return mapped(rows.repartition(*made.by), made.function, made.schema)
