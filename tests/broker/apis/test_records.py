"""Produce, Fetch and ListOffsets."""

import pytest

from kohort.broker import Broker
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.batches import HEADER_SIZE, Buffer, Codec, Record, decode_records, encode_batch, read_header
from kohort.wire.batches.batch import seal
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kohort.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.broker.conftest import Connect
from tests.broker.peer import Peer, until

NOW = 1_700_000_000_000


def batch(*values: bytes, producer_id: int = -1, sequence: int = -1) -> bytearray:
    records = [Record(i, NOW + i, None, value, ()) for i, value in enumerate(values)]
    epoch = -1 if producer_id < 0 else 0
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def produce(records: Buffer, *, acks: int = -1, topic: str = "orders", partition: int = 0) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


def fetch(offset: int = 0, *, wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic="orders", partitions=[wanted])]
    return FetchRequest(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics)


async def store(peer: Peer, records: Buffer, **more: int | str) -> PartitionProduceResponse:
    answer = await peer.ask(produce(records, **more), 9, ProduceResponse)  # type: ignore[arg-type]  # names are checked
    return answer.responses[0].partition_responses[0]


def values(answer: FetchResponse) -> list[bytes | None]:
    data = answer.responses[0].partitions[0]
    assert data.error_code == ErrorCode.NONE
    records = data.records
    assert not isinstance(records, list)
    return [record.value for record in decode_records(records)] if records else []


@pytest.fixture(autouse=True)
def orders(broker: Broker) -> None:
    broker.topics.create("orders", 2)


@pytest.mark.parametrize("version", range(3, 14))
async def test_every_version_of_produce_stores_what_every_version_of_fetch_reads(
    peer: Peer, broker: Broker, version: int
) -> None:
    topic = broker.topics.named("orders")
    assert topic is not None
    request = produce(batch(b"a", b"b"))
    request.topic_data[0].topic_id = topic.topic_id
    answer = (await peer.ask(request, version, ProduceResponse)).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    for fetch_version in range(4, 18):
        wanted = fetch()
        wanted.topics[0].topic_id = topic.topic_id
        assert values(await peer.ask(wanted, fetch_version, FetchResponse)) == [b"a", b"b"]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_a_compacted_topic_takes_no_record_without_a_key(peer: Peer, broker: Broker, codec: Codec) -> None:
    broker.topics.create("accounts", 1, {"cleanup.policy": "delete,compact"})
    keys = [b"a", None, b"b", None]
    mixed = encode_batch([Record(i, NOW, key, b"v") for i, key in enumerate(keys)], codec)
    refused = await store(peer, mixed, topic="accounts")
    assert (refused.error_code, refused.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    # KIP-467: a client may send the others again without these.
    assert [record.batch_index for record in refused.record_errors] == [1, 3]
    kept = await store(peer, encode_batch([Record(0, NOW, b"a", None)], codec), topic="accounts")
    assert (kept.error_code, kept.base_offset) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("sent", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
@pytest.mark.parametrize(("wanted", "kept"), [("uncompressed", Codec.NONE), ("lz4", Codec.LZ4), ("producer", None)])
async def test_a_topics_codec_is_what_its_batches_are_kept_in(
    peer: Peer, broker: Broker, sent: Codec, wanted: str, kept: Codec | None
) -> None:
    broker.topics.create("packed", 1, {"compression.type": wanted})
    records = [Record(i, NOW + i, b"key", b"value" * 100, [("name", b"x")]) for i in range(3)]
    batch = encode_batch(records, sent, producer_id=7, producer_epoch=0, base_sequence=0)
    assert (await store(peer, batch, topic="packed")).error_code == ErrorCode.NONE
    # KIP-98: sent again it is still the batch that is there.
    assert (await store(peer, batch, topic="packed")).base_offset == 0
    fetched = fetch()
    fetched.topics[0].topic = "packed"
    stored = (await peer.ask(fetched, 11, FetchResponse)).responses[0].partitions[0].records
    assert isinstance(stored, bytes | memoryview)
    assert read_header(stored, 0).codec == (sent if kept is None else kept)
    assert decode_records(stored) == records


async def test_a_batch_that_does_not_unpack_is_refused_by_a_topic_with_a_codec(peer: Peer, broker: Broker) -> None:
    broker.topics.create("packed", 1, {"compression.type": "zstd"})
    batch = encode_batch([Record(0, NOW, b"key", b"value" * 100)], Codec.GZIP)
    batch[HEADER_SIZE:] = b"!" * (len(batch) - HEADER_SIZE)
    seal(batch)
    assert (await store(peer, batch, topic="packed")).error_code == ErrorCode.CORRUPT_MESSAGE
    log = broker.partition("packed", 0)
    assert log is not None
    assert log.end_offset == 0


async def test_a_batch_keeps_its_bytes_but_for_its_place(peer: Peer) -> None:
    await store(peer, batch(b"first"))
    sent = batch(b"x", b"y")
    assert (await store(peer, sent)).base_offset == 1
    records = (await peer.ask(fetch(1), 11, FetchResponse)).responses[0].partitions[0].records
    assert isinstance(records, memoryview | bytes)
    # Base offset and leader epoch are the broker's; the CRC does not cover them.
    assert bytes(records)[17:] == bytes(sent)[17:]


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (produce(batch(b"a"), topic="nobody"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(batch(b"a"), partition=2), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(batch(b"a"), partition=-1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (produce(batch(b"a"), topic="__consumer_offsets"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (produce(batch(b"a"), acks=2), ErrorCode.INVALID_REQUIRED_ACKS),
        (produce(batch(b"a" * 1_100_000)), ErrorCode.MESSAGE_TOO_LARGE),
        (produce(batch(b"a") + batch(b"b")), ErrorCode.INVALID_RECORD),
        (produce(batch(b"a")[:-1] + b"!"), ErrorCode.CORRUPT_MESSAGE),
    ],
)
async def test_invalid_batches_are_rejected_and_not_stored(
    peer: Peer, broker: Broker, request_: ProduceRequest, code: ErrorCode
) -> None:
    answer = (await peer.ask(request_, 9, ProduceResponse)).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (code, -1)
    log = broker.partition("orders", 0)
    assert log is not None
    assert log.end_offset == 0


async def test_acks_0_gets_no_answer_but_is_stored(peer: Peer) -> None:
    peer.send(produce(batch(b"quiet"), acks=0), 9)
    peer._asked.pop()
    assert (await store(peer, batch(b"loud"))).base_offset == 1


async def test_a_refused_batch_with_acks_0_closes_the_connection(peer: Peer) -> None:
    # As in Kafka: a producer that waits for nothing can learn of an error only so.
    peer.send(produce(batch(b"a"), acks=0, topic="nobody"), 9)
    assert await peer.closed()


async def test_a_fetch_waits_for_its_bytes_and_is_answered_when_they_come(peer: Peer, connect: Connect) -> None:
    waiting = await connect()
    waiting.send(fetch(wait_ms=60_000), 11)
    await store(peer, batch(b"news"))
    assert values(await waiting.answer(FetchResponse)) == [b"news"]


async def test_a_fetch_that_waited_in_vain_is_answered_empty(peer: Peer) -> None:
    assert values(await peer.ask(fetch(wait_ms=20), 11, FetchResponse)) == []


async def test_a_fetch_behind_the_end_is_out_of_range_at_once(peer: Peer) -> None:
    answer = await peer.ask(fetch(1, wait_ms=60_000), 11, FetchResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_the_first_batch_is_given_whole_whatever_the_limit(peer: Peer) -> None:
    # KIP-74: or a consumer with a small limit could never get past it.
    await store(peer, batch(b"x" * 1000))
    await store(peer, batch(b"y" * 1000))
    assert values(await peer.ask(fetch(max_bytes=10), 11, FetchResponse)) == [b"x" * 1000]


@pytest.mark.parametrize(("epoch", "code"), [(10_000, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_fetch_with_another_leader_epoch_is_fenced(peer: Peer, epoch: int, code: ErrorCode) -> None:
    request = fetch()
    request.topics[0].partitions[0].current_leader_epoch = epoch
    answer = await peer.ask(request, 11, FetchResponse)
    assert answer.responses[0].partitions[0].error_code == code


async def test_an_unknown_topic_id_has_another_error_than_an_unknown_name(peer: Peer) -> None:
    request = fetch()
    request.topics[0].topic_id = UUID(int=9)
    answer = await peer.ask(request, 13, FetchResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_repeated_batch_is_acknowledged_again_and_stored_once(peer: Peer, broker: Broker) -> None:
    made = await peer.ask(InitProducerIdRequest(transactional_id=None), 4, InitProducerIdResponse)
    sent = batch(b"once", producer_id=made.producer_id, sequence=0)
    first, again = await store(peer, bytes(sent)), await store(peer, bytes(sent))
    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, ErrorCode.NONE)
    gap = batch(b"gap", producer_id=made.producer_id, sequence=5)
    assert (await store(peer, gap)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log = broker.partition("orders", 0)
    assert log is not None
    assert log.end_offset == 1


async def test_a_repetition_that_is_still_on_its_way_to_disk_waits_for_it(peer: Peer, connect: Connect) -> None:
    # Both lie in one read of the socket: the second must not be acknowledged before the first is on disk.
    sent = bytes(batch(b"once", producer_id=7, sequence=0))
    peer.send(produce(sent), 9)
    peer.send(produce(sent), 9)
    answers = [await peer.answer(ProduceResponse), await peer.answer(ProduceResponse)]
    assert [answer.responses[0].partition_responses[0].base_offset for answer in answers] == [0, 0]


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(-1, 1, 3), (-2, 1, 0), (-3, 7, 2), (-4, 8, 0), (NOW + 1, 1, 1), (NOW + 9, 1, -1), (0, 1, 0)],
)
async def test_offsets_are_found_by_end_and_by_time(
    peer: Peer, version: int, timestamp: int, since: int, offset: int
) -> None:
    await store(peer, batch(b"a", b"b", b"c"))
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[wanted])])
    found = (await peer.ask(request, version, ListOffsetsResponse)).topics[0].partitions[0]
    if version < since:
        assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
    else:
        assert (found.error_code, found.offset) == (ErrorCode.NONE, offset)


async def test_two_hundred_waiting_fetches_leave_nothing_behind_when_their_peers_go(
    broker: Broker, connect: Connect
) -> None:
    peers = [await connect() for _ in range(200)]
    for each in peers:
        each.send(fetch(wait_ms=60_000), 11)
    (await connect()).send(fetch(wait_ms=0), 11)
    await until(lambda: broker.waiting_fetches.count == 200)
    for each in peers:
        each.writer.close()
    await until(lambda: broker.waiting_fetches.count == 0)
