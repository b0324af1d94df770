"""Options of `kohort lab`, with their help texts."""

from pathlib import Path
from typing import Annotated

import typer

_CHOICES = (
    "bounce, scale-out, scale-in, crash, takeover, partitions, coordinator, deploy; "
    "table: every experiment that has a figure to reach; report: only what is on file."
)

Scenarios = Annotated[str, typer.Argument(metavar="SCENARIO,...", help=_CHOICES)]
Brokers = Annotated[str, typer.Option(metavar="NAME,...", help="kohort, kohort-hold-off, kafka.")]
Clients = Annotated[str, typer.Option(metavar="NAME,...", help="kohort, java, librdkafka, kafka-python, aiokafka.")]
Protocols = Annotated[str, typer.Option(metavar="NAME,...", help="eager, cooperative, consumer.")]
Count = Annotated[int, typer.Option(min=1)]
Repeat = Annotated[int, typer.Option(min=1, help="Repetitions, alternating between brokers.")]

RestoreMs = Annotated[int, typer.Option(min=0, help="Simulated time to restore a partition that is won.")]
StateKeys = Annotated[int, typer.Option(min=0, help="Keys per partition in a changelog from which members restore.")]
Kept = Annotated[str, typer.Option(metavar="memory|rocksdb", help="Store of the members; rocksdb needs --state-keys.")]
Warmup = Annotated[bool, typer.Option("--warmup", help="Move partitions only to members that have copied their state.")]
NumStandby = Annotated[int, typer.Option(min=0, help="Members that copy each partition in addition to its owner.")]
MaxWarmups = Annotated[int, typer.Option(min=1, help="Maximum number of warm-up copies in the group at a time.")]
AcceptableLag = Annotated[int, typer.Option(min=0, help="Maximum number of records that a copy may lack to take over.")]
ProbingMs = Annotated[int, typer.Option(min=1, help="Interval between rebalances for copies that moved nothing.")]

CommitMs = Annotated[int, typer.Option(min=0, help="Commit interval; 0 commits only before giving partitions up.")]
TickMs = Annotated[int, typer.Option(min=1, help="Interval between records per partition.")]
GapMs = Annotated[int, typer.Option(min=0, help="Bounce: time between the end of a member and its next start.")]
RestMs = Annotated[
    int, typer.Option(min=0, help="Rest of the group before each trigger, plus a random part of up to as much again.")
]
OutOfStep = Annotated[
    bool,
    typer.Option("--out-of-step", help="Spread heartbeats before each trigger, as after hours without a rebalance."),
]
SettleS = Annotated[float, typer.Option(help="Maximum time for a group to come to rest.")]

Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Broker setting, by Kafka's name; repeatable.", show_default=False
    ),
]
Rows = Annotated[
    str | None,
    typer.Option("--row", metavar="NAME,...", help="Lines of the table to run.", show_default=False),
]
Minutes = Annotated[float, typer.Option(help="Start no trial after this time.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Output directory for raw data and the report.")]
Again = Annotated[bool, typer.Option("--again", help="Run trials again that are on file.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,...", help="Use this cluster instead of starting brokers.", show_default=False),
]
