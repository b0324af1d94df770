"""Transactions of our clients: all or nothing, across topics and a group's offsets, whatever is killed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from kohort import (
    Admin,
    Consumer,
    ErrorCode,
    FatalTransactionError,
    KafkaError,
    NewTopic,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionAbortableError,
    TransactionStateError,
    blocking,
)
from tests.conftest import QUICK_CONSUMER_GROUPS, need_jars
from tests.interop.broker import Broker
from tests.interop.kafka import run_tool, running_kafka
from tests.interop.kohort import KohortBroker, running_kohort
from tests.interop.settled import settled

pytestmark = pytest.mark.interop

Create = Callable[..., Awaitable[str]]


@pytest.fixture(scope="module")
def kafka_with_version_1(request: pytest.FixtureRequest) -> Iterator[str]:
    """Apache Kafka whose brokers have not been upgraded to KIP-890: the client adds partitions itself."""
    need_jars(request.config)
    with running_kafka(QUICK_CONSUMER_GROUPS) as kafka:
        command = ("--bootstrap-server", kafka.bootstrap, "downgrade", "--feature", "transaction.version=1")
        run_tool("org.apache.kafka.tools.FeatureCommand", *command)
        yield kafka.bootstrap


@pytest.fixture(scope="module")
def kohort_with_version_1() -> Iterator[str]:
    """A broker of ours with the same version."""
    with running_kohort(transaction_version="1") as broker:
        yield broker.bootstrap


@pytest.fixture(params=["version-1", "version-2"])
def address(any_broker: Broker, request: pytest.FixtureRequest) -> str:
    """A cluster with each version of transactions."""
    if request.param == "version-2":
        return any_broker.bootstrap
    kind = "kohort" if isinstance(any_broker, KohortBroker) else "kafka"
    found: str = request.getfixturevalue(f"{kind}_with_version_1")
    return found


@pytest.fixture
async def topic(address: str, fresh: str) -> AsyncIterator[Create]:
    """Create a topic under a unique name."""
    async with Admin(bootstrap_servers=address) as admin:

        async def create(name: str = "t", partitions: int = 1) -> str:
            await admin.create_topics([NewTopic(f"{fresh}-{name}", partitions, 1)])
            return f"{fresh}-{name}"

        yield create


async def read(address: str, topic: str, isolation: str = "read_committed", partitions: int = 1) -> list[bytes | None]:
    """Every value that a topic has when no transaction is open, partition by partition."""
    await settled(address, *(TopicPartition(topic, number) for number in range(partitions)))
    return await read_now(address, topic, isolation, partitions)


async def read_now(address: str, topic: str, isolation: str, partitions: int) -> list[bytes | None]:
    """Every value that a topic has now."""
    reading = Consumer(bootstrap_servers=address, isolation_level=isolation, auto_offset_reset="earliest")
    async with reading as consumer, asyncio.timeout(30):
        found: list[bytes | None] = []
        for number in range(partitions):
            here = TopicPartition(topic, number)
            consumer.assign([here])
            end = (await consumer.end_offsets([here]))[here]
            while await consumer.position(here) < end:
                found += [record.value for record in await consumer.poll(timeout=0.1)]
        return found


async def test_a_transaction_writes_to_several_topics_at_once(address: str, topic: Create, fresh: str) -> None:
    one, two = await topic("one", 2), await topic("two")
    async with Producer(bootstrap_servers=address, transactional_id=fresh) as producer:
        async with producer.transaction():
            for number in range(4):
                await producer.send(one, b"%d" % number, partition=number % 2)
            delivery = await producer.send(two, b"sum")
            await producer.flush()
            assert await read_now(address, one, "read_committed", 2) == []
        assert (await delivery).offset == 0
        async with producer.transaction():
            await producer.send(two, b"next")
    assert await read(address, one, partitions=2) == [b"0", b"2", b"1", b"3"]
    assert await read(address, two) == [b"sum", b"next"]


async def test_an_exception_aborts_the_transaction_and_the_producer_goes_on(
    address: str, topic: Create, fresh: str
) -> None:
    name = await topic()
    async with Producer(bootstrap_servers=address, transactional_id=fresh, linger_ms=60_000) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send(name, b"written")
                await producer.flush()
                unsent = await producer.send(name, b"not sent")
                raise ZeroDivisionError
        with pytest.raises(TransactionAbortableError):
            await unsent
        async with producer.transaction():
            await producer.send(name, b"kept")
    assert await read(address, name) == [b"kept"]
    assert await read(address, name, "read_uncommitted") == [b"written", b"kept"]


async def test_a_second_producer_of_the_same_id_fences_the_first(address: str, topic: Create, fresh: str) -> None:
    name = await topic()
    async with Producer(bootstrap_servers=address, transactional_id=fresh) as zombie:
        await zombie.init_transactions()
        zombie.begin_transaction()
        await zombie.send(name, b"of the zombie")
        await zombie.flush()
        async with Producer(bootstrap_servers=address, transactional_id=fresh) as heir:
            async with heir.transaction():
                await heir.send(name, b"of the heir")
            with pytest.raises(ProducerFencedError):
                await zombie.commit_transaction()
            with pytest.raises(ProducerFencedError):
                await zombie.send(name, b"more")
            with pytest.raises(ProducerFencedError):
                zombie.begin_transaction()
            async with heir.transaction():
                await heir.send(name, b"again")
    assert await read(address, name) == [b"of the heir", b"again"]


async def test_a_record_that_is_not_written_makes_the_transaction_fail(address: str, topic: Create, fresh: str) -> None:
    name = await topic()
    async with Producer(bootstrap_servers=address, transactional_id=fresh) as producer:
        with pytest.raises(TransactionAbortableError, match="max_request_size"):
            async with producer.transaction():
                await producer.send(name, b"small")
                with pytest.raises(KafkaError) as refused:
                    await producer.send(name, bytes(2_000_000))
                assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
        async with producer.transaction():
            await producer.send(name, b"next")
    assert await read(address, name) == [b"next"]


async def test_methods_out_of_turn_say_what_to_call(address: str, topic: Create, fresh: str) -> None:
    name = await topic()
    async with Producer(bootstrap_servers=address) as plain:
        with pytest.raises(TransactionStateError, match="transactional_id"):
            await plain.init_transactions()
    async with Producer(bootstrap_servers=address, transactional_id=fresh) as producer:
        with pytest.raises(TransactionStateError, match="init_transactions"):
            producer.begin_transaction()
        await producer.init_transactions()
        with pytest.raises(TransactionStateError, match="begin_transaction"):
            await producer.send(name, b"x")
        with pytest.raises(TransactionStateError, match="begin_transaction"):
            await producer.commit_transaction()
        producer.begin_transaction()
        await producer.commit_transaction()  # nothing in it


async def test_offsets_are_committed_with_the_records(address: str, topic: Create, fresh: str) -> None:
    source, sink = await topic("source"), await topic("sink")
    async with Producer(bootstrap_servers=address) as producer:
        for number in range(20):
            await producer.send(source, b"%d" % number)
    consumer = Consumer(
        source,
        bootstrap_servers=address,
        group_id=fresh,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=5,
    )
    here = TopicPartition(source, 0)
    async with consumer, Producer(bootstrap_servers=address, transactional_id=fresh) as copier, asyncio.timeout(60):
        copied, failed = 0, False
        while copied < 20:
            records = await consumer.poll()
            if not records:
                continue
            try:
                async with copier.transaction(consumer):
                    for record in records:
                        await copier.send(sink, record.value)
                    if copied == 10 and not failed:
                        failed = True
                        raise ZeroDivisionError
            except ZeroDivisionError:
                # What the aborted transaction read is read again.
                assert consumer.positions()[here] == 10
                continue
            copied += len(records)
            committed = (await consumer.committed([here]))[here]
            assert committed is not None and committed.offset == copied
    assert failed
    assert await read(address, sink) == [b"%d" % number for number in range(20)]


def test_blocking_clients_copy_exactly_once(address: str, fresh: str) -> None:
    source, sink = f"{fresh}-source", f"{fresh}-sink"
    with blocking.Admin(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(source, 1, 1), NewTopic(sink, 1, 1)])
    with blocking.Producer(bootstrap_servers=address) as producer:
        for number in range(20):
            producer.send(source, b"%d" % number)
    consumer = blocking.Consumer(
        source,
        bootstrap_servers=address,
        group_id=fresh,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=5,
    )
    with consumer, blocking.Producer(bootstrap_servers=address, transactional_id=fresh) as copier:
        copied, failed, deadline = 0, False, time.monotonic() + 60
        while copied < 20 and time.monotonic() < deadline:
            records = consumer.poll()
            if not records:
                continue
            try:
                with copier.transaction(consumer):
                    for record in records:
                        copier.send(sink, record.value)
                    if copied == 10 and not failed:
                        failed = True
                        raise ZeroDivisionError
            except ZeroDivisionError:
                continue
            copied += len(records)
        copier.begin_transaction()
        undone = copier.send(sink, b"undone")
        copier.abort_transaction()
        assert undone.done()
        with pytest.raises(TransactionStateError, match="begin_transaction"):
            copier.send(sink, b"outside")
    assert asyncio.run(read(address, sink)) == [b"%d" % number for number in range(20)]


async def test_offsets_of_a_member_that_has_left_abort_the_transaction(address: str, topic: Create, fresh: str) -> None:
    source = await topic("source")
    async with Producer(bootstrap_servers=address, transactional_id=fresh) as producer:
        member = Consumer(source, bootstrap_servers=address, group_id=fresh, enable_auto_commit=False)
        async with member as consumer:
            await consumer.poll(timeout=10.0)
            while not consumer.assignment:
                await consumer.poll(timeout=0.1)
            group = consumer.group_metadata()
        await producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(TransactionAbortableError) as refused:
            await producer.send_offsets_to_transaction({TopicPartition(source, 0): 1}, group)
        assert refused.value.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        with pytest.raises(TransactionAbortableError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction() as transaction:
            await transaction.send_offsets({TopicPartition(source, 0): 7}, fresh)
    async with Consumer(bootstrap_servers=address, group_id=fresh) as consumer:
        committed = await consumer.committed([TopicPartition(source, 0)])
        assert [found.offset for found in committed.values() if found] == [7]


@pytest.mark.timeout(240)
async def test_a_copy_has_each_record_once_though_its_program_is_killed(
    address: str, topic: Create, fresh: str
) -> None:
    source, sink = await topic("source", 2), await topic("sink", 2)
    chance = random.Random(fresh)
    async with Producer(bootstrap_servers=address) as producer:
        # Before each run, so that none of them copied what the next one's transactions need.
        for lot in range(6):
            for number in range(lot * 80, lot * 80 + 80):
                await producer.send(source, b"%d" % number, partition=number % 2)
            await run_copier(address, source, sink, transactions=chance.randrange(1, 6), then_s=chance.random() * 0.03)
    committed = {TopicPartition(source, number): 240 for number in range(2)}
    await run_copier(address, source, sink, until=committed)
    expected = [b"%d" % number for number in (*range(0, 480, 2), *range(1, 480, 2))]
    assert await read(address, sink, partitions=2) == expected


async def run_copier(
    address: str,
    source: str,
    sink: str,
    *,
    transactions: int = 0,
    then_s: float = 0.0,
    until: dict[TopicPartition, int] | None = None,
) -> None:
    """Run the copier until it has committed some transactions or all offsets, and kill it."""
    command = [sys.executable, "-m", "tests.interop.copier", address, source, sink]
    copier = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert copier.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await copier.stdout.readline() == b"ready\n"
            for _ in range(transactions):
                assert await copier.stdout.readline(), "the copier ended by itself"
            if until is not None:
                async with Consumer(bootstrap_servers=address, group_id=source) as consumer:
                    while {
                        at: found and found.offset for at, found in (await consumer.committed(until)).items()
                    } != until:
                        await copier.stdout.readline()
        # The moment of the kill is a chance: before, in or after the next transaction.
        await asyncio.sleep(then_s)
    finally:
        copier.kill()
        await copier.wait()


async def test_javas_read_committed_consumer_reads_what_we_commit(address: str, topic: Create, fresh: str) -> None:
    name = await topic()
    async with Producer(bootstrap_servers=address, transactional_id=fresh) as producer:
        for ending in ("commit", "abort", "commit"):
            with contextlib.suppress(ZeroDivisionError):
                async with producer.transaction():
                    for number in range(3):
                        await producer.send(name, f"{ending} {number}".encode())
                    await producer.flush()
                    if ending == "abort":
                        raise ZeroDivisionError
    await settled(address, TopicPartition(name, 0))
    tool = ("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", address, "--topic", name)
    options = ("--from-beginning", "--isolation-level", "read_committed", "--timeout-ms", "8000")
    lines = (await asyncio.to_thread(run_tool, *tool, *options)).splitlines()
    assert [line for line in lines if line.startswith(("commit", "abort"))] == ["commit 0", "commit 1", "commit 2"] * 2


async def test_our_consumer_reads_what_java_copies_in_transactions(address: str, topic: Create, fresh: str) -> None:
    source, sink = await topic("source"), await topic("sink")
    async with Producer(bootstrap_servers=address, transactional_id=fresh) as producer, asyncio.timeout(60):
        async with producer.transaction():
            for number in range(100):
                await producer.send(source, b"%d" % number)
    await asyncio.to_thread(
        run_tool,
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", address, "--input-topic", source, "--input-partition", "0", "--output-topic", sink),
        *("--transactional-id", f"{fresh}-java", "--consumer-group", fresh, "--transaction-size", "7"),
        *("--max-messages", "100", "--use-group-metadata", "--enable-random-aborts"),
    )
    assert await read(address, sink) == [b"%d" % number for number in range(100)]
    async with Consumer(bootstrap_servers=address, group_id=fresh) as consumer:
        [committed] = (await consumer.committed([TopicPartition(source, 0)])).values()
        assert committed is not None and committed.offset >= 100


async def test_a_transaction_that_takes_too_long_is_aborted_by_the_coordinator(
    address: str, topic: Create, fresh: str
) -> None:
    name = await topic()
    producer = Producer(bootstrap_servers=address, transactional_id=fresh, transaction_timeout_ms=1_000)
    async with producer, Admin(bootstrap_servers=address) as admin, asyncio.timeout(60):
        await producer.init_transactions()
        producer.begin_transaction()
        await (await producer.send(name, b"late"))
        while (await admin.describe_transactions([fresh]))[fresh].state != "CompleteAbort":  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.2)
        with pytest.raises(FatalTransactionError, match="transaction_timeout_ms"):
            await producer.commit_transaction()
    assert await read(address, name) == []


async def test_a_timeout_that_the_brokers_do_not_allow_is_refused(address: str, fresh: str) -> None:
    producer = Producer(bootstrap_servers=address, transactional_id=fresh, transaction_timeout_ms=900_001)
    async with producer:
        with pytest.raises(FatalTransactionError) as refused:
            await producer.init_transactions()
        assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
