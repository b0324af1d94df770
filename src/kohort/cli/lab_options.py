"""The options of `kohort lab`, with what its help says of them."""

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
Repeat = Annotated[int, typer.Option(min=1, help="Repetitions; those of all brokers take turns.")]

RestoreMs = Annotated[int, typer.Option(min=0, help="Pretended time of restoring a partition that is won.")]
StateKeys = Annotated[
    int, typer.Option(min=0, help="Keep counts in a changelog with so many keys per partition, and restore from it.")
]
Kept = Annotated[
    str, typer.Option(metavar="memory|rocksdb", help="Where members keep counts; rocksdb needs --state-keys.")
]
Warmup = Annotated[bool, typer.Option("--warmup", help="Partitions move only to members that have copied their state.")]
NumStandby = Annotated[
    int, typer.Option(min=0, help="So many members copy each partition beside its owner, as warm-up does.")
]
MaxWarmups = Annotated[int, typer.Option(min=1, help="So many copies at a time for what is to move, in the group.")]
AcceptableLag = Annotated[int, typer.Option(min=0, help="A copy that lacks so many records at most can take over.")]
ProbingMs = Annotated[int, typer.Option(min=1, help="The group is told again of copies that moved nothing.")]

CommitMs = Annotated[int, typer.Option(min=0, help="How often members commit; 0: only before they give up.")]
TickMs = Annotated[int, typer.Option(min=1, help="Each partition gets a record so often.")]
GapMs = Annotated[int, typer.Option(min=0, help="Bounce: between the end of a member and its next start.")]
RestMs = Annotated[
    int, typer.Option(min=0, help="The group rests so long before each trigger, and up to as much again.")
]
OutOfStep = Annotated[
    bool, typer.Option("--out-of-step", help="Spread heartbeats before each trigger, as hours of quiet do.")
]
SettleS = Annotated[float, typer.Option(help="How long a group may take to come to rest.")]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A broker's setting, in Kafka's words.", show_default=False),
]
Rows = Annotated[
    str | None,
    typer.Option("--row", metavar="NAME,...", help="Only these lines of the table.", show_default=False),
]
Minutes = Annotated[float, typer.Option(help="Begin no trial after so long.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Where raw data and report go.")]
Again = Annotated[bool, typer.Option("--again", help="Run what is on file once more.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT,...", help="Use this cluster instead of brokers of our own.", show_default=False),
]
