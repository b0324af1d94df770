"""A stream of events that a test composes: what clients ask, what a broker answers, and what it stores."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from kohort.group_events import Cause, GroupEvent, MemberFacts, MemberGone, RebalanceStarted
from kohort.model import UUID, TopicPartition
from kohort.testing import (
    AnswerLost,
    AnswerSent,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    GroupChanged,
    KitActed,
    RecordsAppended,
    RequestReceived,
)
from kohort.testing.invariants import Checks, Invariant, Limits, Violation
from kohort.wire.batches import Record as LogRecord
from kohort.wire.batches import encode_batch
from kohort.wire.codec import Message
from kohort.wire.group_log import GroupRecord, group_record
from kohort.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.consumer_protocol import Assignment as ClassicAssignment
from kohort.wire.messages.consumer_protocol import Subscription, encode_assignment, encode_subscription
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
from kohort.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
TOPIC = "orders"
TOPIC_ID = UUID(int=7)
SESSION_MS = 10_000


def tp(number: int, topic: str = TOPIC) -> TopicPartition:
    return TopicPartition(topic, number)


class Stream:
    """The events of one broker, and what the checks find in them."""

    def __init__(
        self, limits: Limits | None = None, allowed: Mapping[Invariant, Collection[str]] | None = None
    ) -> None:
        self.checks = Checks(limits, allowed=allowed)
        self.at = 1_800_000_000_000
        self.found: list[Violation] = []
        self.numbers = itertools.count(1)

    def feed(self, event: Event) -> None:
        self.at += 1
        self.found += self.checks.observe(event)

    def broken(self) -> list[tuple[Invariant, str]]:
        """Return the invariants that are broken, and whose fault it is."""
        return [(violation.invariant, violation.fault.value) for violation in self.found]

    def passes(self, ms: int) -> None:
        """Let time go by."""
        self.at += ms

    def ends(self) -> None:
        self.found += self.checks.finish(self.at)

    def peer(self, client_id: str = "a", broker: int = 1) -> Peer:
        """Open a connection."""
        connection = next(self.numbers)
        self.feed(ConnectionOpened(self.at, broker, connection, "127.0.0.1:1"))
        return Peer(self, client_id, connection, broker)

    def acts(self, what: str = "the kit acts", *, groups: Collection[str] = (), topics: Collection[str] = ()) -> None:
        self.feed(KitActed(self.at, 1, what, frozenset(groups), frozenset(topics)))

    def stores(self, *records: GroupRecord, broker: int = 1) -> None:
        self.feed(RecordsAppended(self.at, broker, 0, records))

    def changes(self, event: GroupEvent) -> None:
        self.feed(GroupChanged(self.at, 1, event))

    def gone(self, member_id: str, cause: Cause, client_id: str = "a", instance_id: str | None = None) -> None:
        self.changes(MemberGone(GROUP, MemberFacts(member_id, client_id, "127.0.0.1", instance_id), cause, None))

    def rebalances(self, cause: Cause, member_id: str | None = None) -> None:
        self.changes(RebalanceStarted(GROUP, 1, cause, member_id, None, "range"))

    def describes(self, partitions: int = 4, topic_id: UUID = TOPIC_ID) -> None:
        """Describe the topic to a client of its own."""
        parts = [MetadataResponsePartition(partition_index=number) for number in range(partitions)]
        topic = MetadataResponseTopic(name=TOPIC, topic_id=topic_id, partitions=parts)
        self.peer("admin").asks(MetadataRequest(), MetadataResponse(topics=[topic]))


@dataclass(slots=True)
class Peer:
    """A connection of a client."""

    stream: Stream
    client_id: str
    connection: int
    broker: int = 1
    open: list[int] = field(default_factory=list)

    def sends(self, request: Message, version: int = 0) -> int:
        request_id = next(self.stream.numbers)
        at = self.stream.at
        self.stream.feed(
            RequestReceived(at, self.broker, self.connection, request_id, self.client_id, version, request)
        )
        return request_id

    def gets(self, request_id: int, response: Message) -> None:
        self.stream.feed(AnswerSent(self.stream.at, self.broker, self.connection, request_id, response))

    def loses(self, request_id: int, response: Message | None) -> None:
        self.stream.feed(AnswerLost(self.stream.at, self.broker, self.connection, request_id, response, "a fault"))

    def asks(self, request: Message, response: Message) -> None:
        self.gets(self.sends(request), response)

    def closes(self) -> None:
        self.stream.feed(ConnectionClosed(self.stream.at, self.broker, self.connection, by_broker=False))

    # Classic members

    def joins(
        self,
        member_id: str,
        generation: int,
        *,
        known: bool = False,
        leader: str = "a-1",
        owned: Sequence[TopicPartition] = (),
        owned_in: int = -1,
        assignor: str = "range",
        instance_id: str | None = None,
        code: int = 0,
        lost: bool = False,
        others: Mapping[str, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """Send JoinGroup with an empty member ID, unless it is `known`, and get this generation or error code.

        The leader is told of itself and of the other members, with the topics that they subscribe to.
        """
        subscription = encode_subscription(Subscription([TOPIC], None, owned, owned_in), 3)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=member_id if known else "",
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=assignor, metadata=subscription)],
        )
        response = JoinGroupResponse(
            error_code=code, generation_id=generation, protocol_name=assignor, leader=leader, member_id=member_id
        )
        if member_id == leader:
            told = {member_id: subscription}
            told |= {who: encode_subscription(Subscription(topics), 3) for who, topics in others.items()}
            response.members = [JoinGroupResponseMember(member_id=who, metadata=data) for who, data in told.items()]
        request_id = self.sends(request)
        (self.loses if lost else self.gets)(request_id, response)

    def syncs(
        self,
        member_id: str,
        generation: int,
        *partitions: TopicPartition,
        plan: Mapping[str, Sequence[TopicPartition]] | None = None,
        code: int = 0,
        lost: bool = False,
    ) -> None:
        """Send SyncGroup, as the leader with a plan, and get these partitions or the error code."""
        assignments = [
            SyncGroupRequestAssignment(member_id=who, assignment=assigned(*owned))
            for who, owned in (plan or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, assignments=assignments
        )
        request_id = self.sends(request)
        response = SyncGroupResponse(error_code=code, assignment=b"" if code else assigned(*partitions))
        (self.loses if lost else self.gets)(request_id, response)

    def beats(self, member_id: str, generation: int, code: int = 0) -> None:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        self.asks(request, HeartbeatResponse(error_code=code))

    # Members of consumer groups

    def heartbeats(
        self,
        member_id: str,
        epoch: int,
        told: int | None = None,
        *,
        assigned: Sequence[int] | None = None,
        owned: Sequence[int] | None = None,
        code: int = 0,
        lost: bool = False,
    ) -> None:
        """Send a heartbeat of this epoch; the answer has the epoch `told`."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=SESSION_MS if epoch == 0 else -1,
            subscribed_topic_names=[TOPIC] if epoch == 0 else None,
            topic_partitions=[] if epoch == 0 else None if owned is None else _by_id(owned),
        )
        response = ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_id=member_id,
            member_epoch=epoch if told is None else told,
            assignment=None if assigned is None else Assignment(topic_partitions=_by_id(assigned)),
        )
        request_id = self.sends(request)
        (self.loses if lost else self.gets)(request_id, response)

    # Offsets and records

    def commits(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        number: int = 0,
        *,
        code: int = 0,
        stored: bool = True,
        lost: bool = False,
    ) -> None:
        """Commit an offset of one partition; the coordinator stores it if it accepts it."""
        request_id = self.sends(commit(offset, member_id, generation, number))
        if stored and not code:
            self.stream.stores(offset_record(offset, number))
        (self.loses if lost else self.gets)(request_id, committed(number, code))

    def finds(self, offset: int, number: int = 0, *, code: int = 0) -> None:
        """Ask for a committed offset, and get this one."""
        part = OffsetFetchResponsePartitions(partition_index=number, committed_offset=offset, error_code=code)
        answered = OffsetFetchResponseGroup(
            group_id=GROUP, topics=[OffsetFetchResponseTopics(name=TOPIC, partitions=[part])]
        )
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
        self.asks(request, OffsetFetchResponse(groups=[answered]))

    def fetches(self, offset: int, records: int = 0, number: int = 0, *, lost: bool = False, code: int = 0) -> None:
        """Fetch from an offset, and get so many records."""
        topic = FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=number, fetch_offset=offset)])
        data: Any = None
        if records:
            data = encode_batch([LogRecord(offset + index, 0, None, b"x") for index in range(records)])
        part = PartitionData(partition_index=number, error_code=code, records=data)
        response = FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[part])])
        request_id = self.sends(FetchRequest(topics=[topic]))
        (self.loses if lost else self.gets)(request_id, response)


def assigned(*partitions: TopicPartition) -> bytes:
    """Return an assignment of the classic protocol."""
    return encode_assignment(ClassicAssignment(partitions))


def commit(offset: int, member_id: str = "", generation: int = -1, number: int = 0) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=number, committed_offset=offset)
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[part])],
    )


def committed(number: int = 0, code: int = 0) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=number, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=[part])])


def offset_record(offset: int | None, number: int = 0) -> GroupRecord:
    """Return the record of a commit; None deletes it."""
    value = None if offset is None else OffsetCommitValue(offset=offset)
    return group_record(OffsetCommitKey(group=GROUP, topic=TOPIC, partition=number), value)


def _by_id(numbers: Sequence[int]) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=TOPIC_ID, partitions=list(numbers))] if numbers else []
