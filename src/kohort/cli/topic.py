"""`kohort topic`: list, create, describe, widen and delete topics; `topic_config` handles their configs."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kohort.cli import topic_config
from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers, read_pairs
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.running import admin_client, run
from kohort.cli.times import read_time
from kohort.errors import ErrorCode, KafkaError
from kohort.model import Millis, TopicPartition

if TYPE_CHECKING:
    from kohort.client import Admin
    from kohort.requests import TopicMetadata

commands = typer.Typer(help="List, create, describe, expand, configure and delete topics.", rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    topic_config.register(commands)
    app.add_typer(commands, name="topic")


Names = Annotated[list[str], typer.Argument(metavar="NAME...", show_default=False)]


@commands.command("list", epilog="Example: kohort topic list --json")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include internal topics.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List topics and their partition counts."""
    servers = bootstrap_servers(bootstrap)

    async def ask() -> "dict[str, TopicMetadata]":
        async with admin_client(servers) as admin:
            return await admin.describe_topics()

    found = run(ask(), servers)
    shown = [(name, len(found[name].leaders)) for name in sorted(found) if internal or not found[name].internal]
    if as_json:
        print_json([{"name": name, "partitions": partitions} for name, partitions in shown])
    elif shown:
        columns(("topic", "partitions"), shown)
    else:
        print_line("There are no topics.")


@commands.command("create", epilog="Example: kohort topic create flights --partitions 12 --config retention.ms=3600000")
def create_topic(
    names: Names,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of partitions. Default: the broker's num.partitions.", show_default=False
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Replication factor. Default: the broker's default.replication.factor.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Topic config; repeatable.")] = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", "--if-not-exists", help="Do not fail if the topic exists.")
    ] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Create topics."""
    servers, configs = bootstrap_servers(bootstrap), read_pairs("--config", config or ())

    async def ask() -> None:
        from kohort.client import NewTopic

        async with admin_client(servers) as admin:
            for name in names:
                try:
                    await admin.create_topics([NewTopic(name, partitions, replication_factor, configs)])
                except KafkaError as problem:
                    if not (if_missing and problem.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                        raise
                    print_line(f"{name} exists")
                else:
                    print_line(f"created {name}")

    run(ask(), servers)


@commands.command("describe", epilog="Example: kohort topic describe flights")
def describe_topic(
    names: Names,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Also show the first offset at or after this time: milliseconds since 1970, or 2026-11-21T09:30:00.",
            show_default=False,
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show each partition's leader, replicas, in-sync replicas (isr), start offset and end offset."""
    servers = bootstrap_servers(bootstrap)
    at = None if time is None else read_time("--time", time)

    async def ask() -> list[dict[str, Any]]:
        async with admin_client(servers) as admin:
            return [await _description(admin, topic, at) for topic in (await admin.describe_topics(names)).values()]

    described = run(ask(), servers)
    if as_json:
        print_json(described)
        return
    for topic in described:
        records = sum(partition["end"] - partition["start"] for partition in topic["partitions"])
        partitions = len(topic["partitions"])
        counts = f"{partitions} partition{'' if partitions == 1 else 's'}, {records:,} records"
        print_line(f"{topic['name']}: {counts}, id {topic['topic_id']}")
        header = ("partition", "leader", "replicas", "isr", "start", "end", *(() if at is None else ("at_time",)))
        columns([name.replace("_", " ") for name in header], [_row(each, header) for each in topic["partitions"]])


@commands.command("partitions", epilog="Example: kohort topic partitions flights --partitions 24")
def widen_topic(
    names: Names,
    partitions: Annotated[int, typer.Option(metavar="N", help="New partition count.", show_default=False)],
    bootstrap: Bootstrap = None,
) -> None:
    """Add partitions to topics. Keys then map to other partitions, and groups rebalance.

    Partitions cannot be removed.
    """
    servers = bootstrap_servers(bootstrap)

    async def work() -> None:
        async with admin_client(servers) as admin:
            await admin.describe_topics(names)
            for name in names:
                await admin.create_partitions(name, partitions)
                print_line(f"{name} has {partitions} partitions")

    run(work(), servers)


@commands.command("delete", epilog="Example: kohort topic delete flights")
def delete_topic(names: Names, bootstrap: Bootstrap = None) -> None:
    """Delete topics and all their records."""
    servers = bootstrap_servers(bootstrap)

    async def ask() -> None:
        async with admin_client(servers) as admin:
            await admin.delete_topics(names)

    run(ask(), servers)
    for name in names:
        print_line(f"deleted {name}")


async def _description(admin: "Admin", topic: "TopicMetadata", at: Millis | None) -> dict[str, Any]:
    from kohort.client import OffsetSpec

    partitions = [TopicPartition(topic.name, number) for number in sorted(topic.leaders)]
    starts = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    there = {} if at is None else await admin.list_offsets(dict.fromkeys(partitions, at))
    described: list[dict[str, Any]] = []
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        described.append(
            {
                "partition": partition.partition,
                "leader": topic.leaders[partition.partition].node_id,
                "replicas": list(topic.replicas.get(partition.partition, ())),
                "isr": list(topic.in_sync.get(partition.partition, ())),
                "start": start.offset if start else 0,
                "end": end.offset if end else 0,
            }
        )
        if at is not None:
            found = there[partition]
            described[-1]["at_time"] = None if found is None else found.offset
    return {"name": topic.name, "topic_id": str(topic.topic_id), "internal": topic.internal, "partitions": described}


def _row(partition: dict[str, Any], header: Iterable[str]) -> list[object]:
    return [",".join(map(str, value)) if isinstance(value := partition[name], list) else value for name in header]
