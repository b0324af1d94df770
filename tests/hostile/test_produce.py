"""Record batches that must not reach a log: the answer is Kafka's error and nothing of the batch is kept."""

from __future__ import annotations

import uuid

import pytest

from tests.hostile.peer import Batch, Peer, old_message
from tests.interop.broker import Broker

CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNSUPPORTED_FOR_MESSAGE_FORMAT = 2, 10, 43
UNSUPPORTED_COMPRESSION_TYPE, INVALID_RECORD = 76, 87

REFUSED = {
    "a wrong CRC": (bytes(Batch(crc=1)), CORRUPT_MESSAGE),
    "a format of the future": (bytes(Batch(magic=3)), CORRUPT_MESSAGE),
    "a batch cut short": (bytes(Batch())[:-3], INVALID_RECORD),
    "a header cut short": (bytes(Batch())[:40], INVALID_RECORD),
    "a length below the header's": (bytes(Batch(length=10)), CORRUPT_MESSAGE),
    "a negative length": (bytes(Batch(length=-1)), CORRUPT_MESSAGE),
    "two batches": (bytes(Batch()) * 2, INVALID_RECORD),
    "a count that is not the offsets'": (bytes(Batch(count=5)), INVALID_RECORD),
    "no records": (bytes(Batch(values=(), last_offset_delta=0)), INVALID_RECORD),
    "a control batch": (bytes(Batch(attributes=0x20)), INVALID_RECORD),
    "a batch over message.max.bytes": (bytes(Batch(values=(b"x" * 1_100_000,))), MESSAGE_TOO_LARGE),
    "no bytes at all": (b"", INVALID_RECORD),
}
# Apache Kafka 4.3.1 has INVALID_RECORD for the old formats, which does not say why; UNKNOWN_SERVER_ERROR for the codec;
# and for null no answer at all.
REFUSED_BETTER = {
    "message format 0": (old_message(0, b"x"), UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "message format 1": (old_message(1, b"x"), UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "a codec that nobody knows": (bytes(Batch(attributes=7)), UNSUPPORTED_COMPRESSION_TYPE),
    "null records": (None, INVALID_RECORD),
}


@pytest.mark.parametrize(("records", "error"), REFUSED.values(), ids=REFUSED)
def test_a_bad_batch_is_refused_and_leaves_no_trace(records: bytes | None, error: int, any_broker: Broker) -> None:
    refuses(any_broker, records, error)


@pytest.mark.parametrize(("records", "error"), REFUSED_BETTER.values(), ids=REFUSED_BETTER)
def test_where_kafka_has_no_suitable_answer_ours_is_an_error_of_the_batch(
    records: bytes | None, error: int, kohort_broker: Broker
) -> None:
    refuses(kohort_broker, records, error)


def refuses(broker: Broker, records: bytes | None, error: int) -> None:
    topic = f"hostile-{uuid.uuid4().hex[:8]}"
    with Peer(broker.bootstrap) as neighbour, Peer(broker.bootstrap) as peer:
        peer.create_topic(topic)
        assert peer.produce(topic, records)[0] == error
        assert peer.log_end(topic) == 0
        neighbour.ping()
        # The connection stays, and the next good batch gets the first offset.
        assert peer.produce(topic, bytes(Batch())) == (0, 0)
        assert peer.log_end(topic) == 2
