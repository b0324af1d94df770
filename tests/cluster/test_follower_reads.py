"""Reading from a replica in the reader's rack: which one is named, and what it serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

import kohort
from kohort.broker import Broker
from kohort.broker.cluster.directory import DirectoryCluster
from kohort.broker.config.broker_settings import RACK_AWARE
from kohort.errors import ErrorCode
from kohort.log.cluster.published_offsets import NAME, PublishedOffsets, PublishedOffsetsReader, PublishedOffsetsWriter
from kohort.model import UUID
from kohort.wire.batches import Marker, Record, batches, decode_records, encode_batch, encode_marker
from kohort.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tests.broker.peer import Peer, talking_to
from tests.cluster.test_replicated_topics import assigned, brokers, create, reassign
from tests.cluster.test_shared_broker import leaders, so
from tests.interop.kafka import run_tool

LEADER = -1


@asynccontextmanager
async def in_racks(data: Path, *replicas: list[int], **settings: str) -> AsyncIterator[list[Broker]]:
    """Brokers 1 to 3 in the racks r1 to r3, and the topic `orders`."""
    selector = {"replica_selector_class": RACK_AWARE} | settings
    async with brokers(data, 3, racks=("r1", "r2", "r3"), **selector) as running:
        async with talking_to(running[0]) as peer:
            assert (await create(peer, assigned("orders", *replicas)))[0] == ErrorCode.NONE
        await so(lambda: all(broker.topics.named("orders") is not None for broker in running))
        yield running


async def write(broker: Broker, count: int, size: int = 1) -> None:
    """Batches of one record each."""
    log = broker.partition("orders", 0)
    assert log is not None
    for number in range(log.end_offset, log.end_offset + count):
        log.append(encode_batch([Record(0, 1_000, None, b"%d" % number * size)]), log.leader_epoch)
    broker.writer.current()
    await broker.writer.drain()


def request(offset: int, rack: str = "", wait_ms: int = 0, epoch: int = -1, session: int = -1) -> FetchRequest:
    place = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch, last_fetched_epoch=-1
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        session_epoch=session,
        topics=[FetchTopic(topic="orders", partitions=[place])],
        rack_id=rack,
    )


async def fetch(peer: Peer, wanted: FetchRequest, version: int = 12) -> PartitionData:
    (topic,) = (await peer.ask(wanted, version, FetchResponse)).responses
    return topic.partitions[0]


def values(data: PartitionData) -> list[bytes]:
    whole = bytes(data.records or b"")  # type: ignore[arg-type]
    return [record.value or b"" for position, _ in batches(whole) for record in decode_records(whole, position)]


async def test_a_reader_is_sent_to_the_replica_in_its_rack_which_serves_all_that_is_acknowledged(
    tmp_path: Path,
) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, third):
        await write(first, 5)
        async with talking_to(first) as leader, talking_to(second) as follower, talking_to(third) as stranger:
            sent = await fetch(leader, request(0, "r2", wait_ms=30_000))
            assert (sent.error_code, sent.preferred_read_replica, values(sent)) == (ErrorCode.NONE, 2, [])
            assert (sent.high_watermark, sent.log_start_offset) == (5, 0)
            read = await fetch(follower, request(1, "r2"))
            assert (read.error_code, read.high_watermark, read.preferred_read_replica) == (ErrorCode.NONE, 5, LEADER)
            assert values(read) == [b"1", b"2", b"3", b"4"]
            for rack in ("", "r1", "r3", "elsewhere"):
                at_home = await fetch(leader, request(0, rack))
                assert (at_home.preferred_read_replica, len(values(at_home))) == (LEADER, 5)
            assert (await fetch(stranger, request(0, "r3"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_with_read_committed_only_the_leader_serves_a_log_with_transactions(tmp_path: Path) -> None:
    # A follower knows neither the last stable offset nor the aborted transactions.
    def committed(offset: int, rack: str) -> FetchRequest:
        asked = request(offset, rack)
        asked.isolation_level = 1
        return asked

    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 1)
        async with talking_to(first) as leader, talking_to(second) as follower:
            assert (await fetch(leader, committed(0, "r2"))).preferred_read_replica == 2
            assert values(await fetch(follower, committed(0, "r2"))) == [b"0"]
            log = first.partition("orders", 0)
            assert log is not None
            record = [Record(0, 1_000, None, b"open")]
            batch = encode_batch(record, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
            log.append(batch, log.leader_epoch)
            await write(first, 1)
            assert values(await fetch(follower, request(0, "r2"))) == [b"0", b"open", b"2"]
            assert (await fetch(follower, committed(0, "r2"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            read = await fetch(leader, committed(0, "r2"))
            assert (read.preferred_read_replica, values(read)) == (LEADER, [b"0"])
            # An aborted transaction keeps readers at the leader as an open one does.
            log.append(encode_marker(1, 0, Marker(False, 0), 1_000), log.leader_epoch)
            await write(first, 1)
            assert len(values(await fetch(follower, request(0, "r2")))) == 5
            assert (await fetch(follower, committed(0, "r2"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            read = await fetch(leader, committed(0, "r2"))
            assert (read.preferred_read_replica, read.last_stable_offset) == (LEADER, 5)
            assert [(one.producer_id, one.first_offset) for one in read.aborted_transactions or ()] == [(1, 1)]


async def test_a_fetch_that_waits_at_a_follower_is_answered_when_the_leader_has_more(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 1)
        async with talking_to(first) as leader, talking_to(second) as follower:
            await fetch(leader, request(0, "r2"))
            waiting = asyncio.create_task(fetch(follower, request(1, "r2", wait_ms=30_000)))
            await so(lambda: second.waiting_fetches.count == 1)
            await write(first, 1)
            assert values(await waiting) == [b"1"]


async def test_a_follower_serves_what_lies_in_many_segments_and_what_was_removed_is_out_of_range(
    tmp_path: Path,
) -> None:
    async with in_racks(tmp_path, [1, 2], log_segment_bytes="1024") as (first, second, _):
        await write(first, 40, size=100)
        async with talking_to(first) as leader, talking_to(second) as follower:
            await fetch(leader, request(0, "r2"))
            found: list[bytes] = []
            while len(found) < 40:
                found += values(await fetch(follower, request(len(found), "r2")))
            assert found == [b"%d" % number * 100 for number in range(40)]
            log = first.partition("orders", 0)
            assert log is not None
            log.delete_before(25)
            await so(lambda: not (tmp_path / "orders-0" / f"{0:020d}.log").exists())
            first.follower_reads.settled([log])
            assert (await fetch(follower, request(3, "r2"))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (await fetch(follower, request(41, "r2"))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert values(await fetch(follower, request(39, "r2"))) == [b"39" * 100]


async def test_a_reader_in_the_leaders_rack_reads_from_the_leader_although_a_replica_is_there(tmp_path: Path) -> None:
    selector = {"replica_selector_class": RACK_AWARE}
    async with brokers(tmp_path, 2, racks=("r1", "r1"), **selector) as (first, _), talking_to(first) as leader:
        await create(leader, assigned("orders", [1, 2]))
        await write(first, 1)
        assert (await fetch(leader, request(0, "r1"))).preferred_read_replica == LEADER


async def test_a_follower_serves_nothing_behind_the_high_watermark(tmp_path: Path) -> None:
    # A crash may lose what is on that disk.
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 5)
        async with talking_to(first) as leader, talking_to(second) as follower:
            await fetch(leader, request(0, "r2"))
            topic, log = first.topics.all()["orders"], first.partition("orders", 0)
            assert log is not None
            marks = PublishedOffsetsWriter(tmp_path / "orders-0")
            marks.write(PublishedOffsets(topic.topic_id, log.leader_epoch, 0, 2))  # as before the others were durable
            assert values(await fetch(follower, request(0, "r2"))) == [b"0", b"1"]
            assert values(await fetch(follower, request(2, "r2"))) == []
            marks.write(PublishedOffsets(topic.topic_id, log.leader_epoch, 0, 4))
            assert values(await fetch(follower, request(1, "r2"))) == [b"1", b"2", b"3"]
            marks.close()


async def test_followers_know_what_is_durable_before_any_client_does(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, _, _), talking_to(first) as leader:
        await write(first, 1)
        await fetch(leader, request(0, "r2"))
        assert isinstance(first.leadership, DirectoryCluster)
        first.leadership.look_every_s = 3_600  # a look would tell them, too
        await asyncio.sleep(0.1)  # the look that is due
        await write(first, 3)
        marks = PublishedOffsetsReader(tmp_path / "orders-0")
        mark = marks.read()
        assert mark is not None and mark.stable_offset == 4
        marks.close()


async def test_a_follower_reads_the_segment_that_compaction_has_put_in_the_place_of_another(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 3)
        async with talking_to(first) as leader, talking_to(second) as follower:
            await fetch(leader, request(0, "r2"))
            assert len(values(await fetch(follower, request(0, "r2")))) == 3
            segment = tmp_path / "orders-0" / f"{0:020d}.log"
            whole = segment.read_bytes()
            (tmp_path / "cleaned").write_bytes(whole[len(whole) // 3 * 2 :])  # three batches of one size
            (tmp_path / "cleaned").replace(segment)
            assert values(await fetch(follower, request(0, "r2"))) == [b"2"]


async def test_a_segment_that_is_gone_when_it_is_opened_is_looked_for_again(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 3)
        async with talking_to(first) as leader, talking_to(second) as follower:
            await fetch(leader, request(0, "r2"))
            gone = tmp_path / "orders-0" / f"{2:020d}.log"
            gone.symlink_to("nothing")  # listed, and not there
            read = await fetch(follower, request(2, "r2"))
            assert (read.error_code, values(read)) == (ErrorCode.NONE, [])
            waiting = asyncio.create_task(fetch(follower, request(2, "r2", wait_ms=30_000)))
            await so(lambda: second.waiting_fetches.count == 1)
            gone.unlink()
            assert values(await waiting) == [b"2"]


async def test_a_follower_rejects_fetches_until_the_leader_has_sent_a_reader(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _), talking_to(second) as follower:
        await write(first, 1)
        refused = await fetch(follower, request(0, "r2"))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader is not None
        assert refused.current_leader.leader_id == 1


async def test_a_broker_that_rejects_a_fetch_names_the_address_of_the_leader(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _), talking_to(second) as follower:
        wanted = request(0)
        wanted.topics[0].topic_id = first.topics.all()["orders"].topic_id
        refused = await follower.ask(wanted, 16, FetchResponse)
        assert [(endpoint.node_id, endpoint.host, endpoint.port) for endpoint in refused.node_endpoints] == [
            (1, "127.0.0.1", first.port)
        ]


async def test_a_follower_stops_serving_when_the_leader_changes(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2, 3]) as (first, second, third):
        await write(first, 1)
        async with talking_to(first) as leader, talking_to(second) as follower, talking_to(third) as next_one:
            await fetch(leader, request(0, "r2"))
            opened = await follower.ask(request(0, "r2", session=0), 12, FetchResponse)
            goes_on = FetchRequest(
                max_wait_ms=30_000, min_bytes=1, session_id=opened.session_id, session_epoch=1, rack_id="r2"
            )
            again = request(1, "r2")
            goes_on.topics = again.topics
            waiting = asyncio.create_task(follower.ask(goes_on, 12, FetchResponse))
            await so(lambda: second.waiting_fetches.count == 1)
            assert await reassign(leader, "orders", {0: [3, 2]}) == [ErrorCode.NONE]
            (topic,) = (await waiting).responses
            assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            await so(lambda: leaders(third, "orders") == [3])
            await write(third, 1)
            assert (await fetch(next_one, request(1, "r2"))).preferred_read_replica == 2
            assert values(await fetch(follower, request(0, "r2"))) == [b"0", b"1"]


async def test_epochs_are_checked_by_a_follower_as_by_a_leader(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 1)
        async with talking_to(first) as leader, talking_to(second) as follower:
            epoch = first.leadership.leader(first.topics.all()["orders"], 0).epoch
            await fetch(leader, request(0, "r2"))
            assert values(await fetch(follower, request(0, "r2", epoch=epoch))) == [b"0"]
            later = await fetch(follower, request(0, "r2", epoch=epoch + 1))
            assert later.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        (10, {}),
        (12, {"replica_id": 7}),
        (12, {"replica_id": 0}),
        (15, {"replica_state": 7}),
        (15, {"replica_state": 0}),
    ],
)
async def test_readers_that_know_nothing_of_racks_and_other_brokers_are_served_by_the_leader_alone(
    tmp_path: Path, version: int, changes: dict[str, int]
) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 1)
        async with talking_to(first) as leader, talking_to(second) as follower:
            await fetch(leader, request(0, "r2"))
            wanted = request(0, "r2" if version > 10 else "")
            wanted.topics[0].topic_id = first.topics.all()["orders"].topic_id
            wanted.replica_id = changes.get("replica_id", -1)
            if "replica_state" in changes:
                wanted.replica_state = ReplicaState(replica_id=changes["replica_state"])
            assert (await fetch(leader, wanted, version)).preferred_read_replica == LEADER
            assert (await fetch(follower, wanted, version)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_without_the_selector_everybody_reads_from_the_leader(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2], replica_selector_class="") as (first, _, _), talking_to(first) as leader:
        await write(first, 1)
        assert (await fetch(leader, request(0, "r2"))).preferred_read_replica == LEADER


async def test_racks_in_which_a_partition_can_be_read_are_those_of_its_replicas(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, _, _):
        await so(lambda: "orders" in first.topics_image.current.by_name)
        topic = first.topics_image.current.by_name["orders"]
        assert topic.shape.racks == (frozenset({"r1", "r2"}),)


async def test_a_follower_finds_its_place_in_a_large_segment_without_holding_up_the_broker(tmp_path: Path) -> None:
    # It looks through 16 MiB at once, and this is more.
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 600, size=25_000)
        async with talking_to(first) as leader, talking_to(second) as follower:
            await fetch(leader, request(0, "r2"))
            assert (await fetch(follower, request(599, "r2"))).records in (None, b"")
            assert values(await fetch(follower, request(599, "r2", wait_ms=30_000))) == [b"599" * 25_000]


@pytest.mark.interop
async def test_librdkafkas_consumer_reads_from_the_follower_in_its_rack_and_continues_when_it_dies(
    tmp_path: Path,
) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 3)

        def started() -> Consumer:
            settings = {"client.rack": "r2", "group.id": "g", "metadata.max.age.ms": 1_000, "enable.auto.commit": False}
            consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{first.port}", **settings})
            consumer.assign([TopicPartition("orders", 0, 0)])
            return consumer

        def read(count: int) -> list[bytes | None]:
            return [message.value() for message in consumer.consume(count, 20)]

        consumer = started()
        assert await asyncio.to_thread(read, 3) == [b"0", b"1", b"2"]
        assert second.follower_reads.following
        await second.stop()
        await write(first, 2)
        assert await asyncio.to_thread(read, 2) == [b"3", b"4"]
        await asyncio.to_thread(consumer.close)


async def test_our_consumer_reads_from_the_follower_in_its_rack_and_continues_when_it_dies(tmp_path: Path) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 3)
        server = f"127.0.0.1:{first.port}"
        async with kohort.Consumer(
            bootstrap_servers=server, client_rack="r2", auto_offset_reset="earliest"
        ) as consumer:
            here = kohort.TopicPartition("orders", 0)
            consumer.assign([here])

            async def read(count: int) -> list[bytes | None]:
                found: list[bytes | None] = []
                async with asyncio.timeout(30):
                    while len(found) < count:
                        found += [record.value for record in await consumer.poll(timeout=0.5)]
                return found

            assert await read(3) == [b"0", b"1", b"2"]
            assert second.follower_reads.following
            await second.stop()
            await write(first, 2)
            assert await read(2) == [b"3", b"4"]


@pytest.mark.interop
async def test_javas_consumer_reads_from_the_follower_in_its_rack(tmp_path: Path, kafka_tools: None) -> None:
    async with in_racks(tmp_path, [1, 2]) as (first, second, _):
        await write(first, 3)
        read = await asyncio.to_thread(
            run_tool,
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", f"127.0.0.1:{first.port}", "--topic", "orders", "--from-beginning"),
            *("--max-messages", "3", "--command-property", "client.rack=r2", "--timeout-ms", "30000"),
        )
        assert read.split() == ["0", "1", "2"]
        assert second.follower_reads.following


def test_a_damaged_or_half_written_mark_is_ignored(tmp_path: Path) -> None:
    writer = PublishedOffsetsWriter(tmp_path)
    mark = PublishedOffsets(UUID(int=5), 3, 1, 9)
    writer.write(mark)
    reader = PublishedOffsetsReader(tmp_path)
    assert reader.read() == mark
    whole = (tmp_path / NAME).read_bytes()
    for at in range(len(whole)):
        (tmp_path / NAME).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert reader.read() is None
        (tmp_path / NAME).write_bytes(whole[:at])
        assert reader.read() is None
    writer.close()
    reader.close()
