"""Clients of both protocols in one group, as libraries would make them: each does the next right thing when asked to.

They say themselves what they may process (`owned`), which is what must never overlap.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.shell import Shell

GROUP, TOPIC = "g", "orders"


@dataclass
class Client:
    """One process. `generation` is the member epoch where it speaks the consumer protocol."""

    name: str
    shell: Shell
    member_id: str = ""
    generation: int = -1
    owned: frozenset[TopicPartition] = frozenset()
    waits: Hashable | None = None

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that there are."""
        topic = self.shell.image.by_name[TOPIC]
        return [TopicPartition(TOPIC, number) for number in range(topic.shape.partitions)]

    def next_request(self) -> tuple[Message, int]:
        """Return its next request and the version."""
        raise NotImplementedError

    def receive(self, response: Message) -> None:
        """The answer to what it sent."""
        raise NotImplementedError

    def leaving(self) -> tuple[Message, int]:
        """Return its request to leave."""
        raise NotImplementedError

    def commit(self, place: TopicPartition, offset: int) -> OffsetCommitRequest:
        """A commit of a partition."""
        partition = OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset, committed_metadata=""
        )
        return OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.generation,
            topics=[OffsetCommitRequestTopic(name=place.topic, partitions=[partition])],
        )


@dataclass
class ClassicClient(Client):
    """Eager or cooperative; it computes assignments where it leads."""

    cooperative: bool = False
    joins: bool = True
    """It has to join; after that, to sync, unless `synced`."""
    synced: bool = False
    led: list[Any] = field(default_factory=list)
    """The members to assign to, if it leads."""

    def next_request(self) -> tuple[Message, int]:
        if self.joins:
            if not self.cooperative:
                self.owned = frozenset()
            return self._join(), 9
        if not self.synced:
            return self._sync(), 5
        return HeartbeatRequest(group_id=GROUP, member_id=self.member_id, generation_id=self.generation), 4

    def leaving(self) -> tuple[Message, int]:
        self.owned = frozenset()
        return LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)]), 5

    def _join(self) -> JoinGroupRequest:
        said = Subscription([TOPIC], owned_partitions=tuple(self.owned), generation_id=self.generation)
        names = ("cooperative-sticky",) if self.cooperative else ("cooperative-sticky", "range")
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=encode_subscription(said)) for name in names],
        )

    def _sync(self) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="cooperative-sticky",
            assignments=self._shares(),
        )

    def _shares(self) -> list[SyncGroupRequestAssignment]:
        """Assign partitions in turn; a partition that another member still owns stays free this time (KIP-429)."""
        owner = {
            place: member.member_id
            for member in self.led
            for place in decode_subscription(bytes(member.metadata)).owned_partitions
        }
        shares: dict[str, list[TopicPartition]] = {member.member_id: [] for member in self.led}
        ids = sorted(shares)
        for number, place in enumerate(self.partitions if ids else ()):
            target = ids[number % len(ids)]
            if owner.get(place, target) == target:
                shares[target].append(place)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(Assignment(share)))
            for member_id, share in shares.items()
        ]

    def receive(self, response: Message) -> None:
        match response:
            case JoinGroupResponse(error_code=0):
                self.member_id, self.generation = response.member_id, response.generation_id
                self.led = response.members
                self.joins, self.synced = False, False
            case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = response.member_id
            case SyncGroupResponse(error_code=0):
                given = frozenset(decode_assignment(bytes(response.assignment)).partitions)
                # A cooperative member that had to give up something joins again, so that others get it.
                self.joins = self.cooperative and bool(self.owned - given)
                self.owned, self.synced = given, True
            case HeartbeatResponse(error_code=0):
                pass
            case _:
                self._refused(ErrorCode(getattr(response, "error_code")))  # noqa: B009  # of any of the three

    def _refused(self, code: ErrorCode) -> None:
        self.joins = True
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.generation, self.owned = -1, frozenset()


@dataclass
class ConsumerClient(Client):
    """Of the consumer protocol."""

    reported: frozenset[TopicPartition] | None = None
    """What it last told that it owns; None where it has to tell all."""

    def next_request(self) -> tuple[Message, int]:
        self.member_id = self.member_id or self.name
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=max(self.generation, 0)
        )
        if self.generation <= 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names = 20_000, [TOPIC]
            request.topic_partitions = []
        elif self.reported != self.owned:
            request.topic_partitions = self._by_id(self.owned)
        self.reported = self.owned
        return request, 1

    def leaving(self) -> tuple[Message, int]:
        self.owned = frozenset()
        return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1), 1

    def _by_id(self, owned: Iterable[TopicPartition]) -> list[TopicPartitions]:
        numbers = sorted(place.partition for place in owned)
        return [TopicPartitions(topic_id=self.shell.topic_id(TOPIC), partitions=numbers)] if numbers else []

    def receive(self, response: Message) -> None:
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        if response.error_code:
            self.generation, self.owned, self.reported = 0, frozenset(), None
            return
        self.generation = response.member_epoch
        if response.assignment is not None:
            given = response.assignment.topic_partitions
            self.owned = frozenset(TopicPartition(TOPIC, number) for topic in given for number in topic.partitions)
            self.reported = None
