"""`kohort watch`: groups, their lag and their rebalances, on any cluster."""

import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from kohort.cli.client_options import client_options
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import columns, print_json, print_line, print_note
from kohort.cli.running import Refused, of_command, run
from kohort.errors import ConfigError
from kohort.model import Millis

if TYPE_CHECKING:
    from kohort.watch import Snapshot, WatchedGroup

_NO_LOG = (
    "The history needs the ACLs Read and Describe on the topic __consumer_offsets, which are denied."
    " Without them, --history 0 shows everything except rebalances and times of commits."
)
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_HISTORY = re.compile(r"(\d{1,6})([smhd])|0")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("watch", epilog="Example: kohort watch --once --history 6h --json")(watch)


def watch(
    once: Annotated[bool, typer.Option("--once", help="Show the groups as they are now, and end.")] = False,
    history: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Age of the history in which to look for rebalances, such as 30m, 6h or 2d; 0 for none."
        ),
    ] = "1h",
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> int:
    """Show the groups of any cluster: state, members, lag in records and in seconds, and recent rebalances.

    Works with Apache Kafka and with Kohort, and only reads: it joins no group and commits nothing.
    It needs the ACLs Read and Describe on the topic __consumer_offsets, Describe on the groups, and
    Describe on their topics. What it may not read is reported, and left out.

    The lag in seconds is the age of the first record that the group has not committed.
    Without --json, there is one line for each group; with --json, one document with all members,
    partitions and rebalances (docs/watch.md describes its fields).
    """
    history_ms = read_age("--history", history)
    if not once:
        raise ConfigError("kohort watch shows one snapshot so far: add --once.")
    servers = bootstrap_servers(bootstrap)
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


def read_age(option: str, text: str) -> Millis:
    """Parse an age such as 6h. Raises ConfigError."""
    found = _HISTORY.fullmatch(text)
    if found is None:
        raise ConfigError(f"{option} takes an age such as 30m, 6h or 2d, not {text!r}.")
    return 0 if found[1] is None else int(found[1]) * _UNITS_MS[found[2]]


async def _look(servers: str, history_ms: Millis) -> "Snapshot":
    from kohort.client import AdminOptions, ConsumerOptions, ErrorCode, KafkaError
    from kohort.watch import ClusterSource

    options = of_command(servers) | client_options(AdminOptions) | client_options(ConsumerOptions)
    async with ClusterSource(options, history_ms=history_ms) as source:
        if history_ms:
            try:
                await source.catch_up()
            except KafkaError as problem:
                if problem.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                    raise Refused(_NO_LOG) from problem
                raise
        await source.describe()
        await source.take_ends()
        await source.date_lags()
        return source.snapshot()


def _print(snapshot: "Snapshot") -> None:
    if not snapshot.groups:
        print_line("no groups")
        return
    header = ("group", "type", "state", "members", "partitions", "lag", "lag s", "rebalances", "last")
    columns(header, [_row(snapshot, group) for group in snapshot.groups])


def _row(snapshot: "Snapshot", group: "WatchedGroup") -> tuple[object, ...]:
    progress = snapshot.progress(group)
    lags = [each.lag for each in progress if each.lag is not None]
    last = group.rebalances[-1] if group.rebalances else None
    return (
        group.group_id,
        group.type,
        group.state,
        len(group.members),
        len(progress),
        sum(lag.records for lag in lags) if lags else None,
        round(max(lag.seconds for lag in lags)) if lags else None,
        len(group.rebalances) if snapshot.history_from is not None else None,
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
