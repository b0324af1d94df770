"""Consumer groups (KIP-848) under members that mean harm, or that are simply too many, beside a group that behaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from kohort.broker import Broker, BrokerOptions
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tests.broker.peer import Peer, talking_to

AT_ONCE = 500
"""Requests in flight on one connection; the broker stops reading at 1,000."""

pytestmark = pytest.mark.timeout(300)


async def beats(peer: Peer, requests: Sequence[ConsumerGroupHeartbeatRequest]) -> list[ConsumerGroupHeartbeatResponse]:
    """Send all, in bursts, and return the answers in the same order."""
    answers = []
    for start in range(0, len(requests), AT_ONCE):
        burst = requests[start : start + AT_ONCE]
        for request in burst:
            peer.send(request, 1)
        answers += [await peer.answer(ConsumerGroupHeartbeatResponse) for _ in burst]
    return answers


def joining(group: str, member: str, *topics: str, **fields: object) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
        **fields,  # type: ignore[arg-type]
    )


class Honest:
    """A group of one that sends heartbeats all the while and counts what it is told."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.slowest = 0.0
        """CPU seconds of all that is between a heartbeat and its answer: a busy machine must not count."""
        self.told: set[tuple[int, int]] = set()

    async def run(self, topic: str) -> None:
        joined = await self.peer.ask(joining("honest", "h", topic), 1, ConsumerGroupHeartbeatResponse)
        while True:
            began = time.process_time()
            beat = ConsumerGroupHeartbeatRequest(group_id="honest", member_id="h", member_epoch=joined.member_epoch)
            answer = await self.peer.ask(beat, 1, ConsumerGroupHeartbeatResponse)
            self.slowest = max(self.slowest, time.process_time() - began)
            self.told.add((answer.error_code, answer.member_epoch))
            await asyncio.sleep(0.05)


async def described(peer: Peer, group: str) -> ConsumerGroupDescribeResponse:
    return await peer.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1, ConsumerGroupDescribeResponse)


@pytest.mark.parametrize("many", [2_000, pytest.param(10_000, marks=pytest.mark.long("ten thousand members"))])
async def test_many_members_change_their_subscription_at_once(many: int) -> None:
    # The honest one measures how soon it is answered, so its heartbeats must not be held.
    # Nor may a slow machine end sessions while the members speak one after the other.
    patient = {"group.heartbeat.hold.ms": "0", "group.consumer.max.session.timeout.ms": "600000"}
    patient["group.consumer.session.timeout.ms"] = "600000"
    async with Broker(BrokerOptions(port=0, settings=patient)) as broker:
        one, other = broker.topics.create("one", 100), broker.topics.create("other", 100)
        async with talking_to(broker) as crowd, talking_to(broker) as beside:
            honest = Honest(beside)
            running = asyncio.create_task(honest.run("one"))
            members = [f"m{number}" for number in range(many)]
            joined = await beats(crowd, [joining("crowd", member, "one") for member in members])
            assert {answer.error_code for answer in joined} == {ErrorCode.NONE}

            epochs = await settle(crowd, members, {})
            changes = [
                ConsumerGroupHeartbeatRequest(
                    group_id="crowd", member_id=member, member_epoch=epochs[member], subscribed_topic_names=["other"]
                )
                for member in members
            ]
            changed = await beats(crowd, changes)
            assert {answer.error_code for answer in changed} == {ErrorCode.NONE}
            await settle(crowd, members, {m: a.member_epoch for m, a in zip(members, changed, strict=True)})
            running.cancel()

            [group] = (await described(crowd, "crowd")).groups
            owned = [
                (topic.topic_id, number)
                for member in group.members
                for topic in member.assignment.topic_partitions
                for number in topic.partitions
            ]
            assert group.group_state == "Stable"
            assert sorted(owned) == [(other.topic_id, number) for number in range(100)]
            assert {code for code, _ in honest.told} == {ErrorCode.NONE}
            assert len({epoch for _, epoch in honest.told}) == 1, "the group beside it saw a rebalance"
            print(f"beside it {honest.slowest * 1000:.0f} ms of CPU time per answer at most; topic {one.name}")
            assert honest.slowest < 2.0


async def settle(peer: Peer, members: Sequence[str], epochs: dict[str, int]) -> dict[str, int]:
    """Heartbeats of all, each reporting what it was given, until the group is Stable."""
    given: dict[str, list[TopicPartitions]] = {}
    for _ in range(20):
        requests = [
            ConsumerGroupHeartbeatRequest(
                group_id="crowd",
                member_id=member,
                member_epoch=epochs.get(member, 0),
                topic_partitions=given.get(member, []),
                **({} if member in epochs else {"rebalance_timeout_ms": 300_000, "subscribed_topic_names": ["one"]}),  # type: ignore[arg-type]
            )
            for member in members
        ]
        for member, answer in zip(members, await beats(peer, requests), strict=True):
            assert answer.error_code == ErrorCode.NONE, answer.error_message
            epochs[member] = answer.member_epoch
            if answer.assignment is not None:
                given[member] = answer.assignment.topic_partitions
        if (await described(peer, "crowd")).groups[0].group_state == "Stable":
            return epochs
        await asyncio.sleep(1.0)  # targets are computed once in an interval (KIP-1263)
    raise AssertionError("the crowd does not settle")


async def test_oversized_values_are_rejected_briefly_and_quickly() -> None:
    invalid = ErrorCode.INVALID_REGULAR_EXPRESSION
    too_long = [
        (joining("g", "a", subscribed_topic_regex="a" * 32_768), invalid),
        (joining("g", "a", subscribed_topic_regex="(" * 20_000), invalid),
        (joining("g", "a", subscribed_topic_regex="a" * (1 << 20)), invalid),
        (joining("g", "a", subscribed_topic_regex="(x+x+)+" * 100 + "{1001}"), invalid),
        (joining("g", "m" * 32_768, "one"), ErrorCode.INVALID_REQUEST),
        (joining("g" * 32_768, "a", "one"), ErrorCode.INVALID_REQUEST),
        (joining("g", "a", *(f"topic-{number}" for number in range(200_000))), ErrorCode.UNKNOWN_SERVER_ERROR),
    ]
    async with Broker(BrokerOptions(port=0)) as broker:
        broker.topics.create("one", 1)
        async with talking_to(broker) as peer:
            for request, code in too_long:
                began = time.process_time()
                answer = await peer.ask(request, 1, ConsumerGroupHeartbeatResponse)
                assert answer.error_code == code
                assert answer.error_message is not None and len(answer.error_message) < 500
                assert time.process_time() - began < 1.0
            [group] = (await described(peer, "g")).groups
            assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND, "nothing is left of them"
            longest = joining("g", "m" * 32_767, "one", subscribed_topic_regex="a" * 32_767)
            assert (await peer.ask(longest, 1, ConsumerGroupHeartbeatResponse)).error_code == ErrorCode.NONE


async def test_partitions_of_another_member_are_not_given_away_by_who_claims_them() -> None:
    async with Broker(BrokerOptions(port=0, settings={"group.consumer.assignment.interval.ms": "0"})) as broker:
        topic = broker.topics.create("one", 2)
        claim = [TopicPartitions(topic_id=topic.topic_id, partitions=[0, 1, 7]), TopicPartitions(topic_id=UUID(int=5))]
        async with talking_to(broker) as peer:
            first = await peer.ask(joining("g", "a", "one"), 1, ConsumerGroupHeartbeatResponse)
            second = await peer.ask(joining("g", "b", "one"), 1, ConsumerGroupHeartbeatResponse)
            lie = ConsumerGroupHeartbeatRequest(
                group_id="g", member_id="b", member_epoch=second.member_epoch, topic_partitions=claim
            )
            answer = await peer.ask(lie, 1, ConsumerGroupHeartbeatResponse)
            assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, None)
            assert first.assignment is not None
            [group] = (await described(peer, "g")).groups
            assert {m.member_id: [t.partitions for t in m.assignment.topic_partitions] for m in group.members} == {
                "a": [[0, 1]],
                "b": [],
            }
