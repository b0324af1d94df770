"""Members of the exhaustive model: minimal clients that implement either protocol correctly."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.assignor import find_assignors
from kohort.errors import ErrorCode
from kohort.model import UUID
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
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
TOPIC = "orders"
PARTITIONS = 3
SESSION = 10_000
REBALANCE = 20_000
_STRANGER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_COMMIT_VERSION = 9


def _commit(member_id: str, generation: int, partition: int) -> OffsetCommitRequest:
    offset = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[offset])],
    )


@dataclass
class ClassicModel:
    """Eager member with the range assignor.

    `joined` means that it knows its generation, `synced` that it has its assignment.
    """

    name: str
    member_id: str = ""
    generation: int = -1
    joined: bool = False
    synced: bool = False
    owned: frozenset[int] = frozenset()
    leads: tuple[str, ...] = ()
    """Members that this leader assigns partitions to."""
    waits: bool = False

    def version(self, request: Message) -> int:
        """Return the version in which a request is sent."""
        return _COMMIT_VERSION if isinstance(request, OffsetCommitRequest) else type(request).VERSIONS[1]

    def next_request(self) -> Message:
        """Return the next correct request."""
        if self.synced:
            return HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
        if self.joined:
            return self._sync()
        metadata = encode_subscription(Subscription(topics=(TOPIC,)), 3)
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION,
            rebalance_timeout_ms=REBALANCE,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )

    def _sync(self) -> SyncGroupRequest:
        shares = []
        if self.leads:
            subscriptions = {member_id: Subscription(topics=(TOPIC,)) for member_id in self.leads}
            (assignor,) = find_assignors(["range"])
            given = assignor.assign({TOPIC: PARTITIONS}, subscriptions, dict.fromkeys(self.leads))
            shares = [
                SyncGroupRequestAssignment(
                    member_id=member_id, assignment=encode_assignment(given.get(member_id, Assignment()), 3)
                )
                for member_id in self.leads
            ]
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=shares,
        )

    def commit(self) -> Message | None:
        """Return a commit of an owned partition, or None."""
        return _commit(self.member_id, self.generation, min(self.owned)) if self.owned else None

    def leave(self) -> Message | None:
        """Return a request to leave the group, or None if the member has no id."""
        if not self.member_id:
            return None
        return LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])

    def disconnected(self) -> None:
        """Handle a lost connection: the response will not arrive."""
        self.waits = False
        self._out()

    def answered(self, response: Message) -> None:
        """Handle a response."""
        self.waits = False
        match response:
            case JoinGroupResponse():
                self._take_join(response)
            case SyncGroupResponse() if response.error_code == ErrorCode.NONE:
                self.synced, self.joined = True, False
                given = decode_assignment(response.assignment).partitions if response.assignment else ()
                self.owned = frozenset(partition.partition for partition in given)
            case LeaveGroupResponse():
                self.member_id = ""
                self._out()
            case SyncGroupResponse() | HeartbeatResponse():
                self._take_error(response.error_code)
            case OffsetCommitResponse():
                self._take_error(response.topics[0].partitions[0].error_code)

    def _take_join(self, response: JoinGroupResponse) -> None:
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif response.error_code == ErrorCode.NONE:
            self.member_id, self.generation, self.joined = response.member_id, response.generation_id, True
            for member in response.members:
                decode_subscription(member.metadata)
            self.leads = tuple(member.member_id for member in response.members)
        else:
            self._take_error(response.error_code)

    def _take_error(self, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code in _STRANGER:
            self.member_id = ""
        self._out()

    def _out(self) -> None:
        self.joined = self.synced = False
        self.owned, self.leads = frozenset(), ()


@dataclass
class ConsumerModel:
    """Member of a consumer group: it releases revoked partitions at once, and confirms that in its next heartbeat."""

    name: str
    epoch: int = 0
    owned: frozenset[int] = frozenset()
    topic_id: UUID = field(default=UUID(int=0), repr=False)
    waits: bool = False

    def version(self, request: Message) -> int:
        """Return the version in which a request is sent."""
        return _COMMIT_VERSION if isinstance(request, OffsetCommitRequest) else type(request).VERSIONS[1]

    def next_request(self) -> Message:
        """Return a full heartbeat."""
        has = [TopicPartitions(topic_id=self.topic_id, partitions=sorted(self.owned))] if self.owned else []
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE,
            subscribed_topic_names=[TOPIC],
            topic_partitions=has,
        )

    def commit(self) -> Message | None:
        """Return a commit of an owned partition, or None."""
        return _commit(self.name, self.epoch, min(self.owned)) if self.owned else None

    def leave(self) -> Message | None:
        """Return a request to leave the group, or None if it is not a member."""
        if not self.epoch:
            return None
        return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.name, member_epoch=-1)

    def disconnected(self) -> None:
        """Handle a lost connection. All later heartbeats are full ones anyway."""
        self.waits = False

    def answered(self, response: Message) -> None:
        """Handle a response."""
        self.waits = False
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            if response.error_code in _STRANGER or response.member_epoch < 0:
                self.epoch, self.owned = 0, frozenset()
            elif response.error_code == ErrorCode.NONE:
                self.epoch = response.member_epoch
                if response.assignment is not None:
                    given = response.assignment.topic_partitions
                    self.owned = frozenset(partition for topic in given for partition in topic.partitions)
                    self.topic_id = given[0].topic_id if given else self.topic_id
