"""`kohort transactions`: list, describe and abort transactions, and find those that hang (KIP-664)."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kohort.cli.options import AsJson, Bootstrap, bootstrap_servers
from kohort.cli.output import columns, print_json, print_line
from kohort.cli.partitions import existing
from kohort.cli.running import Refused, admin_client, run
from kohort.errors import ConfigError, ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.client import (
        ActiveProducer,
        Admin,
        HangingTransaction,
        TopicPartition,
        TransactionDescription,
        TransactionListing,
    )

commands = typer.Typer(help="List, describe and abort transactions, and find those that hang.", rich_markup_mode=None)


_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands, name="transactions")


@commands.command("list", epilog="Example: kohort transactions list --state Ongoing --min-duration 60000")
def list_transactions(
    state: Annotated[
        list[str] | None, typer.Option(metavar="STATE", help="State such as Ongoing or CompleteCommit; repeatable.")
    ] = None,
    producer_id: Annotated[list[int] | None, typer.Option(metavar="ID", help="Producer ID; repeatable.")] = None,
    min_duration: Annotated[
        int | None,
        typer.Option(
            "--min-duration",
            "--duration-filter",
            min=0,
            metavar="MS",
            help="Minimum age of the transaction in milliseconds.",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern",
            "--transactional-id-pattern",
            metavar="REGEX",
            help="Regular expression (RE2) of the transactional ID.",
            show_default=False,
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List transactional IDs with their producer ID and the state of their transaction."""
    servers = bootstrap_servers(bootstrap)

    async def work() -> "list[TransactionListing]":
        async with admin_client(servers) as admin:
            return await admin.list_transactions(
                states=state or (), producer_ids=producer_id or (), min_duration_ms=min_duration, pattern=pattern
            )

    found = run(work(), servers)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": each.coordinator_id,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in found
            ]
        )
    elif found:
        rows = [(each.transactional_id, each.coordinator_id, each.producer_id, each.state) for each in found]
        columns(("transactional id", "coordinator", "producer id", "state"), rows)
    else:
        print_line("There are no such transactional IDs.")


@commands.command("describe", epilog="Example: kohort transactions describe copier-1")
def describe_transaction(
    transactional_id: Annotated[
        str, typer.Argument(metavar="TRANSACTIONAL-ID", help="Transactional ID of a producer.", show_default=False)
    ],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Describe the transaction of a transactional ID. Exit code 1 if there is none of this name."""
    servers = bootstrap_servers(bootstrap)

    async def work() -> "TransactionDescription":
        async with admin_client(servers) as admin:
            return await _described(admin, transactional_id)

    found = run(work(), servers)
    is_open = found.started_at is not None and found.state in _OPEN
    age = max(0, time.time_ns() // 1_000_000 - (found.started_at or 0)) if is_open else None
    values: dict[str, Any] = {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "timeout_ms": found.timeout_ms,
        "started_at": None if found.started_at is None else _time(found.started_at),
        "duration_ms": age,
    }
    partitions = [str(partition) for partition in sorted(found.partitions)]
    if as_json:
        print_json({**values, "partitions": partitions})
    else:
        rows = [(name.replace("_", " "), "-" if value is None else str(value)) for name, value in values.items()]
        columns(("field", "value"), [*rows, ("partitions", ", ".join(partitions) or "-")])


@commands.command("describe-producers", epilog="Example: kohort transactions describe-producers orders 0")
def describe_producers(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, show_default=False)],
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the producers that a partition knows, with the first offset of their open transaction."""
    servers = bootstrap_servers(bootstrap)
    found = run(_producers(servers, topic, partition), servers)
    if as_json:
        print_json([_producer(each) for each in found])
    elif found:
        columns(
            ("producer id", "epoch", "coordinator epoch", "last sequence", "last write", "transaction from"),
            [
                (
                    each.producer_id,
                    each.producer_epoch,
                    each.coordinator_epoch,
                    each.last_sequence,
                    None if each.last_timestamp is None else _time(each.last_timestamp),
                    each.transaction_start,
                )
                for each in found
            ],
        )
    else:
        print_line(f"{topic}-{partition} knows no producers.")


@commands.command("abort", epilog="Example: kohort transactions abort orders 0 --start-offset 1234")
def abort_transaction(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, show_default=False)],
    start_offset: Annotated[
        int | None,
        typer.Option(min=0, metavar="OFFSET", help="First offset of the open transaction.", show_default=False),
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(metavar="ID", help="Producer of the open transaction.", show_default=False)
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Abort it here even if its coordinator has it open and may commit it in other partitions."
        ),
    ] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Abort the open transaction of one partition, for one that hangs (see find-hanging).

    Name it by --start-offset or by --producer-id. Exit code 1 if the partition has no such transaction,
    or if a coordinator has it open: kohort transactions fence ends that one in all of its partitions.
    """
    if (start_offset is None) == (producer_id is None):
        raise ConfigError("kohort transactions abort needs --start-offset or --producer-id; find-hanging prints both.")
    servers = bootstrap_servers(bootstrap)

    async def work() -> "ActiveProducer":
        async with admin_client(servers) as admin:
            here = await _existing(admin, topic, partition)
            for each in (await admin.describe_producers([here]))[here]:
                if each.transaction_start is None:
                    continue
                if each.transaction_start == start_offset or each.producer_id == producer_id:
                    if not force:
                        await _check_hanging(admin, here, each)
                    await admin.abort_transaction(here, each)
                    return each
            named = f"from offset {start_offset}" if producer_id is None else f"of producer {producer_id}"
            raise Refused(f"{here} has no open transaction {named}; see kohort transactions describe-producers.")

    done = run(work(), servers)
    print_line(
        f"{topic}-{partition}: aborted the transaction of producer {done.producer_id} from {done.transaction_start}."
    )


@commands.command("fence", epilog="Example: kohort transactions fence copier-1")
def fence_producers(
    transactional_ids: Annotated[
        list[str], typer.Argument(metavar="TRANSACTIONAL-ID...", help="Transactional IDs.", show_default=False)
    ],
    bootstrap: Bootstrap = None,
) -> None:
    """Fence the producers of transactional IDs, and abort their open transactions.

    Exit code 1 if there is none of one of these names; then none is fenced.
    """
    servers = bootstrap_servers(bootstrap)

    async def work() -> dict[str, Any]:
        async with admin_client(servers) as admin:
            for name in transactional_ids:  # InitProducerId would create a mistyped one
                await _described(admin, name)
            return dict(await admin.fence_producers(transactional_ids))

    for name, (producer_id, epoch) in run(work(), servers).items():
        print_line(f"{name}: fenced by producer {producer_id}, epoch {epoch}.")


@commands.command("find-hanging", epilog="Example: kohort transactions find-hanging --topic orders")
def find_hanging(
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Topic to look at; repeatable. Default: all.")
    ] = None,
    max_transaction_timeout: Annotated[
        int,
        typer.Option(min=0, metavar="MINUTES", help="The brokers' transaction.max.timeout.ms, in minutes."),
    ] = 15,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Find open transactions that no coordinator will end. Exit code 1 if there are some.

    Consumers with read_committed read no record after such a transaction. End it with kohort
    transactions abort.
    """
    servers = bootstrap_servers(bootstrap)

    async def work() -> "list[HangingTransaction]":
        async with admin_client(servers) as admin:
            partitions = await _all_partitions(admin, topic)
            return await admin.find_hanging_transactions(
                partitions, max_transaction_timeout_ms=max_transaction_timeout * 60_000
            )

    found = run(work(), servers)
    if as_json:
        print_json(
            [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "transactional_id": each.transactional_id,
                    **_producer(each.producer),
                }
                for each in found
            ]
        )
    elif found:
        columns(
            ("topic", "partition", "start offset", "producer id", "epoch", "transactional id", "last write"),
            [
                (
                    *each.partition,
                    each.producer.transaction_start,
                    each.producer.producer_id,
                    each.producer.producer_epoch,
                    each.transactional_id,
                    None if each.producer.last_timestamp is None else _time(each.producer.last_timestamp),
                )
                for each in found
            ],
        )
    else:
        print_line("No transaction hangs.")
    if found:
        raise typer.Exit(1)


async def _described(admin: "Admin", transactional_id: str) -> "TransactionDescription":
    try:
        return (await admin.describe_transactions([transactional_id]))[transactional_id]
    except KafkaError as problem:
        if problem.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        raise Refused(f"There is no transactional ID {transactional_id}; see kohort transactions list.") from None


async def _check_hanging(admin: "Admin", partition: "TopicPartition", producer: "ActiveProducer") -> None:
    """Raise Refused if a coordinator has the partition in its transaction of this producer."""
    for listed in await admin.list_transactions(producer_ids=[producer.producer_id]):
        name = listed.transactional_id
        if partition in (await _described(admin, name)).partitions:
            raise Refused(
                f"The transaction of {name} does not hang: its coordinator has {partition} in it and will end it."
                f" kohort transactions fence {name} ends it now, in all of its partitions. With --force it is aborted"
                f" in {partition} only, and its producer may commit the other partitions."
            )


async def _producers(servers: str, topic: str, partition: int) -> "list[ActiveProducer]":
    async with admin_client(servers) as admin:
        here = await _existing(admin, topic, partition)
        return (await admin.describe_producers([here]))[here]


async def _all_partitions(admin: "Admin", topics: list[str] | None) -> "list[TopicPartition]":
    described = await admin.describe_topics(topics)
    return [_partition(name, number) for name, topic in described.items() for number in topic.leaders]


async def _existing(admin: "Admin", topic: str, number: int) -> "TopicPartition":
    """Return the partition. Raises ConfigError or KafkaError if there is none: the client would wait for it."""
    [found] = await existing(admin, {topic: frozenset({number})})
    return found


def _partition(topic: str, number: int) -> "TopicPartition":
    from kohort.client import TopicPartition

    return TopicPartition(topic, number)


def _producer(producer: "ActiveProducer") -> dict[str, Any]:
    return {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "last_sequence": producer.last_sequence,
        "last_timestamp": producer.last_timestamp,
        "transaction_start": producer.transaction_start,
    }


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
