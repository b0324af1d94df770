"""The members of the exhaustive model: the least that speaks either protocol correctly."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.assignor import find_assignors
from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.codec import Message
from kohort.wire.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kohort.wire.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
TOPIC = "orders"
PARTITIONS = 3
SESSION = 10_000
REBALANCE = 20_000
_STRANGER = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH)
_COMMIT_VERSION = 9


def _commit(member_id: str, generation: int, partition: int) -> OffsetCommitRequest:
    one = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1)
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[one])],
    )


@dataclass
class ClassicModel:
    """An eager member with range. `synced` says that it has its assignment, `joined` that it knows its generation."""

    name: str
    member_id: str = ""
    generation: int = -1
    joined: bool = False
    synced: bool = False
    owned: frozenset[int] = frozenset()
    leads: tuple[str, ...] = ()
    """Whom it assigns to."""
    waits: bool = False

    def version(self, request: Message) -> int:
        """The one in which it is sent."""
        return _COMMIT_VERSION if isinstance(request, OffsetCommitRequest) else type(request).VERSIONS[1]

    def next_request(self) -> Message:
        """The next right thing to do."""
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
            subscriptions = {one: Subscription(topics=(TOPIC,)) for one in self.leads}
            (assignor,) = find_assignors(["range"])
            given = assignor.assign({TOPIC: PARTITIONS}, subscriptions, dict.fromkeys(self.leads))
            shares = [
                SyncGroupRequestAssignment(member_id=one, assignment=encode_assignment(given.get(one, Assignment()), 3))
                for one in self.leads
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
        """A commit of what it owns, if it owns anything."""
        return _commit(self.member_id, self.generation, min(self.owned)) if self.owned else None

    def leave(self) -> Message | None:
        """Go for good, if it is anybody."""
        if not self.member_id:
            return None
        return LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])

    def disconnected(self) -> None:
        """The answer will not come."""
        self.waits = False
        self._out()

    def answered(self, response: Message) -> None:
        """Take the answer."""
        self.waits = False
        match response:
            case JoinGroupResponse():
                self._take_join(response)
            case SyncGroupResponse() if response.error_code == ErrorCode.NONE:
                self.synced, self.joined = True, False
                given = decode_assignment(response.assignment).partitions if response.assignment else ()
                self.owned = frozenset(one.partition for one in given)
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
            for one in response.members:
                decode_subscription(one.metadata)
            self.leads = tuple(one.member_id for one in response.members)
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
    """A member of a consumer group: it gives up what it is told to at once, and says so the next time."""

    name: str
    epoch: int = 0
    owned: frozenset[int] = frozenset()
    topic_id: UUID = field(default=UUID(int=0), repr=False)
    waits: bool = False

    def version(self, request: Message) -> int:
        """The one in which it is sent."""
        return _COMMIT_VERSION if isinstance(request, OffsetCommitRequest) else type(request).VERSIONS[1]

    def next_request(self) -> Message:
        """A heartbeat that says everything."""
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
        """A commit of what it owns, if it owns anything."""
        return _commit(self.name, self.epoch, min(self.owned)) if self.owned else None

    def leave(self) -> Message | None:
        """Go for good, if it is in."""
        if not self.epoch:
            return None
        return ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.name, member_epoch=-1)

    def disconnected(self) -> None:
        """The answer will not come; it says everything again anyway."""
        self.waits = False

    def answered(self, response: Message) -> None:
        """Take the answer."""
        self.waits = False
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            if response.error_code in _STRANGER or response.member_epoch < 0:
                self.epoch, self.owned = 0, frozenset()
            elif response.error_code == ErrorCode.NONE:
                self.epoch = response.member_epoch
                if response.assignment is not None:
                    given = response.assignment.topic_partitions
                    self.owned = frozenset(one for topic in given for one in topic.partitions)
                    self.topic_id = given[0].topic_id if given else self.topic_id
