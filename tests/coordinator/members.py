"""Members as a client library would make them, for random tests: they do the next right thing when they are asked to.

A `World` has one shell and some members in some groups. What members are told must be consistent among themselves,
which `World.settle` checks; what is stored is checked by the shell.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count

from kohort.coordinator import Effects, GroupConfig, GroupState
from kohort.errors import ErrorCode
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
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
    OffsetCommitResponse,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.shell import Shell

PARTITIONS = [TopicPartition("orders", number) for number in range(6)]
SESSION: Millis = 10_000
REBALANCE: Millis = 20_000


@dataclass
class Member:
    """One client of a group, through all its lives."""

    name: str
    group_id: str
    join_version: int = 9
    instance_id: str | None = None
    protocols: tuple[str, ...] = ("range",)
    topics: tuple[str, ...] = ("orders",)
    life: int = 0
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    joined: bool = False
    synced: bool = False
    leads: tuple[str, ...] | None = None
    """Whom it must assign to; None if it does not lead."""
    owned: list[TopicPartition] = field(default_factory=list)
    waits: Hashable | None = None
    """The request that it waits for."""
    fenced: bool = False

    def restart(self) -> None:
        """Its process dies and starts again."""
        self.life += 1
        self.waits = None
        self.fenced = False
        self.lose_identity()

    def lose_identity(self) -> None:
        """It knows no member id any more."""
        self.member_id = ""
        self.lose_generation()

    def lose_generation(self) -> None:
        """It must join again."""
        self.generation = -1
        self.rejoin()

    def rejoin(self) -> None:
        """It was asked to join again, or wants to."""
        self.joined = self.synced = False
        self.owned = []

    # Requests

    def next_request(self) -> tuple[Message, int]:
        """Return its next request."""
        if not self.joined:
            return self.join(), self.join_version
        if not self.synced:
            return self.sync(), 5
        return self.heartbeat(), 4

    def join(self) -> JoinGroupRequest:
        """Enter the group."""
        metadata = encode_subscription(Subscription(self.topics))
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION,
            rebalance_timeout_ms=REBALANCE,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in self.protocols],
        )

    def sync(self) -> SyncGroupRequest:
        """Fetch the assignment; if it leads, hand it in."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignments=[] if self.leads is None else shares(self.leads),
        )

    def heartbeat(self) -> HeartbeatRequest:
        """Be alive."""
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def commit(self, offset: int) -> OffsetCommitRequest:
        """Say how far it is, in everything that it owns."""
        partitions = [OffsetCommitRequestPartition(partition_index=p, committed_offset=offset) for _, p in self.owned]
        return OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)],
        )

    def leave(self) -> LeaveGroupRequest:
        """Go."""
        member = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        return LeaveGroupRequest(group_id=self.group_id, members=[member])

    # Answers

    def receive(self, response: Message) -> None:
        """Take an answer as a client library does."""
        match response:
            case JoinGroupResponse(error_code=0):
                self.member_id = response.member_id
                self.generation = response.generation_id
                self.protocol = response.protocol_name or ""
                self.joined, self.synced = True, False
                leads = response.leader == response.member_id and not response.skip_assignment
                self.leads = tuple(member.member_id for member in response.members) if leads else None
            case JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = response.member_id
            case SyncGroupResponse(error_code=0):
                self.synced = True
                self.owned = sorted(decode_assignment(response.assignment).partitions)
            case JoinGroupResponse() | SyncGroupResponse() | HeartbeatResponse():
                self.take(ErrorCode(response.error_code))
            case OffsetCommitResponse():
                for code in {
                    ErrorCode(partition.error_code) for topic in response.topics for partition in topic.partitions
                }:
                    self.take(code)

    def take(self, error: ErrorCode) -> None:
        """Do what an error asks for."""
        match error:
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin()
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.lose_identity()
            case ErrorCode.ILLEGAL_GENERATION:
                self.lose_generation()
            case ErrorCode.FENCED_INSTANCE_ID:
                self.lose_identity()
                self.fenced = True
            case ErrorCode.NONE | ErrorCode.NOT_COORDINATOR | ErrorCode.MEMBER_ID_REQUIRED:
                pass
            case ErrorCode.INCONSISTENT_GROUP_PROTOCOL | ErrorCode.GROUP_MAX_SIZE_REACHED:
                self.lose_identity()
            case _:
                raise AssertionError(error)


def shares(members: Sequence[str]) -> list[SyncGroupRequestAssignment]:
    """All partitions dealt out in turn."""
    dealt = {member: PARTITIONS[index :: len(members)] for index, member in enumerate(members)}
    return [
        SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(Assignment(share)))
        for member, share in dealt.items()
    ]


class World:
    """Members, and the coordinator that they share."""

    def __init__(self, members: list[Member], config: GroupConfig) -> None:
        self.shell = Shell(config)
        self.members = members
        self._numbers = count()
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        """What was acknowledged last."""
        self._commits: dict[Hashable, OffsetCommitRequest] = {}

    def send(self, member: Member, request: Message, version: int) -> None:
        """Send a request of that member, and deliver all responses that it causes."""
        token = (member.name, member.life, next(self._numbers))
        if isinstance(request, OffsetCommitRequest):
            self._commits[token] = request
        member.waits = token
        self.receive(self.shell.handle(request, token, version, member.name))

    def step(self, member: Member) -> None:
        """Let a member that waits for nothing do what is next."""
        if member.waits is None and not member.fenced:
            self.send(member, *member.next_request())

    def wait(self, duration: Millis) -> None:
        """Let time pass."""
        for effects in self.shell.wait(duration):
            self.receive(effects)

    def fail_over(self) -> None:
        """Move the shard. Whoever waits is told, by the coordinator or by the shell."""
        self.receive(self.shell.fail_over())
        for member in self.members:
            member.waits = None

    def receive(self, effects: Effects) -> None:
        """Pass answers on to those who still are there, and check that they agree with one another."""
        for token, response in effects.replies.items():
            if isinstance(response, OffsetCommitResponse):
                self._acknowledge(self._commits.pop(token), response)
            for member in self.members:
                if member.waits == token:
                    member.waits = None
                    member.receive(response)
        self._check()

    def _acknowledge(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        for asked, answered in zip(request.topics, response.topics, strict=True):
            for wanted, code in zip(asked.partitions, answered.partitions, strict=True):
                if code.error_code == ErrorCode.NONE:
                    place = TopicPartition(asked.name, wanted.partition_index)
                    self.committed[request.group_id, place] = wanted.committed_offset

    def _check(self) -> None:
        """S1: the members of a Stable group own disjoint partitions, and each was told what is on record."""
        for group in self.shell.shard.groups.values():
            if group.state is GroupState.STABLE:
                owned = [tp for m in group.members.values() for tp in decode_assignment(m.assignment).partitions]
                assert len(owned) == len(set(owned)), "a partition has two owners"
        for member in self.members:
            group_now = self.shell.shard.groups.get(member.group_id)
            if member.synced and group_now is not None and group_now.state is GroupState.STABLE:
                known = group_now.members.get(member.member_id)
                if known is not None and member.generation == group_now.generation:
                    assert sorted(decode_assignment(known.assignment).partitions) == member.owned

    def settle(self, within: Millis, heartbeat: Millis = 1_000) -> None:
        """L1: when all behave, every group is Stable with exactly its living members after that time at most."""
        end = self.shell.now + within
        while not self.is_settled():
            assert self.shell.now < end, "a group does not come to rest"
            for member in self.members:
                self.step(member)
            self.wait(heartbeat)

    def is_settled(self) -> bool:
        """Whether each group is Stable and consists of the members that believe to be in it."""
        groups = self.shell.shard.groups
        for group_id in {member.group_id for member in self.members}:
            living = {m.member_id for m in self.members if m.group_id == group_id and not m.fenced}
            group = groups.get(group_id)
            if living and (group is None or group.state is not GroupState.STABLE or set(group.members) != living):
                return False
        return all(m.synced or m.fenced for m in self.members) and not any(m.waits for m in self.members)
