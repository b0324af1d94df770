"""The assignments in the log are judged by what the members had when they joined that generation."""

from __future__ import annotations

import pytest

from kohort.assignor import Claim
from kohort.assignor.user_data import encode_claim
from kohort.model import TopicPartition
from kohort.sim import Violation
from kohort.sim.checks.durable_groups import DurableGroups
from kohort.sim.checks.group_progress import GroupProgress
from kohort.wire.group_log import Record, encode_records
from kohort.wire.messages.consumer_protocol import Assignment, Subscription, encode_assignment, encode_subscription
from kohort.wire.messages.group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

ORDERS_0 = TopicPartition("orders", 0)
EPOCH_5 = Record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=5))
CONSUMER_GROUP_ENDS = Record(ConsumerGroupMetadataKey(group_id="g"), None)


def moved(protocol: str, generation: int) -> Record:
    """The generation in which the member `new` has the only partition, and the member `old` said that it had it."""

    def member(member_id: str, owned: list[TopicPartition], assigned: list[TopicPartition]) -> MemberMetadata:
        claim = encode_claim(Claim(owned, 1))
        said = Subscription(topics=["orders"], user_data=claim, owned_partitions=owned, generation_id=1)
        return MemberMetadata(
            member_id=member_id,
            subscription=encode_subscription(said, 3),
            assignment=encode_assignment(Assignment(assigned), 3),
        )

    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol=protocol,
        leader="new",
        members=[member("old", [ORDERS_0], []), member("new", [], [ORDERS_0])],
    )
    return Record(GroupMetadataKey(group="g"), value)


def written(*records: Record) -> DurableGroups:
    groups = DurableGroups(GroupProgress(), lambda topic: 1)
    groups.written(encode_records(records))
    return groups


@pytest.mark.parametrize(("protocol", "invariant"), [("sticky", "S3"), ("cooperative-sticky", "S1")])
def test_an_assignment_of_a_consumer_group_is_not_judged_by_what_members_had_before_it(
    protocol: str, invariant: str
) -> None:
    # The member `old` was removed, and joined the consumer group again with the claim of its old generation.
    became_classic = written(EPOCH_5, CONSUMER_GROUP_ENDS, moved(protocol, 5))
    became_classic.written(encode_records([moved(protocol, 5)]))  # a static member returned
    for earlier in (became_classic, written(), written(EPOCH_5, CONSUMER_GROUP_ENDS)):
        with pytest.raises(Violation, match="orders") as found:
            earlier.written(encode_records([moved(protocol, 6)]))
        assert found.value.invariant == invariant


def test_a_damaged_log_does_not_hide_that_a_group_was_a_consumer_group() -> None:
    before = written(EPOCH_5, CONSUMER_GROUP_ENDS, moved("sticky", 5))
    before.damaged(encode_records([CONSUMER_GROUP_ENDS, moved("sticky", 5)]))
    before.damaged(encode_records([moved("sticky", 5)]))


def test_a_generation_that_was_stored_again_is_not_new_after_damage_to_the_log() -> None:
    def generation(number: int, topic: str) -> Record:
        member = MemberMetadata(
            member_id="m",
            subscription=encode_subscription(Subscription(topics=[topic]), 3),
            assignment=encode_assignment(Assignment([ORDERS_0]), 3),
        )
        value = GroupMetadataValue(protocol_type="consumer", generation=number, protocol="range", leader="m")
        value.members = [member]
        return Record(GroupMetadataKey(group="g"), value)

    # A static member returned with another subscription, and keeps its assignment.
    before = written(generation(1, "orders"), generation(1, "audit"))
    rest = before.damaged(encode_records([generation(1, "audit")]))
    with pytest.raises(Violation, match="subscribes"):
        rest.written(encode_records([generation(2, "audit")]))
    # The log had no generation 2, so damage cannot explain it.
    with pytest.raises(Violation, match="subscribes"):
        before.damaged(encode_records([generation(2, "audit")]))
