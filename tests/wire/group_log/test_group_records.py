"""The records of `__consumer_offsets`: bytes that Apache Kafka 4.3.1 wrote, and bytes that nobody would write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.batches import decode_records, pack_batch
from kohort.wire.codec import DecodeError, Message, decode, encode
from kohort.wire.group_log import GroupRecord, group_record
from kohort.wire.group_log.group_bytes import decode_key, decode_value, encode_key, encode_records, encode_value
from kohort.wire.group_log.packing import pack_records
from kohort.wire.messages.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    PartitionMetadata,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    TargetTopicPartition,
    TopicMetadata,
    TopicPartitions,
)
from tests.wire.messages import any_bytes, fit, messages

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
NOW = 1_700_000_000_000

COMMIT = OffsetCommitValue(
    offset=123456789012, leader_epoch=5, metadata="note", commit_timestamp=NOW, topic_id=TOPIC_ID
)
GENERATION = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="m1",
    current_state_timestamp=NOW,
    members=[
        MemberMetadata(
            member_id="m1",
            group_instance_id="i1",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=b"\1\2",
            assignment=b"\3",
        ),
        MemberMetadata(
            member_id="m2",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
        ),
    ],
)
MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="h",
    subscribed_topic_names=["t"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=5000,
    server_assignor="uniform",
)
CLASSIC_MEMBER = ConsumerGroupMemberMetadataValue(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="h",
    subscribed_topic_names=["t"],
    subscribed_topic_regex="",
    rebalance_timeout_ms=5000,
    server_assignor="uniform",
    classic_member_metadata=ClassicMemberMetadata(
        session_timeout_ms=45_000, supported_protocols=[ClassicProtocol(name="range", metadata=b"\x09")]
    ),
)

# Bytes that Apache Kafka 4.3.1's own classes write.
KEYS: list[tuple[Message, str]] = [
    (LegacyOffsetCommitKey(group="g", topic="t", partition=1), "000000016700017400000001"),
    (
        OffsetCommitKey(group="delays", topic="flights", partition=11),
        "0001000664656c6179730007666c69676874730000000b",
    ),
    (GroupMetadataKey(group="delays"), "0002000664656c617973"),
    (ConsumerGroupMetadataKey(group_id="g"), "0003000167"),
    (ConsumerGroupPartitionMetadataKey(group_id="g"), "0004000167"),
    (ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), "000500016700016d"),
    (ConsumerGroupTargetAssignmentMetadataKey(group_id="g"), "0006000167"),
    (ConsumerGroupTargetAssignmentMemberKey(group_id="g", member_id="m"), "000700016700016d"),
    (ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), "000800016700016d"),
    (ConsumerGroupRegularExpressionKey(group_id="g", regular_expression="f.*"), "00100001670003662e2a"),
    (ShareGroupMetadataKey(group_id="g"), "000b000167"),
]
VALUES: list[tuple[Message, str]] = [
    (
        LegacyOffsetCommitValue(offset=7, metadata="n", commit_timestamp=NOW),
        "0000000000000000000700016e0000018bcfe56800",
    ),
    (
        COMMIT,
        "00040000001cbe991a1400000005056e6f74650000018bcfe5680001001000112233445566778899aabbccddeeff",
    ),
    (OffsetCommitValue(offset=7, commit_timestamp=NOW), "00040000000000000007ffffffff010000018bcfe5680000"),
    (
        OffsetCommitValue(offset=7, commit_timestamp=NOW, topic_id=TOPIC_ID),
        "00040000000000000007ffffffff010000018bcfe5680001001000112233445566778899aabbccddeeff",
    ),
    (
        OffsetCommitValue(offset=7, commit_timestamp=NOW, expire_timestamp=NOW + 9999),
        "0001000000000000000700000000018bcfe568000000018bcfe58f0f",
    ),
    (
        GENERATION,
        "00030008636f6e73756d657200000003000572616e676500026d310000018bcfe568000000000200026d3100026931000163000a"
        "2f3132372e302e302e31000493e00000afc8000000020102000000010300026d32ffff000163000a2f3132372e302e302e310004"
        "93e00000afc80000000000000000",
    ),
    (
        GroupMetadataValue(protocol=None, leader=None, current_state_timestamp=NOW),
        "0003000000000000ffffffff0000018bcfe5680000000000",
    ),
    (ConsumerGroupMetadataValue(epoch=4), "00000000000400"),
    (ConsumerGroupMetadataValue(epoch=4, metadata_hash=99), "0000000000040100080000000000000063"),
    (
        ConsumerGroupPartitionMetadataValue(
            topics=[
                TopicMetadata(
                    topic_id=TOPIC_ID,
                    topic_name="t",
                    num_partitions=1,
                    partition_metadata=[PartitionMetadata(partition=0, racks=["r"])],
                )
            ]
        ),
        "00000200112233445566778899aabbccddeeff0274000000010200000000020272000000",
    ),
    (MEMBER, "000002690002630268020274010000138808756e69666f726d00"),
    (CLASSIC_MEMBER, "000002690002630268020274010000138808756e69666f726d010010010000afc8020672616e676502090000"),
    (
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=4, assignment_timestamp=NOW),
        "0000000000040100080000018bcfe56800",
    ),
    (
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[TargetTopicPartition(topic_id=TOPIC_ID, partitions=[0, 1])]
        ),
        "00000200112233445566778899aabbccddeeff0300000000000000010000",
    ),
    (
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=4,
            previous_member_epoch=3,
            state=1,
            assigned_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1], assignment_epochs=[3, 4])],
            partitions_pending_revocation=[TopicPartitions(topic_id=TOPIC_ID, partitions=[2])],
        ),
        "00000000000400000003010200112233445566778899aabbccddeeff030000000000000001010009030000000300000004020011"
        "2233445566778899aabbccddeeff02000000020000",
    ),
    (
        ConsumerGroupRegularExpressionValue(topics=["f1", "f2"], version=7, timestamp=NOW),
        "00000303663103663200000000000000070000018bcfe5680000",
    ),
    (ShareGroupMetadataValue(epoch=4, metadata_hash=99), "000000000004000000000000006300"),
]
KEY_OF = {type(key).KEY: key for key, _ in KEYS}


@pytest.mark.parametrize(("key", "data"), KEYS, ids=lambda value: type(value).__name__)
def test_a_key_is_written_and_read_as_apache_kafka_writes_it(key: Message, data: str) -> None:
    assert encode_key(key).hex() == data
    assert decode_key(bytes.fromhex(data)) == key


@pytest.mark.parametrize(("value", "data"), VALUES, ids=lambda value: type(value).__name__)
def test_a_value_is_written_and_read_as_apache_kafka_writes_it(value: Message, data: str) -> None:
    assert encode_value(value).hex() == data
    expected = value
    if isinstance(value, OffsetCommitValue) and data.startswith("0001"):
        expected = fit(value, 1)
    assert decode_value(KEY_OF[value.KEY], bytes.fromhex(data)) == expected


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, "00000000001cbe991a1400046e6f74650000018bcfe56800"),
        (1, "00010000001cbe991a1400046e6f74650000018bcfe56800ffffffffffffffff"),
        (2, "00020000001cbe991a1400046e6f74650000018bcfe56800"),
        (3, "00030000001cbe991a140000000500046e6f74650000018bcfe56800"),
    ],
)
def test_commits_of_older_brokers_are_read(version: int, data: str) -> None:
    assert decode_value(OffsetCommitKey(), bytes.fromhex(data)) == fit(COMMIT, version)
    assert encode(fit(COMMIT, version), version).hex() == data[4:]


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (
            0,
            "00000008636f6e73756d657200000003000572616e676500026d310000000200026d31000163000a2f3132372e302e302e310000"
            "afc8000000020102000000010300026d32000163000a2f3132372e302e302e310000afc80000000000000000",
        ),
        (
            4,
            "000409636f6e73756d6572000000030672616e6765036d310000018bcfe5680003036d3103693102630b2f3132372e302e302e31"
            "000493e00000afc8030102020300036d320002630b2f3132372e302e302e31000493e00000afc801010000",
        ),
    ],
)
def test_generations_in_other_versions_are_read(version: int, data: str) -> None:
    assert decode_value(GroupMetadataKey(), bytes.fromhex(data)) == fit(GENERATION, version)


def test_a_member_without_a_classic_one_is_read_as_a_broker_of_apache_kafka_logs_it() -> None:
    # Its log has a tagged field for the null; the bytes are those of a member of librdkafka on Apache Kafka 4.3.1.
    logged = "0000 00 00 08 72646b61666b61 0b 2f3132372e302e302e31 02 03 666c 01 000493e0 00 01 00 01 00"
    value = decode_value(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), bytes.fromhex(logged))
    assert isinstance(value, ConsumerGroupMemberMetadataValue)
    assert (value.client_id, value.subscribed_topic_names) == ("rdkafka", ["fl"])
    assert value.classic_member_metadata is None


def test_a_type_of_record_that_we_do_not_know_is_none() -> None:
    streams_group = bytes.fromhex("0011000167")
    assert decode_key(streams_group) is None


@pytest.mark.parametrize("data", ["", "00", "0001", "000100ff", "0001000167", "00050001670002"])
def test_a_malformed_key_is_an_error(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_key(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "00", "ffff0000", "0005", "00040000000000000007ffffffff01"])
def test_a_malformed_value_or_one_of_an_unknown_version_is_an_error(data: str) -> None:
    with pytest.raises(DecodeError):
        decode_value(OffsetCommitKey(), bytes.fromhex(data))


COMMITS = st.builds(
    group_record,
    st.builds(OffsetCommitKey, group=st.sampled_from("gh"), topic=st.sampled_from("tu"), partition=st.integers(0, 9)),
    st.none()
    | st.builds(
        OffsetCommitValue,
        offset=st.integers(0, 2**40),
        leader_epoch=st.integers(-1, 5),
        metadata=st.sampled_from(["", "", "note"]),
        commit_timestamp=st.just(NOW),
        expire_timestamp=st.sampled_from([-1, -1, NOW]),
        topic_id=st.sampled_from([TOPIC_ID, NO_TOPIC_ID]),
    ),
)
OTHERS = st.sampled_from([group_record(GroupMetadataKey(group="g"), value) for value in (GENERATION, None)])


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(COMMITS | OTHERS, min_size=1), st.sampled_from([0, 1, 60, 8_190]))
def test_records_packed_in_a_run_are_those_written_one_by_one(records: list[GroupRecord], first: int) -> None:
    # The size of an offset delta changes at 64 and at 8,192.
    one_by_one = [(encode_key(r.key), None if r.value is None else encode_value(r.value)) for r in records]
    assert encode_records(records) == one_by_one
    assert [decode_key(key) for key, _ in one_by_one] == [record.key for record in records]
    before = pack_records([group_record(OffsetCommitKey(group="g"), None)] * first, 0)
    batch = pack_batch(b"".join([*before, *pack_records(records, first)]), first + len(records), 7)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in decode_records(batch)[first:]] == [
        (offset, 7, key, value) for offset, (key, value) in enumerate(one_by_one, first)
    ]


def test_a_run_ends_where_the_group_the_topic_or_its_id_changes() -> None:
    places = [("g", "t", TOPIC_ID), ("h", "t", TOPIC_ID), ("h", "u", TOPIC_ID), ("h", "u", NO_TOPIC_ID)]
    records = [
        group_record(
            OffsetCommitKey(group=group, topic=topic, partition=3), OffsetCommitValue(offset=5, topic_id=topic_id)
        )
        for group, topic, topic_id in places
        for _ in range(2)
    ]
    batch = pack_batch(b"".join(pack_records(records, 0)), len(records), 7)
    assert [(r.key, r.value) for r in decode_records(batch)] == encode_records(records)


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_every_record_survives_in_every_version(data: st.DataObject) -> None:
    for sample in (message for message, _ in [*KEYS, *VALUES]):
        kind = type(sample)
        value = data.draw(messages(kind, any_bytes))
        for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1):
            assert decode(kind, version, encode(fit(value, version), version)) == fit(value, version)
