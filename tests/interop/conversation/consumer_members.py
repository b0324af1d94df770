"""A member of a consumer group (KIP-848) that remembers what it was told; its heartbeats can be wrong in any field."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.wire.messages.delete_groups import DeleteGroupsRequest
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.interop.conversation.stage import Client, Stage

PATIENCE_ROUNDS = 500
"""Rounds of quiet heartbeats after which a group is not going to settle. Kafka looks expressions up every 10 s."""

Owned = Mapping[str, Sequence[int]]
"""Partitions by topic."""


class ConsumerMember(Client):
    """Keyword arguments replace fields of the heartbeat that it would send; what is not said is absent."""

    def __init__(
        self, stage: Stage, name: str, *, group: str | None = None, instance: str | None = None, user: str = ""
    ) -> None:
        super().__init__(stage, name, user or stage.user)
        self.group = group or stage.group
        self.instance = instance
        self.member_id = name
        self.epoch = 0
        self.given: list[TopicPartitions] = []
        """What it was last told to own."""

    # Heartbeats

    def request(self, **changes: Any) -> ConsumerGroupHeartbeatRequest:
        """Return its request if nothing has changed."""
        owned = changes.pop("owns", None)
        if owned is not None:
            changes["topic_partitions"] = self.partitions(owned)
        fields = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        return ConsumerGroupHeartbeatRequest(**{**fields, "instance_id": self.instance, **changes})

    def joining(self, topics: Iterable[str] = (), **changes: Any) -> dict[str, Any]:
        """The fields of a member that enters."""
        fields = {"member_epoch": 0, "rebalance_timeout_ms": 30_000, "topic_partitions": []}
        return {**fields, "subscribed_topic_names": list(topics), **changes}

    def partitions(self, owned: Owned) -> list[TopicPartitions]:
        """As a heartbeat says it."""
        ids = self.stage.ids
        return [TopicPartitions(topic_id=ids.get(name, NO_TOPIC_ID), partitions=list(of)) for name, of in owned.items()]

    async def beat(self, name: str, v: int = 1, **changes: Any) -> Any:
        """One heartbeat."""
        return self._told(await self.ask(name, self.request(**changes), v))

    async def joins(self, name: str, topics: Iterable[str] = (), v: int = 1, **changes: Any) -> Any:
        """Enter the group."""
        return await self.beat(name, v, **self.joining(topics, **changes))

    async def acknowledges(self, name: str, v: int = 1, **changes: Any) -> Any:
        """Report that it owns what it was given and nothing else."""
        return await self.beat(name, v, **{"topic_partitions": self.given, **changes})

    async def leaves(self, name: str, v: int = 1, **changes: Any) -> Any:
        """Leave for good."""
        return await self.beat(name, v, **{"member_epoch": -1, **changes})

    async def quietly_beats(self, **changes: Any) -> Any:
        """A heartbeat outside the transcript that reports what it was given."""
        request = self.request(**{"topic_partitions": self.given, **changes})
        return self._told(await self.quietly(request, 1))

    def _told(self, answer: Any) -> Any:
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            self.member_id = answer.member_id or self.member_id
            if answer.assignment is not None:
                self.given = answer.assignment.topic_partitions
        return answer

    # Offsets

    async def commit(self, name: str, topic: str, offsets: Mapping[int, int], v: int = 9, **changes: Any) -> Any:
        """OffsetCommit at its epoch."""
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            for index, offset in offsets.items()
        ]
        wanted = OffsetCommitRequestTopic(name=topic, topic_id=self._id(topic), partitions=partitions)
        fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.epoch,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "topics": [wanted],
        }
        return await self.ask(name, OffsetCommitRequest(**{**fields, **changes}), v)

    async def fetch(self, name: str, topic: str, indexes: Sequence[int], v: int = 9, **changes: Any) -> Any:
        """OffsetFetch as a member."""
        wanted = OffsetFetchRequestTopics(name=topic, topic_id=self._id(topic), partition_indexes=list(indexes))
        fields = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch, "topics": [wanted]}
        group = OffsetFetchRequestGroup(**{**fields, **changes})
        return await self.ask(name, OffsetFetchRequest(groups=[group]), v)

    def _id(self, topic: str) -> UUID:
        return self.stage.ids.get(topic, NO_TOPIC_ID)


async def topic(stage: Stage, suffix: str, partitions: int = 1) -> str:
    """Make a topic and wait until groups get its partitions: Kafka's coordinators know it later than clients."""
    name = await stage.topic(suffix, partitions)
    probe = ConsumerMember(stage, "probe", group=f"{stage.group}-probe-{suffix}")
    for _ in range(PATIENCE_ROUNDS):
        told = await probe.quietly_beats(**probe.joining([name]))
        if told.assignment is not None and told.assignment.topic_partitions:
            break
        await asyncio.sleep(0.02)
    await probe.quietly_beats(member_epoch=-1)
    await stage.admin.quietly(DeleteGroupsRequest(groups_names=[probe.group]), 2)
    return name


async def settle(*members: ConsumerMember) -> None:
    """Heartbeats of all, outside the transcript, until a round of them brings nothing new."""
    for _ in range(PATIENCE_ROUNDS):
        before = [(member.epoch, member.given) for member in members]
        for member in members:
            await member.quietly_beats()
        if [(member.epoch, member.given) for member in members] == before and len({m.epoch for m in members}) == 1:
            return
    raise AssertionError("the group does not settle")


async def described(stage: Stage, name: str, group: str | None = None, v: int = 1) -> Any:
    """One exchange: the group as its coordinator describes it."""
    return await stage.admin.ask(name, ConsumerGroupDescribeRequest(group_ids=[group or stage.group]), v)
