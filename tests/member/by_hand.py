"""A member of a classic group whose coordinator is the test: each answer is made by hand, at a known time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kohort.assignor import find_assignors
from kohort.errors import ErrorCode
from kohort.member import (
    Actions,
    CallbackDone,
    ClassicMember,
    CommitRequested,
    CoordinatorFound,
    Event,
    MemberConfig,
    MemberTimer,
    OffsetAndMetadata,
    Phase,
    RequestFailed,
    Responded,
    Subscribe,
    TimerFired,
)
from kohort.model import TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
AnyRequest = TypeVar("AnyRequest", bound=Message)


class ByHand:
    """The member, and what it has sent that is not answered yet."""

    def __init__(self, assignors: str = "cooperative-sticky", instance_id: str | None = None) -> None:
        config = MemberConfig(group_id="g", assignors=tuple(find_assignors([assignors])), instance_id=instance_id)
        self.member = ClassicMember(config)
        self.now = 1_000
        self.last = Actions()
        self.open: dict[type[Message], tuple[int, Message]] = {}
        self.settled: dict[int, Mapping[TopicPartition, ErrorCode]] = {}
        self._commits = 0

    def handle(self, event: Event) -> Actions:
        self.last = self.member.handle(event, self.now)
        for send in self.last.send:
            assert type(send.message) not in self.open, "one request of a kind at a time"
            self.open[type(send.message)] = send.request, send.message
        self.settled |= {outcome.commit: outcome.errors for outcome in self.last.settled}
        return self.last

    def request(self, kind: type[AnyRequest]) -> AnyRequest:
        """Return the request that the member waits for."""
        message = self.open[kind][1]
        assert isinstance(message, kind)
        return message

    def answer(self, kind: type[Message], response: Message) -> Actions:
        return self.handle(Responded(self.open.pop(kind)[0], response))

    def fail(self, kind: type[Message]) -> Actions:
        return self.handle(RequestFailed(self.open.pop(kind)[0]))

    def start(self, *topics: str) -> None:
        self.handle(Subscribe(frozenset(topics)))
        self.handle(CoordinatorFound())

    def join(
        self, generation: int = 1, leader: str = "other", members: Mapping[str, Subscription] | None = None
    ) -> None:
        """The coordinator lets the member in as `m`."""
        answer = JoinGroupResponse(
            generation_id=generation,
            protocol_type="consumer",
            protocol_name=self.member.config.assignors[0].name,
            leader=leader,
            member_id="m",
            members=[
                JoinGroupResponseMember(member_id=member_id, metadata=encode_subscription(subscription, 3))
                for member_id, subscription in (members or {}).items()
            ],
        )
        self.answer(JoinGroupRequest, answer)

    def assign(self, *partitions: TopicPartition) -> None:
        share = encode_assignment(Assignment(list(partitions)))
        self.answer(SyncGroupRequest, SyncGroupResponse(assignment=share))

    def commit(self, *partitions: TopicPartition, offset: int = 5) -> int:
        self._commits += 1
        positions = {partition: OffsetAndMetadata(offset) for partition in partitions}
        self.handle(CommitRequested(self._commits, positions, self.now + 60_000))
        return self._commits

    def answer_commit(self, codes: Mapping[TopicPartition, ErrorCode]) -> Actions:
        topics = [
            OffsetCommitResponseTopic(
                name=partition.topic,
                partitions=[OffsetCommitResponsePartition(partition_index=partition.partition, error_code=code)],
            )
            for partition, code in codes.items()
        ]
        return self.answer(OffsetCommitRequest, OffsetCommitResponse(topics=topics))

    def wait(self, milliseconds: int, timer: MemberTimer = MemberTimer.HEARTBEAT) -> Actions:
        self.now += milliseconds
        return self.handle(TimerFired(timer))

    @property
    def committing(self) -> dict[TopicPartition, int]:
        """Return the offsets of the commit in flight."""
        topics = self.request(OffsetCommitRequest).topics
        return {
            TopicPartition(topic.name, partition.partition_index): partition.committed_offset
            for topic in topics
            for partition in topic.partitions
        }

    @property
    def joining(self) -> Subscription:
        return decode_subscription(self.request(JoinGroupRequest).protocols[0].metadata)


def stable(
    *partitions: TopicPartition, assignors: str = "cooperative-sticky", instance_id: str | None = None
) -> ByHand:
    """A member that owns these partitions in generation 1; its first heartbeat has been sent."""
    hand = ByHand(assignors, instance_id)
    hand.start("t")
    hand.join()
    hand.assign(*partitions)
    hand.handle(CallbackDone())
    assert hand.member.phase is Phase.STABLE and hand.member.owned == frozenset(partitions)
    assert HeartbeatRequest in hand.open
    return hand


def phase_of(hand: ByHand) -> Phase:
    """Read anew: it changes with each event."""
    return hand.member.phase


def rebalancing(hand: ByHand) -> None:
    """The coordinator tells the member of a rebalance, and it joins."""
    hand.answer(HeartbeatRequest, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert JoinGroupRequest in hand.open
