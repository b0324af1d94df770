"""Batch job that computes the tables from a history.

The history is read and decoded once and stored as rows beside the tables. Every table is computed
from it, written, and read back by the tables that depend on it. So the output of a failed run can
be inspected, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.analytics.arrow_functions import Mapped
from kohort.analytics.ends import ENDS_DDL
from kohort.analytics.journal import journal_rows
from kohort.analytics.savings import savings
from kohort.analytics.schema import RAW, Kind
from kohort.analytics.source import (
    OFFSETS_TOPIC,
    Servers,
    cluster_tasks,
    decoded_rows,
    decoded_tasks,
    has_segments,
    options_of,
    segment_tasks,
    values_of_tasks,
)
from kohort.analytics.stores import Store
from kohort.analytics.tables import JOURNALED, REBALANCES, RUNS, THROUGHPUT, ArrowView, Step
from kohort.analytics.timelines import LAG_DDL
from kohort.errors import ConfigError
from kohort.recorder import (
    BURST_MS,
    EPISODE_MS,
    JOURNAL_TOPIC,
    LEAST_REBALANCES,
    LEAST_RETURNS,
    REBALANCES_PER_RESTART,
    RETURN_MS,
)
from pyspark_kohort.net import BlockingCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MINUTE_MS = 60_000

OnProgress = Callable[[str], None]
"""Callback that receives the name of each table when its computation starts; two threads call it."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds of the analysis. Times are in milliseconds."""

    window_ms: int = MINUTE_MS
    """Window of commit rates and lag: one row per partition, group and window with commits."""
    return_ms: int = RETURN_MS
    """Maximum time between leaving and coming back for which a member counts as returned."""
    episode_ms: int = EPISODE_MS
    """Maximum time between two returns of one episode."""
    least_returns: int = LEAST_RETURNS
    """Minimum number of returns in an episode for which a member counts as flapping."""
    burst_ms: int = BURST_MS
    """Maximum time between two rebalances of one burst."""
    least_rebalances: int = LEAST_REBALANCES
    """Minimum number of rebalances in a burst for which a group counts as thrashing."""
    per_restart: int = REBALANCES_PER_RESTART
    """Number of rebalances that the restart of one member causes."""

    def as_text(self) -> dict[str, str]:
        return {name: str(getattr(self, name)) for name in self.__slots__}


def from_cluster(spark: SparkSession, bootstrap: Servers, settings: Settings) -> Mapped:
    """Return the history in a cluster's `__consumer_offsets`."""
    return decoded_tasks(spark, cluster_tasks(options_of(bootstrap)), settings.window_ms)


def from_segments(spark: SparkSession, path: str, settings: Settings) -> Mapped:
    """Return the history in copies of brokers' data directories below `path`, which every executor must see."""
    return decoded_tasks(spark, segment_tasks(path), settings.window_ms)


def from_raw(raw: DataFrame, settings: Settings) -> Mapped:
    """Return the history in raw records from any source, with the columns key, value, partition, offset and timestamp.

    Records of one shard must be in order within a task, as in an archive that the source wrote.
    Raises ConfigError if a column is missing.
    """
    missing = set(RAW.names) - set(raw.columns)
    if missing:
        raise ConfigError(f"Raw records have the columns {', '.join(RAW.names)}; {min(missing)} is missing.")
    return decoded_rows(raw, settings.window_ms)


def has_journal(bootstrap: Servers | None, segments: str | None = None) -> bool:
    """Return whether the cluster has a journal, or the copies include one. Raises KohortError if no broker responds."""
    if bootstrap is None:
        return segments is not None and has_segments(segments, JOURNAL_TOPIC)
    cluster = BlockingCluster.of(_journal(bootstrap))
    try:
        return cluster.exists(JOURNAL_TOPIC)
    finally:
        cluster.close()


def journal_of_cluster(spark: SparkSession, bootstrap: Servers) -> DataFrame:
    """Return the records of the journal."""
    return spark.read.format("kohort").options(**_journal(bootstrap)).schema("value BINARY").load()


def journal_of_segments(spark: SparkSession, path: str) -> DataFrame:
    """Return the records of the journal in copies of brokers' data directories.

    Raises ConfigError if the copies do not include the journal.
    """
    return values_of_tasks(spark, segment_tasks(path, JOURNAL_TOPIC)).rows()


def _journal(bootstrap: Servers) -> dict[str, str]:
    return options_of(bootstrap) | {"subscribe": JOURNAL_TOPIC}


def analyse(
    history: Mapped,
    store: Store,
    settings: Settings,
    *,
    ends: Callable[[], DataFrame] | None = None,
    journal: DataFrame | None = None,
    on_progress: OnProgress = lambda name: None,
) -> None:
    """Store the rows of the history and all tables under their names, and make views of them.

    The view `unreadable` counts the records that the tables lack. `ends` returns the ends of topics
    at the edges of windows; it is called in a thread, once the view `history` exists. Without it
    the table `lag` is empty. `journal` has the records of `__kohort_rebalances` in its column
    `value`.
    """
    spark = history.frame.sparkSession
    on_progress("history")
    store.keep(history, "history", "kind").createOrReplaceTempView("history")
    _view(spark, RUNS, settings).createOrReplaceTempView("_runs")

    steps = _Steps(spark, store, settings, on_progress)

    def make_throughput() -> None:
        found = ends() if ends is not None else spark.createDataFrame([], ENDS_DDL)
        found.createOrReplaceTempView("ends")
        steps.make(THROUGHPUT)

    # Each of the two chains leaves cores idle: while its next view is planned, and where few rows make a
    # single task.
    with ThreadPoolExecutor(1, "throughput") as beside:
        throughput = beside.submit(make_throughput)
        steps.make(REBALANCES)
        steps.keep(savings(spark), "savings")
        damaged = 0
        if journal is not None:
            damaged = steps.keep_journal(journal)
        else:
            spark.catalog.dropTempView("journal")  # an earlier analysis in this session may have left it
        throughput.result()
    spark.sql(_UNREADABLE.format(damaged=damaged)).createOrReplaceTempView("unreadable")


def analyse_journal(
    journal: DataFrame, store: Store, settings: Settings, *, on_progress: OnProgress = lambda name: None
) -> None:
    """Compute the tables from the journal alone: records of `__kohort_rebalances` in the column `value`.

    A journal has no commits, so there is no lag. See `analyse`.
    """
    spark = journal.sparkSession
    steps = _Steps(spark, store, settings, on_progress)
    damaged = steps.keep_journal(journal)
    steps.make(JOURNALED)
    spark.table("_history").createOrReplaceTempView("history")
    for name, ddl in _WITHOUT_COMMITS.items():
        spark.createDataFrame([], ddl).createOrReplaceTempView(name)
    spark.sql(_UNREADABLE.format(damaged=damaged)).createOrReplaceTempView("unreadable")


_WITHOUT_COMMITS = {
    "commit_rate": "group_id STRING, window_at BIGINT, commits BIGINT, per_second DOUBLE",
    "lag": LAG_DDL,
    "savings": "group_id STRING, stops BIGINT, cooperative_stops BIGINT, consumer_stops BIGINT",
}
"""Tables that the page reads and that cannot be computed from a journal."""
_UNREADABLE = f"""
    SELECT '{OFFSETS_TOPIC}' AS topic, count(*) AS records, min(struct(shard, position)) AS first
    FROM history WHERE kind = '{Kind.UNREADABLE}'
    UNION ALL SELECT '{JOURNAL_TOPIC}', {{damaged}}L, NULL"""
"""Number of records that the tables lack, for each topic that was read."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """Builder that makes the views in order, and stores those that are tables."""

    spark: SparkSession
    store: Store
    settings: Settings
    on_progress: OnProgress

    def make(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step.made, ArrowView):
                self.keep(_through(self.spark, step.made, self.settings), step.name)
            elif step.kept:
                self.keep(_view(self.spark, step.made, self.settings), step.name)
            else:
                _view(self.spark, step.made, self.settings).createOrReplaceTempView(step.name)

    def keep_journal(self, records: DataFrame) -> int:
        """Store the journal; return how many of the records were omitted."""
        from pyspark.sql import Observation

        left_out = Observation()
        self.keep(journal_rows(records, left_out), "journal")
        return int(left_out.get["records"])

    def keep(self, made: DataFrame | Mapped, name: str) -> None:
        self.on_progress(name)
        self.store.keep(made, name).createOrReplaceTempView(name)


def _view(spark: SparkSession, sql: str, settings: Settings) -> DataFrame:
    return spark.sql(sql.format(**settings.as_text()))


def _through(spark: SparkSession, made: ArrowView, settings: Settings) -> Mapped:
    return Mapped(_view(spark, made.sql, settings).repartition(*made.by), made.function, made.schema)
