from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.subscriptions import are_readable, assigned_partitions, owned_partitions, subscription_change
from kohort.group_events import Cause
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def said(topics: str = "t", owned: tuple[TopicPartition, ...] = (), **more: object) -> bytes:
    return encode_subscription(Subscription(list(topics), owned_partitions=owned, **more))  # type: ignore[arg-type]


def test_a_member_keeps_what_it_owns_only_while_all_its_assignors_are_cooperative() -> None:
    metadata = said(owned=(T0, T1))
    assert owned_partitions("consumer", {"cooperative-sticky": metadata}) == frozenset({T0, T1})
    assert owned_partitions("consumer", {"cooperative-sticky": said()}) == frozenset()
    # KIP-429: in the first of two rolling bounces it still supports an eager one, and revokes everything.
    assert owned_partitions("consumer", {"cooperative-sticky": metadata, "range": metadata}) is None
    assert owned_partitions("connect", {"cooperative-sticky": metadata}) is None


def test_changed_partitions_and_racks() -> None:
    before = {"cooperative-sticky": said(owned=(T0, T1))}
    assert subscription_change("consumer", before, dict(before)) is None
    assert subscription_change("consumer", before, {"cooperative-sticky": said(owned=(T0,))}) is Cause.OWNED_CHANGED
    assert (
        subscription_change("consumer", before, {"cooperative-sticky": said("tu", (T0, T1))})
        is Cause.SUBSCRIPTION_CHANGED
    )
    assert subscription_change("consumer", before, {"range": said(owned=(T0, T1))}) is Cause.SUBSCRIPTION_CHANGED
    moved = {"cooperative-sticky": said(owned=(T0, T1), rack_id="elsewhere")}
    assert subscription_change("consumer", before, moved) is Cause.SUBSCRIPTION_CHANGED
    assert subscription_change("connect", {"x": b"1"}, {"x": b"2"}) is Cause.SUBSCRIPTION_CHANGED


def test_the_order_of_preference_is_part_of_the_subscription() -> None:
    one, other = {"a": said(), "b": said()}, {"b": said(), "a": said()}
    assert subscription_change("consumer", one, other) is Cause.SUBSCRIPTION_CHANGED


def test_a_subscription_without_the_fields_of_its_version_is_read_as_version_0() -> None:
    # Some clients name version 1 and send what version 0 has; Kafka takes them.
    short = b"\0\1" + encode_subscription(Subscription(["t"]), 0)[2:]
    assert are_readable("consumer", {"range": short})
    assert owned_partitions("consumer", {"cooperative-sticky": short}) == frozenset()
    assert not are_readable("consumer", {"range": b"\xff\xff" + short[2:]})
    assert not are_readable("consumer", {"range": short[:-5]})


def test_only_consumers_use_the_consumer_protocol() -> None:
    assert are_readable("consumer", {"range": said()})
    assert not are_readable("consumer", {"range": said(), "sticky": b"?"})
    assert are_readable("connect", {"default": b"?"})
    assert assigned_partitions("connect", encode_assignment(Assignment([T0]))) == frozenset()


@given(st.binary(max_size=64))
def test_foreign_bytes_never_fail(data: bytes) -> None:
    are_readable("consumer", {"range": data})
    assert isinstance(assigned_partitions("consumer", data), frozenset)
    assert isinstance(owned_partitions("consumer", {"cooperative-sticky": data}), frozenset)
    subscription_change("consumer", {"range": data}, {"range": said()})
