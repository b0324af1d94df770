"""A member of a consumer group whose coordinator is the test: each answer is made by hand, at a known time."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from kohort.errors import ErrorCode
from kohort.member import (
    Actions,
    CallbackDone,
    CommitRequested,
    ConsumerMember,
    ConsumerMemberConfig,
    CoordinatorFound,
    Event,
    MemberTimer,
    MetadataChanged,
    OffsetAndMetadata,
    Phase,
    RequestFailed,
    Responded,
    Subscribe,
    TimerFired,
)
from kohort.model import UUID, TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
IDS = {"t": UUID(int=7), "u": UUID(int=8)}
INTERVAL_MS = 5_000


class ConsumerByHand:
    """The member, and what it has sent that is not answered yet."""

    def __init__(self, **config: Any) -> None:
        self.member = ConsumerMember(ConsumerMemberConfig(group_id="g", member_id="m", **config))
        self.now = 1_000
        self.last = Actions()
        self.heartbeats: deque[tuple[int, ConsumerGroupHeartbeatRequest]] = deque()
        self.commits: deque[tuple[int, OffsetCommitRequest]] = deque()
        self.settled: dict[int, Mapping[TopicPartition, ErrorCode]] = {}
        self.epoch = 5
        self._commits = 0

    def handle(self, event: Event) -> Actions:
        self.last = self.member.handle(event, self.now)
        for send in self.last.send:
            if isinstance(send.message, ConsumerGroupHeartbeatRequest):
                self.heartbeats.append((send.request, send.message))
            else:
                assert isinstance(send.message, OffsetCommitRequest)
                self.commits.append((send.request, send.message))
        self.settled |= {outcome.commit: outcome.errors for outcome in self.last.settled}
        return self.last

    def start(self, *topics: str) -> None:
        """Subscribe, and find the coordinator."""
        self.handle(Subscribe(frozenset(topics)))
        self.handle(CoordinatorFound())
        self.name_topics()

    def name_topics(self, ids: Mapping[str, UUID] = IDS) -> Actions:
        """Metadata arrives."""
        names = {topic_id: name for name, topic_id in ids.items()}
        return self.handle(MetadataChanged(dict.fromkeys(ids, 2), frozenset(ids), {}, names))

    @property
    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        """The oldest that is not answered."""
        return self.heartbeats[0][1]

    def beat(self, target: Iterable[TopicPartition] | None = None, **fields: Any) -> Actions:
        """Answer the oldest heartbeat."""
        number, _ = self.heartbeats.popleft()
        values: dict[str, Any] = {"member_id": "m", "member_epoch": self.epoch, "heartbeat_interval_ms": INTERVAL_MS}
        if target is not None:
            values["assignment"] = Assignment(topic_partitions=_by_id(target))
        return self.handle(Responded(number, ConsumerGroupHeartbeatResponse(**{**values, **fields})))

    def refuse(self, code: ErrorCode, message: str | None = None) -> Actions:
        """Answer the oldest heartbeat with an error."""
        return self.beat(error_code=code, error_message=message)

    def lose_heartbeat(self) -> Actions:
        """Let the oldest heartbeat fail without a response."""
        return self.handle(RequestFailed(self.heartbeats.popleft()[0]))

    def done(self) -> Actions:
        """The application has completed its callback."""
        return self.handle(CallbackDone())

    def commit(self, *partitions: TopicPartition, offset: int = 5) -> int:
        self._commits += 1
        positions = {partition: OffsetAndMetadata(offset) for partition in partitions}
        self.handle(CommitRequested(self._commits, positions, self.now + 60_000))
        return self._commits

    def answer_commit(self, codes: Mapping[TopicPartition, ErrorCode]) -> Actions:
        """Answer the oldest commit."""
        topics = [
            OffsetCommitResponseTopic(
                name=partition.topic,
                partitions=[OffsetCommitResponsePartition(partition_index=partition.partition, error_code=code)],
            )
            for partition, code in codes.items()
        ]
        return self.handle(Responded(self.commits.popleft()[0], OffsetCommitResponse(topics=topics)))

    def wait(self, milliseconds: int, timer: MemberTimer = MemberTimer.HEARTBEAT) -> Actions:
        self.now += milliseconds
        return self.handle(TimerFired(timer))


def owned_in(heartbeat: ConsumerGroupHeartbeatRequest) -> set[TopicPartition] | None:
    """Return the owned partitions of a heartbeat; None if it does not report them."""
    if heartbeat.topic_partitions is None:
        return None
    names = {topic_id: name for name, topic_id in IDS.items()}
    return {TopicPartition(names[topic.topic_id], n) for topic in heartbeat.topic_partitions for n in topic.partitions}


def stable(*partitions: TopicPartition, **config: Any) -> ConsumerByHand:
    """A member at epoch 5 that owns these partitions, with nothing under way."""
    hand = ConsumerByHand(**config)
    hand.start("t")
    hand.beat(partitions)
    hand.done()
    hand.beat()
    assert phase_of(hand) is Phase.STABLE and hand.member.owned == frozenset(partitions)
    assert not hand.heartbeats and not hand.commits
    return hand


def phase_of(hand: ConsumerByHand) -> Phase:
    """Read anew: it changes with each event."""
    return hand.member.phase


def _by_id(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        numbers[topic].append(number)
    return [TopicPartitions(topic_id=IDS[topic], partitions=some) for topic, some in numbers.items()]
