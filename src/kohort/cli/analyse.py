"""`kohort analyse`: write tables and a page on the history of all groups, from `__consumer_offsets`."""

import sys
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.client_options import spark_options
from kohort.cli.local_spark import running_spark
from kohort.cli.options import Bootstrap, bootstrap_servers
from kohort.cli.output import print_line, print_note
from kohort.cli.running import check_reachable
from kohort.errors import ConfigError, KohortError, install_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from kohort.analytics import Destination, Mapped, OnProgress, Settings

_FEW_RECORDS = 100_000
"""Number of records from which compiled plans pay off. Of 140,000, both ways took about the same time."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("analyse", epilog="Example: kohort analyse --bootstrap 127.0.0.1:9092 --out analysis")(analyse)


def analyse(
    bootstrap: Bootstrap = None,
    out: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="Output directory for tables and report.html: a path, or a URI that Spark can write to."
        ),
    ] = "analysis",
    segments: Annotated[
        str | None, typer.Option(metavar="DIR", help="Read copies of brokers' data directories instead of a cluster.")
    ] = None,
    raw: Annotated[
        str | None, typer.Option(metavar="DIR", help="Read an archive of raw records as Parquet instead of a cluster.")
    ] = None,
    ends: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="End offsets of topics over time (Parquet). Default: ask the cluster."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Format of the tables: parquet, delta or iceberg.")
    ] = "parquet",
    journal_only: Annotated[
        bool, typer.Option("--journal-only", help="Read only the journal of rebalances: exact causes, no lag.")
    ] = False,
    window_minutes: Annotated[int, typer.Option(min=1, help="Window of commit rates and lag, in minutes.")] = 10,
    master: Annotated[
        str | None, typer.Option(help="Spark master. Default: all cores of this host, or the master of spark-submit.")
    ] = None,
) -> int:
    """Analyse rebalances and their causes, moves, dark times, flapping members, lag and commit rate of every group.

    Reads the records that brokers keep of groups, those of Apache Kafka as well as Kohort's, and
    writes tables and a page that reports which groups have problems, why, and how much they cost.
    Needs the extra `analytics` and Java 17.
    """
    if segments is not None and raw is not None:
        raise ConfigError("Specify either --segments or --raw, not both.")
    try:
        from kohort.analytics import Format, Settings, analyse_journal, has_journal, place, store
        from kohort.analytics import analyse as compute
    except ImportError as missing:
        raise KohortError(f"The analysis needs {missing.name}: {install_extra('analytics')}.") from missing
    if form not in list(Format):
        raise ConfigError(f"--format {form} is unknown: there are {', '.join(Format)}.")
    if journal_only and raw is not None:
        raise ConfigError("--raw is an archive of __consumer_offsets: --journal-only reads a cluster or --segments.")
    target = place(out)
    if target.is_remote and form == Format.ICEBERG:
        raise ConfigError(f"--out {out}: --format iceberg keeps its catalog in a file and needs a directory.")
    if not target.is_known_to_arrow and form == Format.DELTA:
        raise ConfigError(f"--out {out}: --format delta cannot list files there. Use --format parquet.")
    tables = store(Format(form), target.path)
    servers = bootstrap_servers(bootstrap) if segments is None and raw is None else None
    if servers is not None:
        check_reachable(servers)
    cluster = None if servers is None else spark_options(servers)
    journal = has_journal(cluster, segments)
    if journal_only and not journal:
        from kohort.recorder import JOURNAL_TOPIC

        raise KohortError(f"{servers or segments} has no journal: no topic {JOURNAL_TOPIC}.")
    settings = Settings(window_ms=window_minutes * 60_000)
    small = _is_small(cluster, segments, raw, journal_only=journal_only)
    print_note("starting Spark")
    with running_spark(master, "kohort analyse", small=small) as spark, _Progress(spark) as progress:
        target.prepare(spark)
        events = _events(spark, cluster, segments) if journal else None
        if journal_only:
            assert events is not None
            analyse_journal(events, tables, settings, on_progress=progress.show)
        else:
            known = _ends(spark, ends, cluster, settings, progress.show)
            history = _history(spark, cluster, segments, raw, settings)
            compute(history, tables, settings, ends=known, journal=events, on_progress=progress.show)
        progress.show("report")
        _report(spark, target, settings)
    return 0


def _is_small(
    cluster: "Mapping[str, str] | None", segments: str | None, raw: str | None, *, journal_only: bool
) -> bool:
    """Return whether the source has so few records that Spark should not compile its plans."""
    from kohort.analytics import estimated_records
    from kohort.recorder import JOURNAL_TOPIC

    records = estimated_records(cluster, segments, raw, **({"topic": JOURNAL_TOPIC} if journal_only else {}))
    return records is not None and records < _FEW_RECORDS


def _history(
    spark: "SparkSession",
    servers: "Mapping[str, str] | None",
    segments: str | None,
    raw: str | None,
    settings: "Settings",
) -> "Mapped":
    """Read the history from whichever source is given: segments, raw archive or cluster."""
    from kohort.analytics import from_cluster, from_raw, from_segments

    if segments is not None:
        return from_segments(spark, segments, settings)
    if raw is not None:
        return from_raw(spark.read.parquet(raw), settings)
    assert servers is not None
    return from_cluster(spark, servers, settings)


def _events(spark: "SparkSession", servers: "Mapping[str, str] | None", segments: str | None) -> "DataFrame":
    """Read the journal, which must exist."""
    from kohort.analytics import journal_of_cluster, journal_of_segments

    if segments is not None:
        return journal_of_segments(spark, segments)
    assert servers is not None
    return journal_of_cluster(spark, servers)


def _ends(
    spark: "SparkSession",
    ends: str | None,
    servers: "Mapping[str, str] | None",
    settings: "Settings",
    on_progress: "OnProgress",
) -> "Callable[[], DataFrame] | None":
    """Return a function that reads where topics ended, from a directory or the cluster; None without either."""
    from kohort.analytics import ends_of_cluster

    if ends is not None:
        return lambda: spark.read.parquet(ends)
    return None if servers is None else lambda: ends_of_cluster(spark, servers, settings.window_ms, on_progress)


def _report(spark: "SparkSession", out: "Destination", settings: "Settings") -> None:
    from kohort.analytics import write_report

    report = write_report(spark, out, settings.window_ms)
    for sentence in report.left_out:
        print_note(f"warning: {sentence}")
    print_line(report.headline)
    print_line(report.span)
    print_line(f"written: {out}/report.html and {out.directories(spark)} tables beside it")


class _Progress:
    """Progress on stderr: the table being computed, and how many of Spark's tasks are done."""

    _EVERY_S = 2.0

    def __init__(self, spark: "SparkSession") -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._began = time.monotonic()
        self._doing = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Progress":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()
        if sys.stderr.isatty():
            sys.stderr.write("\r\033[K")

    def show(self, doing: str) -> None:
        """Set and report the step that begins now."""
        self._doing = doing
        if not sys.stderr.isatty():
            print_note(f"{time.monotonic() - self._began:5.0f} s  {doing}")

    def _watch(self) -> None:
        while not self._over.wait(self._EVERY_S):
            if sys.stderr.isatty() and self._doing:
                line = f"{time.monotonic() - self._began:5.0f} s  {self._doing}{self._tasks()}"
                sys.stderr.write(f"\r\033[K{line}")
                sys.stderr.flush()

    def _tasks(self) -> str:
        stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        total = sum(stage.numTasks for stage in stages if stage is not None)
        return f": {done} of {total} tasks" if total else ""
