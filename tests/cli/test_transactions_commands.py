"""`kohort transactions`, `produce --transactional-id` and `consume --isolation-level`."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

import kohort.testing
from kohort import Admin, Producer, ProducerFencedError, TopicPartition
from kohort.wire.batches import Record, encode_batch
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kohort.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.peer import connected
from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker
from tests.interop.settled import settled


@pytest.fixture
def at(any_broker: Broker) -> str:
    return any_broker.bootstrap


@pytest.fixture
def topic(run: Run, at: str, name: str) -> str:
    succeeded(run("topic", "create", name, "--partitions", "1", bootstrap=at))
    return name


def committed(run: Run, at: str, topic: str, isolation: str = "read_committed", *, wait: bool = True) -> list[str]:
    if wait:
        asyncio.run(settled(at, TopicPartition(topic, 0)))
    arguments = ("consume", topic, "--from-beginning", "--exit-at-end", "--isolation-level", isolation)
    return succeeded(run(*arguments, bootstrap=at)).lines


def test_lines_are_written_in_one_transaction_or_not_at_all(run: Run, at: str, topic: str) -> None:
    produce = ("produce", topic, "--transactional-id", topic)
    succeeded(run(*produce, stdin="a\nb\n", bootstrap=at))
    assert committed(run, at, topic) == ["a", "b"]
    failed = run(*produce, "--json", stdin='{"value":"c"}\nno json\n', bootstrap=at)
    assert failed.code == 2 and "Line 2 is not JSON" in failed.err and "no line is written" in failed.err
    assert committed(run, at, topic) == ["a", "b"]


def test_the_transactional_id_of_an_application_is_not_used_by_accident(run: Run, at: str, topic: str) -> None:
    written = run("produce", topic, "-X", f"transactional.id={topic}", stdin="a\n", bootstrap=at)
    assert written.code == 0 and "transactional.id has no effect" in written.err
    assert run("transactions", "describe", topic, bootstrap=at).code == 1


def test_an_open_transaction_is_listed_described_found_and_aborted(run: Run, at: str, topic: str) -> None:
    async def begin() -> Producer:
        producer = Producer(bootstrap_servers=at, transactional_id=topic)
        await producer.init_transactions()
        producer.begin_transaction()
        await (await producer.send(topic, b"open"))
        return producer

    async def abandon(producer: Producer) -> None:
        with pytest.raises(ProducerFencedError):
            await producer.commit_transaction()
        await producer.close()

    with asyncio.Runner() as loop:
        producer = loop.run(begin())
        listed = run("transactions", "list", "--state", "Ongoing", "--pattern", f"{topic}.*", "--json", bootstrap=at)
        [found] = json.loads(succeeded(listed).out)
        assert (found["transactional_id"], found["state"]) == (topic, "Ongoing")
        by_id = run("transactions", "list", "--producer-id", str(found["producer_id"]), bootstrap=at)
        assert succeeded(by_id).lines[1].split() == [topic, "1", str(found["producer_id"]), "Ongoing"]
        old = run("transactions", "list", "--min-duration", "3600000", "--pattern", topic, bootstrap=at)
        assert succeeded(old).lines == ["There are no such transactional IDs."]
        described = json.loads(succeeded(run("transactions", "describe", topic, "--json", bootstrap=at)).out)
        assert described["partitions"] == [f"{topic}-0"] and described["state"] == "Ongoing"
        assert described["timeout_ms"] == 60_000 and described["duration_ms"] >= 0 and described["coordinator"] == 1
        told = run("transactions", "describe-producers", topic, "0", "--json", bootstrap=at)
        [here] = json.loads(succeeded(told).out)
        assert (here["producer_id"], here["transaction_start"]) == (found["producer_id"], 0)
        # It has a coordinator that will end it, so it does not hang, however old it is.
        none = run("transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0", bootstrap=at)
        assert succeeded(none).lines == ["No transaction hangs."]
        assert committed(run, at, topic, wait=False) == []
        read = ("consume", topic, "-e", "--from-beginning", "--isolation-level", "read_committed")
        for how in ((), ("--group", topic)):
            notes = succeeded(run(*read, *how, bootstrap=at)).err
            assert f"{topic}-0 is read up to offset 0 of 1: the transaction that begins there is open" in notes
            assert "is open" not in succeeded(run(*read, *how, "--quiet", bootstrap=at)).err
        fenced = succeeded(run("transactions", "fence", topic, bootstrap=at))
        assert fenced.lines[0].startswith(f"{topic}: fenced by producer {found['producer_id']}, epoch ")
        loop.run(abandon(producer))
        assert committed(run, at, topic) == []
        assert committed(run, at, topic, "read_uncommitted") == ["open"]
        assert "is open" not in succeeded(run(*read, bootstrap=at)).err


def test_a_transaction_is_aborted_in_one_partition(run: Run, at: str, topic: str) -> None:
    async def begin() -> Producer:
        producer = Producer(bootstrap_servers=at, transactional_id=topic)
        await producer.init_transactions()
        producer.begin_transaction()
        await (await producer.send(topic, b"open"))
        return producer

    async def finished(producer: Producer) -> list[int | None]:
        await producer.close()
        return await open_from(at, topic)

    with asyncio.Runner() as loop:
        producer = loop.run(begin())
        refused = run("transactions", "abort", topic, "0", "--start-offset", "7", bootstrap=at)
        assert refused.code == 1 and "no open transaction from offset 7" in refused.err
        # Its producer is there, and would commit its other partitions.
        coordinated = run("transactions", "abort", topic, "0", "--start-offset", "0", bootstrap=at)
        assert coordinated.code == 1 and f"kohort transactions fence {topic}" in coordinated.err
        assert loop.run(open_from(at, topic)) == [0]
        done = succeeded(run("transactions", "abort", topic, "0", "--start-offset", "0", "--force", bootstrap=at))
        assert done.lines[0].startswith(f"{topic}-0: aborted the transaction of producer ")
        again = run("transactions", "abort", topic, "0", "--start-offset", "0", bootstrap=at)
        assert again.code == 1
        assert loop.run(finished(producer)) == [None]


async def open_from(at: str, topic: str) -> list[int | None]:
    """Return the first offset of the open transaction of each producer of the topic's first partition."""
    async with Admin(bootstrap_servers=at) as admin:
        here = TopicPartition(topic, 0)
        return [each.transaction_start for each in (await admin.describe_producers([here]))[here]]


def hang(at: str, topic: str, minutes: int) -> None:
    """Leave a record of a transaction that no coordinator knows, after one whose marker was of coordinator epoch 3."""

    async def write() -> None:
        async with connected(at) as peer:
            marker = WritableTxnMarker(
                producer_id=4_711,
                transaction_result=True,
                coordinator_epoch=3,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
            )
            ended = await peer.ask(WriteTxnMarkersRequest(markers=[marker]), 1, WriteTxnMarkersResponse)
            assert not ended.markers[0].topics[0].partitions[0].error_code
            then = time.time_ns() // 1_000_000 - minutes * 60_000
            batch = encode_batch(
                [Record(0, then, None, b"open")],
                producer_id=4_711,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
            request = ProduceRequest(transactional_id="lost", acks=-1, topic_data=[data])
            written = await peer.ask(request, 11, ProduceResponse)
            assert not written.responses[0].partition_responses[0].error_code

    asyncio.run(write())


def test_a_transaction_hangs_once_it_is_older_than_any_timeout(run: Run) -> None:
    # Only without verification a record gets into a transaction that its coordinator does not know.
    settings = {"transaction.partition.verification.enable": "false"}
    with kohort.testing.Broker(topics={"t": 1}, settings=settings) as broker:
        at = broker.bootstrap_servers
        hang(at, "t", minutes=10)
        assert succeeded(run("transactions", "find-hanging", bootstrap=at)).lines == ["No transaction hangs."]
        found = run("transactions", "find-hanging", "--max-transaction-timeout", "9", "--json", bootstrap=at)
        assert found.code == 1
        [one] = json.loads(found.out)
        assert (one["topic"], one["partition"], one["producer_id"], one["transactional_id"]) == ("t", 0, 4_711, None)
        abort = ("transactions", "abort", "t", "0", "--start-offset", str(one["transaction_start"]))
        assert "aborted the transaction of producer 4711" in succeeded(run(*abort, bootstrap=at)).out
        none = run("transactions", "find-hanging", "--max-transaction-timeout", "9", bootstrap=at)
        assert succeeded(none).lines == ["No transaction hangs."]
        assert committed(run, at, "t") == []


def test_what_is_wrong_is_said(run: Run, at: str, topic: str) -> None:
    for arguments, code, sentence in (
        (("list", "--state", "Sleeping"), 2, "Sleeping: no state of transactions"),
        (("describe", topic), 1, f"There is no transactional ID {topic}"),
        (("fence", topic), 1, f"There is no transactional ID {topic}"),
        (("describe-producers", topic, "1"), 2, f"{topic} has no partition 1: its partitions are 0 to 0."),
        (("describe-producers", f"{topic}-2", "0"), 2, f"{topic}-2: this broker does not have that topic"),
        (("abort", topic, "7", "--producer-id", "1"), 2, f"{topic} has no partition 7"),
        (("abort", topic, "0"), 2, "needs --start-offset or --producer-id"),
        (
            ("abort", topic, "0", "--start-offset", "0", "--producer-id", "1"),
            2,
            "needs --start-offset or --producer-id",
        ),
    ):
        refused = run("transactions", *arguments, bootstrap=at)
        assert (refused.code, refused.out) == (code, "")
        assert sentence in refused.err
