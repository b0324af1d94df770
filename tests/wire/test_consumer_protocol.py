"""Subscriptions and assignments: bytes of Apache Kafka 4.3.1, and what older or newer or broken members send."""

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.model import TopicPartition
from kohort.wire.codec import DecodeError
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # on Python 3.11, for how kafka-python reads its schemas
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment as PyAssignment
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as PySubscription

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FULL = Subscription(["b", "a"], b"\0\0\0\5", [A1, B0, A0], 5, "rack")
SORTED = Subscription(["a", "b"], b"\0\0\0\5", [A0, A1, B0], 5, "rack")

# Bytes that Apache Kafka 4.3.1's ConsumerProtocol writes for FULL.
BYTES = {
    0: "0000000000020001610001620000000400000005",
    1: "0001000000020001610001620000000400000005000000020001610000000200000000000000010001620000000100000000",
    2: "000200000002000161000162000000040000000500000002000161000000020000000000000001000162000000010000000000000005",
    3: "00030000000200016100016200000004000000050000000200016100000002000000000000000100016200000001000000000000"
    "000500047261636b",
}


@pytest.mark.parametrize("version", BYTES)
def test_a_subscription_is_written_as_apache_kafka_writes_it(version: int) -> None:
    assert encode_subscription(FULL, version).hex() == BYTES[version]


def test_fields_missing_in_a_version_are_unknown() -> None:
    assert decode_subscription(bytes.fromhex(BYTES[3])) == SORTED
    assert decode_subscription(bytes.fromhex(BYTES[2])) == Subscription(["a", "b"], b"\0\0\0\5", [A0, A1, B0], 5)
    assert decode_subscription(bytes.fromhex(BYTES[1])) == Subscription(["a", "b"], b"\0\0\0\5", [A0, A1, B0])
    assert decode_subscription(bytes.fromhex(BYTES[0])) == Subscription(["a", "b"], b"\0\0\0\5", [])


def test_a_plain_subscription() -> None:
    data = bytes.fromhex("000300000001000161ffffffff00000000ffffffffffff")
    assert encode_subscription(Subscription(["a"])) == data
    assert decode_subscription(data) == Subscription(["a"], None, [])


def test_an_assignment_is_written_as_apache_kafka_writes_it() -> None:
    data = bytes.fromhex("00030000000200016100000002000000010000000000016200000001000000000000000101")
    assert encode_assignment(Assignment([A1, B0, A0], b"\1")) == data
    assert decode_assignment(data) == Assignment([A1, A0, B0], b"\1")
    assert encode_assignment(Assignment()) == bytes.fromhex("000300000000ffffffff")


def test_no_bytes_are_an_empty_assignment() -> None:
    # A member that the leader left out is answered so.
    assert decode_assignment(b"") == Assignment([])


def test_a_set_of_partitions_is_written_in_order() -> None:
    # Simulations compare bytes between runs, and a set's order is not the same in two processes.
    assert encode_assignment(Assignment(frozenset([B0, A1, A0]))) == encode_assignment(Assignment([A0, A1, B0]))


def test_a_newer_version_is_read_as_our_newest() -> None:
    newer = b"\0\x09" + bytes.fromhex(BYTES[3])[2:] + b"a field of the future"
    assert decode_subscription(newer) == SORTED
    assert decode_assignment(b"\0\x09" + encode_assignment(Assignment([A0]))[2:] + b"?") == Assignment([A0])


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"garbage instead"])
def test_malformed_subscriptions_are_an_error(data: bytes) -> None:
    # KAFKA-20570: a broker that trusts these bytes can be brought down by one member.
    with pytest.raises(DecodeError):
        decode_subscription(data)


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1", b"\0\0\x7f\xff\xff\xff"])
def test_malformed_assignments_are_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_assignment(data)


def test_every_prefix_of_a_subscription_is_an_error_or_what_version_0_has() -> None:
    data = bytes.fromhex(BYTES[3])
    enough = len(bytes.fromhex(BYTES[0]))
    for size in range(enough):
        with pytest.raises(DecodeError):
            decode_subscription(data[:size])
    for size in range(enough, len(data)):
        # Were it an error, a member of a client that leaves out what it does not use would stop a whole group.
        assert decode_subscription(data[:size]) == Subscription(["a", "b"], b"\0\0\0\5", [])


topics = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
partitions = st.lists(st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1)), unique=True, max_size=6)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(st.lists(topics, unique=True, max_size=4), st.none() | st.binary(max_size=9), partitions, st.integers(-1, 9))
def test_kafka_python_reads_what_we_write(
    names: list[str], user_data: bytes | None, owned: list[TopicPartition], generation: int
) -> None:
    data = encode_subscription(Subscription(names, user_data, owned, generation), 2)
    theirs = PySubscription.decode(data)
    assert theirs.topics == sorted(names)
    assert theirs.user_data == user_data
    assert {(t.topic, p) for t in theirs.owned_partitions for p in t.partitions} == set(owned)
    assert theirs.generation_id == generation
    assert decode_subscription(data) == Subscription(sorted(names), user_data, sorted(owned), generation)

    data = encode_assignment(Assignment(owned, user_data))
    given_to_me = PyAssignment.decode(data)
    assert {(t.topic, p) for t in given_to_me.assigned_partitions for p in t.partitions} == set(owned)
    assert given_to_me.user_data == user_data
    assert set(decode_assignment(data).partitions) == set(owned)
