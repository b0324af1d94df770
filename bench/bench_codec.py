"""What it costs to write and read a few messages, against kio: `python bench/run.py codec`.

The best of several short rounds, ours and kio's in turn, so that a noisy machine disturbs both alike. kio decodes in
Rust and encodes in Python.
"""

import argparse
import io
import sys
import timeit
from collections.abc import Callable
from pathlib import Path

from kio.serial import entity_reader, entity_writer

sys.path.insert(0, str(Path(__file__).parents[1]))

from kohort.model import UUID
from kohort.wire.codec import Buffer, Message, decoder, encoder
from kohort.wire.group_log import encode_key, encode_value
from kohort.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kohort.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.wire.kio_oracle import as_kio, kio_bytes, kio_class

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
MEMBER_ID = "consumer-delays-1-5f2b9d4e-6f0e-4c59-a2a9-3d1ad5c1a1d5"
SUBSCRIPTION = b"s" * 60

MESSAGES: list[tuple[str, Message, int]] = [
    ("Heartbeat v4 request", HeartbeatRequest(group_id="delays", generation_id=5, member_id=MEMBER_ID), 4),
    ("Heartbeat v4 response", HeartbeatResponse(), 4),
    (
        "OffsetCommit v8 request, 10 partitions",
        OffsetCommitRequest(
            group_id="delays",
            generation_id_or_member_epoch=5,
            member_id=MEMBER_ID,
            topics=[
                OffsetCommitRequestTopic(
                    name="flights",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=number, committed_offset=12_345_678)
                        for number in range(10)
                    ],
                )
            ],
        ),
        8,
    ),
    (
        "OffsetCommit v8 response, 10 partitions",
        OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name="flights", partitions=[OffsetCommitResponsePartition(partition_index=n) for n in range(10)]
                )
            ]
        ),
        8,
    ),
    (
        "JoinGroup v9 request",
        JoinGroupRequest(
            group_id="delays",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id=MEMBER_ID,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION),
                JoinGroupRequestProtocol(name="cooperative-sticky", metadata=SUBSCRIPTION),
            ],
        ),
        9,
    ),
    (
        "JoinGroup v9 response, 100 members",
        JoinGroupResponse(
            generation_id=5,
            protocol_type="consumer",
            protocol_name="range",
            leader=MEMBER_ID,
            member_id=MEMBER_ID,
            members=[JoinGroupResponseMember(member_id=f"{MEMBER_ID}{n}", metadata=SUBSCRIPTION) for n in range(100)],
        ),
        9,
    ),
    (
        "Fetch v12 request, 10 partitions",
        FetchRequest(
            max_wait_ms=500,
            topics=[FetchTopic(topic="flights", partitions=[FetchPartition(partition=n) for n in range(10)])],
        ),
        12,
    ),
    (
        "Fetch v13 response, 10 partitions of 1 kB",
        FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic_id=TOPIC_ID,
                    partitions=[PartitionData(partition_index=n, records=b"r" * 1000) for n in range(10)],
                )
            ]
        ),
        13,
    ),
]


def best(call: Callable[[], object], seconds: float = 0.012) -> float:
    """Seconds of one call: the fastest of five rounds."""
    timer = timeit.Timer(call)
    number = max(1, int(seconds / max(timer.timeit(3) / 3, 1e-7)))
    return min(timer.repeat(5, number)) / number


def report(name: str, message: Message, version: int) -> None:
    """One line: nanoseconds of ours, and how many times as long kio takes."""
    kind = type(message)
    theirs = kio_class(kind, version)
    other = as_kio(message, theirs, version)
    data = kio_bytes(other)
    write, read = encoder(kind, version), decoder(kind, version)
    kio_write, kio_read = entity_writer(theirs), entity_reader(theirs)

    def ours() -> bytes:
        parts: list[Buffer] = []
        write(message, parts)
        return b"".join(parts)

    def kios() -> bytes:
        buffer = io.BytesIO()
        kio_write(buffer, other)
        return buffer.getvalue()

    assert ours() == kios() == data
    encode_ours, encode_kio = best(ours), best(kios)
    decode_ours, decode_kio = best(lambda: read(data, 0)), best(lambda: kio_read(data, 0))
    print(
        f"{name:42} {encode_ours * 1e9:9,.0f} ns {encode_kio / encode_ours:6.1f} x"
        f" {decode_ours * 1e9:9,.0f} ns {decode_kio / decode_ours:6.2f} x"
    )


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(f"{'':42} {'encode':>12} {'vs kio':>8} {'decode':>12} {'vs kio':>8}")
    for name, message, version in MESSAGES:
        report(name, message, version)
    key = OffsetCommitKey(group="delays", topic="flights", partition=7)
    value = OffsetCommitValue(offset=12_345_678, commit_timestamp=1_700_000_000_000, topic_id=TOPIC_ID)
    both = best(lambda: (encode_key(key), encode_value(value)))
    print(f"{'commit record, key and value':42} {both * 1e9:9,.0f} ns")


if __name__ == "__main__":
    main()
