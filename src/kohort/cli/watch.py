"""`kohort watch`: groups, their lag and their rebalances, on any cluster."""

import logging
import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.client_options import client_options
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import columns, print_json, print_line, print_note
from kohort.cli.running import of_command, run
from kohort.cli.watch_page import (
    DEFAULT_PAGE,
    MetricsExclude,
    MetricsInclude,
    MetricsNames,
    MetricsPartitions,
    TlsCertificate,
    TlsKey,
    TokenFile,
    metrics_options,
    page_options,
    serve_cluster,
)
from kohort.cli.watch_traces import OtlpEndpoint, traces_option
from kohort.cli.watch_webhook import Webhook, WebhookOn, webhook_options
from kohort.errors import ConfigError, ErrorCode
from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.watch import Snapshot, WatchedGroup

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HISTORY = re.compile(r"(\d{1,6})([smhd])|0")
_OF_PAGE = {
    "listen",
    "token_file",
    "tls_cert",
    "tls_key",
    "cluster_name",
    "metrics_names",
    "metrics_include",
    "metrics_exclude",
    "metrics_partitions",
}
_NO_JOURNAL = "The journal of rebalances is not read, so causes and times are only those that follow from the log."
_OF_EVENTS = {"webhook", "webhook_on", "otlp_endpoint"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch", epilog="Example: kohort watch --bootstrap kafka:9092 --listen 127.0.0.1:9464 --history 6h")(
        watch
    )


def watch(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Show the groups as they are now, and end.")] = False,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help=f"Address of the page. Port 0 takes a free one. Default: {DEFAULT_PAGE}",
            show_default=False,
        ),
    ] = None,
    history: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Age of the history in which to look for rebalances, such as 30m, 6h or 2d; 0 for none."
        ),
    ] = "1h",
    token_file: TokenFile = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    cluster_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the cluster on the page.", show_default=False)
    ] = None,
    webhook: Webhook = None,
    webhook_on: WebhookOn = None,
    otlp_endpoint: OtlpEndpoint = None,
    metrics_names: MetricsNames = "kafka-lag-exporter",
    metrics_include: MetricsInclude = None,
    metrics_exclude: MetricsExclude = None,
    metrics_partitions: MetricsPartitions = 50_000,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> int:
    """Show the groups of any cluster: state, members, lag in records and in seconds, and rebalances.

    Works with Apache Kafka and with Kohort, and only reads: it joins no group and commits nothing.
    It needs the ACLs Read and Describe on the topic __consumer_offsets, Describe on the groups, and
    Describe on their topics. What it may not read is reported, and left out.

    Serves a page for browsers until SIGTERM or Ctrl-C, and prints 'ready http://127.0.0.1:9464' as soon as
    it answers. The same figures are at /api/groups as JSON, and at /metrics for Prometheus. Only this
    machine can open the page, unless --listen names another address. Then a token is required: open the
    page once with ?token=TOKEN, or send the token as 'Authorization: Bearer TOKEN'. Add --tls-cert,
    because without TLS others on the network can read the token. The page needs: pip install
    'kohort[web]'

    With --once, it prints one line for each group and ends; with --once --json, one document with all
    members, partitions and rebalances (docs/watch.md describes its fields).

    The lag in seconds is the age of the first record that the group has not committed.
    """
    history_ms = read_age("--history", history)
    servers = bootstrap_servers(bootstrap)
    if not once:
        if as_json:
            raise ConfigError("--json prints one snapshot: add --once. The page has the same figures at /api/groups.")
        web = page_options(listen or DEFAULT_PAGE, token_file=token_file, tls_cert=tls_cert, tls_key=tls_key)
        hook = webhook_options(webhook, webhook_on)
        metrics = metrics_options(
            cluster_name or servers, metrics_names, metrics_include, metrics_exclude, metrics_partitions
        )
        return serve_cluster(
            servers,
            web,
            metrics,
            history_ms=history_ms,
            cluster_name=cluster_name,
            webhook=hook,
            traces=traces_option(otlp_endpoint),
        )
    _refuse_with_once(context)
    snapshot = run(_look(servers, history_ms), servers)
    if as_json:
        print_json(snapshot.to_json())
    else:
        _print(snapshot)
    for problem in snapshot.problems:
        print_note(f"kohort: {problem}")
    if note := _left_out(snapshot):
        print_note(f"kohort: {note}")
    return 0


def _refuse_with_once(context: typer.Context) -> None:
    """Refuse options that a single snapshot would ignore. Environment variables may be set for other watchers."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is None or source.name != "COMMANDLINE":
            continue
        if parameter.name in _OF_PAGE:
            raise ConfigError(f"{parameter.opts[0]} is for the page, and --once shows none: give one of them.")
        if parameter.name in _OF_EVENTS:
            raise ConfigError(
                f"{parameter.opts[0]} is for a watcher that goes on, and --once does not: give one of them."
            )


def read_age(option: str, text: str) -> Millis:
    """Parse an age such as 6h. Raises ConfigError."""
    found = _HISTORY.fullmatch(text)
    if found is None:
        raise ConfigError(f"{option} takes an age such as 30m, 6h or 2d, not {text!r}.")
    return 0 if found[1] is None else int(found[1]) * _UNITS_MS[found[2]]


async def _look(servers: str, history_ms: Millis) -> "Snapshot":
    from kohort.client import AdminOptions, ConsumerOptions
    from kohort.watch import SourceKind, Watching
    from kohort.watch.source import NO_LOG, clock

    options = of_command(servers) | client_options(AdminOptions) | client_options(ConsumerOptions)
    logging.getLogger("kohort.client.net.metadata_refresh").addFilter(_is_not_said_by_the_watcher)
    async with Watching(options, history_ms=history_ms) as watching:
        await watching.caught_up()
        live, sources = watching.live, watching.live.sources
        if history_ms and sources[SourceKind.LOG].state == "forbidden":
            live.problem(NO_LOG, clock())
        if history_ms and SourceKind.JOURNAL in sources and sources[SourceKind.JOURNAL].state == "failed":
            live.problem(f"{_NO_JOURNAL} {sources[SourceKind.JOURNAL].detail}", clock())
        return live.snapshot(clock())


def _is_not_said_by_the_watcher(record: logging.LogRecord) -> bool:
    """Filter out the client's warning about the log of groups, since NO_LOG says what is missing and what to do."""
    from kohort.watch.source import OFFSETS_TOPIC

    denied = (OFFSETS_TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED.name)
    return not (isinstance(record.args, tuple) and record.args[1::2] == denied)


def _print(snapshot: "Snapshot") -> None:
    if not snapshot.groups:
        print_line("no groups")
        return
    header = ("group", "type", "state", "members", "partitions", "lag", "lag s", "rebalances", "last")
    columns(header, [_row(snapshot, group) for group in snapshot.groups])


def _row(snapshot: "Snapshot", group: "WatchedGroup") -> tuple[object, ...]:
    progress = snapshot.progress(group)
    lags = [each.lag for each in progress if each.lag is not None]
    rebalances = [record for record in group.rebalances if record.is_rebalance]
    last = rebalances[-1] if rebalances else None
    return (
        group.group_id,
        group.shown_type,
        group.state,
        len(group.members),
        len(progress),
        sum(lag.records for lag in lags) if lags else None,
        round(max(lag.seconds for lag in lags)) if lags else None,
        len(rebalances) if snapshot.history_from is not None else None,
        None if last is None else f"{_clock(last.ended_at)} {last.cause or 'unknown cause'}",
    )


def _clock(at: Millis) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at / 1000))


def _left_out(snapshot: "Snapshot") -> str | None:
    """Return a sentence about records that could not be read."""
    counts = snapshot.counts
    lost = counts.unreadable + counts.unreadable_members
    if not lost:
        return None
    first = f" {counts.first_unreadable}" if counts.first_unreadable else ""
    return f"{lost} records or members in the history cannot be read and are left out.{first}"
