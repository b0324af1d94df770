"""A member of a classic group that remembers what it was told; every request of its can be made wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.errors import ErrorCode
from kohort.model import UUID
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.interop.conversation.stage import Client, Stage

SUBSCRIPTION = encode_subscription(Subscription(["orders"]), 1)

UNKNOWN_ID = UUID(int=0x1234)
"""Of no topic."""

_FIRST_WITH_INSTANCES = {11: 5, 12: 3, 14: 3, 8: 7}


class Member(Client):
    """A client that joins a group. Keyword arguments replace fields of the request that it would send."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        *,
        group: str | None = None,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | Sequence[str] = ("range",),
    ) -> None:
        super().__init__(stage, name)
        self.group = group or stage.group
        self.instance = instance
        self.protocols = dict(protocols) if isinstance(protocols, Mapping) else dict.fromkeys(protocols, SUBSCRIPTION)
        self.member_id = ""
        self.generation = -1
        self.protocol_type = "consumer"
        self.protocol: str | None = None

    # Joining

    def join_request(self, v: int, **changes: Any) -> JoinGroupRequest:
        """Return its JoinGroup request."""
        protocols = changes.pop("protocols", self.protocols)
        return JoinGroupRequest(
            **{
                "group_id": self.group,
                "session_timeout_ms": 30_000,
                "rebalance_timeout_ms": 30_000,
                "member_id": self.member_id,
                "group_instance_id": self._instance(11, v),
                "protocol_type": self.protocol_type,
                "protocols": [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
                **changes,
            }
        )

    async def join(self, name: str, v: int = 9, **changes: Any) -> Any:
        """JoinGroup, answered at once."""
        return self._told(await self.ask(name, self.join_request(v, **changes), v))

    async def join_waits(self, name: str, v: int = 9, **changes: Any) -> bool:
        """JoinGroup that waits for the others; whether it does."""
        return await self.waits(name, self.join_request(v, **changes), v)

    async def gets_an_id(self, v: int = 9, **changes: Any) -> None:
        """The first half of KIP-394."""
        await self.join(f"{self.name} asks for an id in v{v}", v, **changes)

    async def enters(self, v: int = 9, **changes: Any) -> None:
        """Join, with the dance for a member id where the version has it; alone in its group."""
        if v >= 4 and self.instance is None:
            await self.gets_an_id(v, **changes)
        told = await self.join(f"{self.name} joins in v{v}", v, **changes)
        assert told.error_code == ErrorCode.NONE, "the scene would be about nothing"

    async def knocks(self, v: int = 9, **changes: Any) -> None:
        """Join a group whose members have to join again first."""
        if v >= 4 and self.instance is None:
            await self.gets_an_id(v, **changes)
        waits = await self.join_waits(f"{self.name} joins in v{v} and waits", v, **changes)
        assert waits, "the scene would be about nothing"

    async def receives(self, name: str) -> Any:
        return self._told(await super().receives(name))

    def _told(self, answer: Any) -> Any:
        if isinstance(answer, JoinGroupResponse):
            if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id = answer.member_id
            if answer.error_code == ErrorCode.NONE:
                self.generation = answer.generation_id
                self.protocol = answer.protocol_name
        return answer

    # In the group

    def sync_request(self, v: int, shares: Mapping[Member, str] | None = None, **changes: Any) -> SyncGroupRequest:
        """Return its SyncGroup request; the leader's contains all assignments."""
        given = [
            SyncGroupRequestAssignment(member_id=member.member_id, assignment=share.encode())
            for member, share in (shares or {}).items()
        ]
        return SyncGroupRequest(
            **{
                "group_id": self.group,
                "generation_id": self.generation,
                "member_id": self.member_id,
                "group_instance_id": self._instance(14, v),
                "protocol_type": self.protocol_type if v >= 5 else None,
                "protocol_name": self.protocol if v >= 5 else None,
                "assignments": given,
                **changes,
            }
        )

    async def sync(self, name: str, shares: Mapping[Member, str] | None = None, v: int = 5, **changes: Any) -> Any:
        """SyncGroup, answered at once."""
        return await self.ask(name, self.sync_request(v, shares, **changes), v)

    async def sync_waits(self, name: str, v: int = 5, **changes: Any) -> None:
        """SyncGroup that waits for the leader's."""
        await self.waits(name, self.sync_request(v, **changes), v)

    async def heartbeat(self, name: str, v: int = 4, **changes: Any) -> Any:
        """Heartbeat."""
        fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self._instance(12, v),
            **changes,
        }
        return await self.ask(name, HeartbeatRequest(**fields), v)

    async def leave(self, name: str, v: int = 5, **changes: Any) -> Any:
        """LeaveGroup, of itself."""
        if v < 3:
            request = LeaveGroupRequest(**{"group_id": self.group, "member_id": self.member_id, **changes})
        else:
            itself = [MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)]
            request = LeaveGroupRequest(**{"group_id": self.group, "members": itself, **changes})
        return await self.ask(name, request, v)

    async def commit(self, name: str, offsets: Mapping[tuple[str, int], int], v: int = 9, **changes: Any) -> Any:
        """OffsetCommit: offsets by topic and partition; `metadata` and `epoch` apply to all of them."""
        metadata, epoch = changes.pop("metadata", ""), changes.pop("epoch", -1)
        topics = {
            name: OffsetCommitRequestTopic(name=name, topic_id=self.stage.ids.get(name, UNKNOWN_ID))
            for name in dict.fromkeys(topic for topic, _ in offsets)
        }
        for (topic, partition), offset in offsets.items():
            topics[topic].partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata=metadata,
                )
            )
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self._instance(8, v),
            "topics": list(topics.values()),
            **changes,
        }
        return await self.ask(name, OffsetCommitRequest(**fields), v)

    def _instance(self, key: int, v: int) -> str | None:
        return self.instance if v >= _FIRST_WITH_INSTANCES[key] else None


async def running(*members: Member) -> None:
    """A Stable group of these; the first leads."""
    first, *others = members
    await first.enters()
    if others:
        for member in others:
            await member.knocks()
        await first.join(f"{first.name} joins again")
        for member in others:
            await member.receives(f"{member.name} is in")
    await first.sync(f"{first.name} assigns", {member: f"share of {member.name}" for member in members})
    for member in others:
        await member.sync(f"{member.name} gets its share")
