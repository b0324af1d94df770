"""Produce, Fetch, ListOffsets and InitProducerId: valid requests, their responses, and rejected requests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from kohort.wire.batches import Codec, Record, encode_batch
from kohort.wire.batches.batch import seal
from kohort.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.wire.messages.delete_topics import DeleteTopicsRequest
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.interop.conversation.members import UNKNOWN_ID
from tests.interop.conversation.stage import Client, Stage, scene

NOON = 1_750_000_000_000


def batch(*values: str, at: int = NOON, codec: Codec = Codec.NONE, **producer: Any) -> bytes:
    """A batch of records a second apart."""
    records = [Record(n, at + 1_000 * n, b"key", value.encode(), ()) for n, value in enumerate(values)]
    return bytes(encode_batch(records, codec, **producer))


def produce_request(s: Stage, topic: str, records: Any, partition: int = 0, **changes: Any) -> ProduceRequest:
    """Produce to one partition."""
    data = PartitionProduceData(index=partition, records=records)
    topic_data = TopicProduceData(name=topic, topic_id=s.ids.get(topic, UNKNOWN_ID), partition_data=[data])
    return ProduceRequest(**{"acks": -1, "timeout_ms": 5_000, "topic_data": [topic_data], **changes})


async def produce(
    s: Stage, name: str, topic: str, records: Any, v: int = 12, partition: int = 0, **changes: Any
) -> Any:
    """One exchange of it."""
    return await s.admin.ask(name, produce_request(s, topic, records, partition, **changes), v)


async def fetch(
    s: Stage, name: str, places: Mapping[tuple[str, int], int], v: int = 12, *, by: Client | None = None, **changes: Any
) -> Any:
    """Fetch from offsets by topic and partition; `epoch` and `room` apply to all of them."""
    epoch, room, start = changes.pop("epoch", -1), changes.pop("room", 1 << 20), changes.pop("start", -1)
    last = changes.pop("last_epoch", -1)
    topics = {topic: FetchTopic(topic=topic, topic_id=s.ids.get(topic, UNKNOWN_ID)) for topic, _ in places}
    for (topic, partition), offset in places.items():
        topics[topic].partitions.append(
            FetchPartition(
                partition=partition,
                fetch_offset=offset,
                partition_max_bytes=room,
                current_leader_epoch=epoch,
                log_start_offset=start,
                last_fetched_epoch=last,
            )
        )
    request = FetchRequest(**{"max_wait_ms": 50, "min_bytes": 1, "topics": list(topics.values()), **changes})
    return await (by or s.admin).ask(name, request, v)


async def offsets(s: Stage, name: str, topic: str, *times: int, v: int = 9, partition: int = 0, **changes: Any) -> Any:
    """ListOffsets of one partition at several times, one request each."""
    epoch = changes.pop("epoch", -1)
    for time in times:
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=time, current_leader_epoch=epoch)
        wanted_topic = ListOffsetsTopic(name=topic, partitions=[wanted])
        request = ListOffsetsRequest(topics=[wanted_topic], **changes)
        await s.admin.ask(f"{name} {time if time < 0 else time - NOON}", request, v)


@scene
async def records_in_and_out(s: Stage) -> None:
    """The bytes that come back, in every version and with every codec."""
    orders = await s.topic("orders")
    for v in range(3, 14):
        await produce(s, f"produce {v}", orders, batch(f"by version {v}"), v)
    for v in range(4, 18):
        await fetch(s, f"fetch {v}", {(orders, 0): 9}, v)
    for codec in Codec:
        await produce(s, f"produce {codec.name}", orders, batch("a" * 50, "b" * 50, codec=codec))
    await fetch(s, "fetch them all", {(orders, 0): 11})
    await produce(s, "acks 1", orders, batch("x"), acks=1)
    await produce(s, "acks 2", orders, batch("x"), acks=2)
    await produce(s, "acks -2", orders, batch("x"), acks=-2)
    await s.client("hasty").waits("acks 0", produce_request(s, orders, batch("y"), acks=0), 9)
    await fetch(s, "from the middle of a batch", {(orders, 0): 14})


@scene
async def refused_batches(s: Stage) -> None:
    """Malformed and too large batches, other formats, and missing topics; each for a partition of its own."""
    orders = await s.topic("orders", partitions=64)
    places = itertools.count()
    mended = []
    good = batch("one", "two", "three")
    flipped = bytearray(good)
    flipped[-1] ^= 1
    old_magic, unknown_codec, far_magic = bytearray(good), bytearray(good), bytearray(good)
    old_magic[16], far_magic[16] = 1, 3
    unknown_codec[22] |= 7
    bad = {
        "no bytes": b"",
        "half a header": good[:30],
        "cut short": good[:-1],
        "a wrong checksum": bytes(flipped),
        "magic 1": bytes(old_magic),
        "magic 3": bytes(far_magic),
        "two batches": good + good,
        "too large": batch("x" * 1_050_000),
        "a batch and half of another": good + good[:20],
        "a length too large": good[:8] + b"\0\0\xff\xff" + good[12:],
        "a length of zero": good[:8] + b"\0\0\0\0" + good[12:],
        "a negative length": good[:8] + b"\xff\xff\xff\xff" + good[12:],
    }
    for what, records in bad.items():
        for v in (7, 12):
            place = next(places)
            if what == "a batch and half of another":
                mended.append(place)
            await produce(s, f"{what} {v}", orders, records, v, partition=place)
    await s.client("nobody").waits("null", produce_request(s, orders, None), 12)
    for what, data in {
        "an unknown codec": reseal(good, 21, b"\0\7"),
        "a count too large": reseal(good, 57, b"\0\0\0\7"),
        "a count too small": reseal(good, 57, b"\0\0\0\1"),
        "a count of zero": reseal(good, 57, b"\0\0\0\0"),
        "a negative count": reseal(good, 57, b"\xff\xff\xff\xff"),
        "a wrong last offset": reseal(good, 23, b"\0\0\0\7"),
        "a base offset of its own": b"\0\0\0\0\0\0\0\5" + good[8:],
        "a leader epoch of its own": good[:12] + b"\0\0\0\7" + good[16:],
        "a control batch": reseal(good, 21, b"\0\x20"),
        "a transactional batch without an id": reseal(good, 21, b"\0\x10"),
        "a wrong first time": reseal(good, 27, b"\0\0\0\0\0\0\0\1"),
        "a wrong largest time": reseal(good, 35, b"\0\0\0\0\0\0\0\1"),
        "log append time": reseal(good, 21, b"\0\x08"),
        "a far time": batch("x", at=4_000_000_000_000_000),
        "a time of -1": batch("x", at=-1),
        "a time of -5": batch("x", at=-5),
        "records that are no records": reseal(good, 61, b"\xff" * 9),
        "a gap in its offsets": bytes(encode_batch([Record(0, NOON, None, b"a", ()), Record(3, NOON, None, b"b", ())])),
    }.items():
        place = next(places)
        if what in mended_by_kafka:
            mended.append(place)
        await produce(s, what, orders, data, partition=place)
    await produce(s, "unknown topic 12", "unknown", good, 12)
    await produce(s, "unknown topic 13", "unknown", good, 13)
    await produce(s, "unknown partition", orders, good, partition=64)
    await produce(s, "negative partition", orders, good, partition=-1)
    await produce(s, "an internal topic", "__consumer_offsets", good)
    await produce(s, "no topics", orders, good, topic_data=[])
    await produce(s, "a transactional id", orders, good, transactional_id="t", partition=next(places))
    mended.append(next(places))
    twice = [TopicProduceData(name=orders, partition_data=[PartitionProduceData(index=mended[-1], records=good)] * 2)]
    await produce(s, "a partition twice", orders, good, topic_data=twice)
    mixed = [
        TopicProduceData(name=orders, partition_data=[PartitionProduceData(index=n, records=good) for n in (0, 99)]),
        TopicProduceData(name="unknown", partition_data=[PartitionProduceData(index=0, records=good)]),
    ]
    await produce(s, "good and bad together", orders, good, topic_data=mixed)
    kept = set(range(next(places))).difference(mended)
    await fetch(s, "what is kept", {(orders, n): 0 for n in sorted(kept)})
    await fetch(s, "what is kept of what Kafka mends or refuses", {(orders, n): 0 for n in mended})
    hasty = s.client("hasty")
    await hasty.ask("acks 0 and a bad batch", produce_request(s, orders, bytes(flipped), acks=0), 9)
    await hasty.ask("the connection afterwards", produce_request(s, orders, good), 9)


mended_by_kafka = {
    "a wrong first time",
    "a wrong largest time",
    "log append time",
    "records that are no records",
}


def reseal(data: bytes, at: int, new: bytes) -> bytes:
    """The batch with other bytes in a place, and the right checksum."""
    changed = bytearray(data)
    changed[at : at + len(new)] = new
    seal(changed)
    return bytes(changed)


@scene
async def a_compacted_topic(s: Stage) -> None:
    """Records without a key have no place there."""
    state = await s.topic("state", cleanup_policy="compact")
    await produce(s, "with a key", state, batch("x"))
    await produce(s, "without a key", state, bytes(encode_batch([Record(0, NOON, None, b"x", ())])))


@scene
async def fetches(s: Stage) -> None:
    """Limits, offsets out of range, epochs, unknown topics, long polls."""
    orders, other = await s.topic("orders", partitions=2), await s.topic("other")
    await fetch(s, "an empty partition", {(orders, 0): 0})
    for n in range(4):
        await produce(s, f"produce {n}", orders, batch(f"{n}" * 1_000))
    await produce(s, "produce to another", other, batch("z" * 1_000))
    for v in (4, 12, 17):
        await fetch(s, f"below the start {v}", {(orders, 0): -1}, v)
        await fetch(s, f"the end {v}", {(orders, 0): 4}, v)
        await fetch(s, f"past the end {v}", {(orders, 0): 5}, v)
        await fetch(s, f"unknown topic {v}", {("unknown", 0): 0}, v)
        await fetch(s, f"unknown partition {v}", {(orders, 2): 0}, v)
        await fetch(s, f"good and bad {v}", {(orders, 0): 3, (orders, 7): 0, ("unknown", 0): 0}, v)
        await fetch(s, f"leader epoch 0 {v}", {(orders, 0): 3}, v, epoch=0)
        await fetch(s, f"leader epoch of the future {v}", {(orders, 0): 3}, v, epoch=1)
    await fetch(s, "a negative leader epoch", {(orders, 0): 3}, epoch=-2)
    await fetch(s, "a last fetched epoch", {(orders, 0): 3}, last_epoch=0)
    await fetch(s, "a last fetched epoch of the future", {(orders, 0): 3}, last_epoch=7)
    await fetch(s, "a log start of its own", {(orders, 0): 3}, start=2)
    both = {(orders, 0): 0, (orders, 1): 0, (other, 0): 0}
    for room in (0, 1, 1_000, 1_100, 2_200, 2_201, 5_000):
        await fetch(s, f"room for {room} of the partition", {(orders, 0): 0}, room=room)
        await fetch(s, f"room for {room} in all", both, max_bytes=room)
        await fetch(s, f"room for {room} of each", both, room=room)
    await fetch(s, "room for -1 of the partition", {(orders, 0): 0}, room=-1)
    await fetch(s, "room for -1 in all", {(orders, 0): 0}, max_bytes=-1)
    await fetch(s, "no topics", {})
    await fetch(s, "read committed", {(orders, 0): 3}, isolation_level=1)
    await fetch(s, "an unknown isolation level", {(orders, 0): 3}, isolation_level=2)
    await fetch(s, "negative wait and size", {(orders, 0): 4}, max_wait_ms=-1, min_bytes=-1)
    await fetch(s, "as a follower", {(orders, 0): 3}, 11, replica_id=1)
    await fetch(s, "as a debugger", {(orders, 0): 3}, 11, replica_id=-2)
    await fetch(s, "as an unknown follower", {(orders, 0): 3}, 11, replica_id=5)
    poller = s.client("poller")
    wanted = FetchTopic(
        topic=orders, partitions=[FetchPartition(partition=0, fetch_offset=4, partition_max_bytes=9_999)]
    )
    await poller.waits("a long poll", FetchRequest(max_wait_ms=10_000, min_bytes=1, topics=[wanted]), 12)
    await produce(s, "produce for it", orders, batch("news"))
    await poller.receives("the news")
    await poller.waits(
        "a long poll for more than comes", FetchRequest(max_wait_ms=600, min_bytes=9_999, topics=[wanted]), 12
    )
    await poller.receives("what there is after its time")
    await poller.waits(
        "a long poll of a topic that goes", FetchRequest(max_wait_ms=4_000, min_bytes=9_999, topics=[wanted]), 12
    )
    await s.admin.ask("delete it", DeleteTopicsRequest(topic_names=[orders], timeout_ms=5_000), 5)
    await poller.receives("the topic is gone")


@scene
async def list_offsets(s: Stage) -> None:
    """By time, the ends, and the special ones, in every version."""
    orders = await s.topic("orders", partitions=2)
    await offsets(s, "of an empty partition", orders, -1, -2, -3, -4, -5, NOON)
    await produce(s, "in order", orders, batch("a", "b", "c"))
    await produce(s, "later", orders, batch("d", at=NOON + 60_000))
    await produce(s, "earlier", orders, batch("e", at=NOON - 60_000))
    await produce(s, "of the same time", orders, batch("f", at=NOON + 60_000))
    for v in range(1, 11):
        await offsets(s, f"version {v}", orders, -1, -2, NOON + 1_000, NOON + 1_001, NOON + 3_600_000, v=v)
    await offsets(s, "times", orders, NOON - 90_000, NOON - 60_000, NOON - 1, NOON, NOON + 60_000, NOON + 60_001, 0)
    for v in (1, 6, 7, 8, 9, 10):
        await offsets(s, f"special ones {v}", orders, -3, -4, -5, -6, -7, v=v)
    for v in (1, 5, 10):
        await offsets(s, f"unknown topic {v}", "unknown", -1, -3, v=v)
        await offsets(s, f"unknown partition {v}", orders, -1, v=v, partition=2)
        await offsets(s, f"leader epoch of the future {v}", orders, -1, NOON, v=v, epoch=1)
        await offsets(s, f"leader epoch 0 {v}", orders, -1, -2, NOON, v=v, epoch=0)
    await offsets(s, "committed", orders, -1, isolation_level=1)
    await offsets(s, "as a follower", orders, -1, replica_id=1)
    await offsets(s, "as a debugger", orders, -1, replica_id=-2)
    twice = ListOffsetsTopic(name=orders, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2)
    await s.admin.ask("a partition twice", ListOffsetsRequest(topics=[twice]), 7)
    await s.admin.ask("no topics", ListOffsetsRequest(), 7)


@scene
async def idempotent_producers(s: Stage) -> None:
    """KIP-98: sequence numbers that follow, repeat, jump; epochs that fall."""
    orders = await s.topic("orders")
    told = None
    for v in range(6):
        told = await s.admin.ask(f"an id {v}", InitProducerIdRequest(transaction_timeout_ms=1), v)
    assert told is not None
    me = told.producer_id

    async def send(name: str, *values: str, sequence: int, epoch: int = 0, producer_id: int = me) -> None:
        records = batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        await produce(s, name, orders, records)

    await send("the first batch", "a", "b", sequence=0)
    await send("the first again", "a", "b", sequence=0)
    await send("the second", "c", sequence=2)
    await send("a gap", "e", sequence=4)
    await send("the first once more", "a", "b", sequence=0)
    await send("half of the first", "a", sequence=0)
    for n in range(3, 9):
        await send(f"number {n}", "x", sequence=n)
    await send("a duplicate beyond the last five", "c", sequence=2)
    await send("a newer epoch that does not begin at 0", "x", sequence=5, epoch=1)
    await send("a newer epoch", "x", sequence=0, epoch=1)
    await send("the older epoch", "x", sequence=9)
    await send("an unknown producer that begins at 7", "x", sequence=7, producer_id=me + 12_345)
    await send("an unknown producer that begins at 0", "x", sequence=0, producer_id=me + 12_346)
    await send("no epoch", "x", sequence=0, epoch=-1, producer_id=me + 12_347)
    await send("no sequence", "x", sequence=-1, producer_id=me + 12_348)
    await fetch(s, "how many there are", {(orders, 0): 1_000})
    await s.admin.ask("a bump of an id's epoch", InitProducerIdRequest(producer_id=me, producer_epoch=1), 5)
    await s.admin.ask("an epoch without an id", InitProducerIdRequest(producer_epoch=1), 5)
    await s.admin.ask(
        "an empty transactional id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=9), 5
    )
    await s.admin.ask("timeout 0", InitProducerIdRequest(transaction_timeout_ms=0), 5)


@scene
async def a_start_that_moves(s: Stage) -> None:
    """Reads around the start of a partition whose first records are deleted."""
    orders = await s.topic("orders")
    for n in range(4):
        await produce(s, f"produce {n}", orders, batch(f"{n}-a", f"{n}-b"))

    async def delete(name: str, before: int) -> None:
        wanted = [DeleteRecordsPartition(partition_index=0, offset=before)]
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=orders, partitions=wanted)], timeout_ms=5_000)
        await s.admin.ask(name, request, 2)

    await delete("to the middle of a batch", 3)
    await offsets(s, "the ends", orders, -1, -2, -4, NOON)
    for offset in (0, 2, 3, 4, 8):
        await fetch(s, f"from {offset}", {(orders, 0): offset})
    await delete("all of it", -1)
    await offsets(s, "the ends of nothing", orders, -1, -2, -3, NOON)
    await fetch(s, "from the end", {(orders, 0): 8})
    await produce(s, "produce after all", orders, batch("last"))
    await fetch(s, "the last", {(orders, 0): 8})
