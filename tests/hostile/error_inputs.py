"""State for rejected input: an active group, a topic with records, and invalid requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kohort.errors import ErrorCode
from kohort.wire.codec import Struct
from kohort.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kohort.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kohort.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kohort.wire.messages.consumer_protocol import Subscription, encode_subscription
from kohort.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.wire.messages.describe_groups import DescribeGroupsRequest
from kohort.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.wire.messages.init_producer_id import InitProducerIdRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.hostile.peer import Batch
from tests.interop.conversation.members import UNKNOWN_ID, Member, running
from tests.interop.conversation.play import warm_up
from tests.interop.conversation.scenes.records import batch, produce_request
from tests.interop.conversation.stage import Stage

TOPIC = 2
"""A resource's kind."""


@dataclass
class World:
    """State of a case: a Stable group with its `leader`, and `stranger`, which is not a member."""

    stage: Stage
    topic: str
    leader: Member
    follower: Member
    stranger: Member

    @classmethod
    async def at(cls, stage: Stage) -> World:
        """A new one."""
        await warm_up(stage, [stage.group, f"{stage.group}-static", f"{stage.group}-other"])
        topic = await stage.topic("orders")
        await stage.admin.quietly(produce_request(stage, topic, batch("a", "b", "c")), 12)
        protocols = {"range": encode_subscription(Subscription([topic]), 1)}
        leader, follower, stranger = [
            Member(stage, name, protocols=protocols) for name in ("leader", "follower", "stranger")
        ]
        await _run(leader, follower)
        return cls(stage, topic, leader, follower, stranger)

    @property
    def group(self) -> str:
        """The group's id."""
        return self.stage.group

    async def ask(self, request: Any, version: int) -> Any:
        """Somebody who is in no group asks."""
        return await self.stage.admin.ask("asks", request, version)

    async def produce(self, records: Any, *, topic: str | None = None, version: int = 12, **changes: Any) -> Any:
        """One batch for the topic."""
        return await self.ask(produce_request(self.stage, topic or self.topic, records, **changes), version)

    async def fetch(self, version: int = 12, topic: str | None = None, session: int = 0, **place: Any) -> Any:
        """From the topic's only partition."""
        name = topic or self.topic
        partition = FetchPartition(**{"partition": 0, "partition_max_bytes": 1_000, **place})
        wanted = FetchTopic(topic=name, topic_id=self.stage.ids.get(name, UNKNOWN_ID), partitions=[partition])
        epoch = 1 if session else -1
        request = FetchRequest(max_wait_ms=10, min_bytes=1, session_id=session, session_epoch=epoch, topics=[wanted])
        return await self.ask(request, version)

    async def create(self, name: str = "", version: int = 6, **fields: Any) -> Any:
        """A topic; a good one unless a field says otherwise."""
        wanted = {"name": name or f"{self.stage.scene}-new", "num_partitions": 1, "replication_factor": 1, **fields}
        return await self.ask(CreateTopicsRequest(topics=[CreatableTopic(**wanted)], timeout_ms=10_000), version)

    async def partitions(self, count: int, *ids: int) -> Any:
        """Give the topic that many partitions, the new ones on these brokers."""
        assignments = [CreatePartitionsAssignment(broker_ids=[broker_id]) for broker_id in ids] or None
        wanted = CreatePartitionsTopic(name=self.topic, count=count, assignments=assignments)
        return await self.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000), 3)

    async def reassign(self, replicas: list[int] | None, topic: str = "") -> Any:
        """Give the topic's only partition these replicas."""
        wanted = [ReassignablePartition(partition_index=0, replicas=replicas)]
        topics = [ReassignableTopic(name=topic or self.topic, partitions=wanted)]
        return await self.ask(AlterPartitionReassignmentsRequest(topics=topics), 0)

    async def static(self) -> Member:
        """A static member, alone in a group of its own."""
        member = Member(self.stage, "static", group=f"{self.group}-static", instance="place-1")
        await running(member)
        return member


Answer = Awaitable[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """An input and what it earns."""

    code: ErrorCode
    input: str
    happens: Callable[[World], Answer]
    rebalances: bool = False
    """The group is no longer in the generation that it was in."""
    ours_alone: str = ""
    """Why Apache Kafka does not answer so; docs/interop.md says more."""


async def _run(leader: Member, follower: Member) -> None:
    """Form a Stable group of the two. `running` does the same, but pauses to see whether a join waits."""
    await leader.enters()
    await follower.gets_an_id()
    joining = asyncio.ensure_future(follower.join("joins"))
    describe = DescribeGroupsRequest(groups=[leader.group])
    while (await leader.quietly(describe, 5)).groups[0].group_state != "PreparingRebalance":
        pass
    await leader.join("joins again")
    await joining
    await leader.sync("assigns", {leader: "", follower: ""})
    await follower.sync("gets its share")


# Inputs that need several steps. The last response counts.


async def a_second_holder(world: World) -> Any:
    first = await world.static()
    second = Member(world.stage, "second", group=first.group, instance="place-1")
    await second.join("takes the place of the first")
    return await first.heartbeat("the first goes on")


async def another_member_under_its_instance_id(world: World, act: str) -> Any:
    owner = await world.static()
    owner.member_id = "somebody-else"
    match act:
        case "joins":
            return await owner.join("joins")
        case "syncs":
            return await owner.sync("syncs")
        case _:
            return await owner.commit("commits", {(world.topic, 0): 1})


async def during_a_rebalance(world: World, act: Callable[[Member], Answer]) -> Any:
    await world.stranger.knocks()
    return await act(world.follower)


async def commit_before_the_assignment_is_there(world: World) -> Any:
    await world.stranger.knocks()
    await world.follower.join_waits("the follower joins again")
    await world.leader.join("the leader joins again")
    await world.follower.receives("is in")
    return await world.follower.commit("commits before it has its share", {(world.topic, 0): 1})


async def member_of_another_group(world: World) -> Any:
    other = Member(world.stage, "other", group=f"{world.group}-other")
    await running(other)
    return await other.commit("commits", {(world.topic, 0): 1}, group_id=world.group)


async def gap_in_a_producers_numbers(world: World) -> Any:
    told = await world.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
    numbered = {"producer_id": told.producer_id, "producer_epoch": 0}
    await world.produce(batch("0", **numbered, base_sequence=0))
    return await world.produce(batch("5", **numbered, base_sequence=5))


async def old_epoch_of_a_producer(world: World) -> Any:
    told = await world.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
    await world.produce(batch("new", producer_id=told.producer_id, producer_epoch=3, base_sequence=0))
    return await world.produce(batch("old", producer_id=told.producer_id, producer_epoch=2, base_sequence=0))


async def delete_a_tables_records(world: World) -> Any:
    table = await world.stage.topic("table", cleanup_policy="compact")
    return await world.ask(records_deleted(table, 0), 2)


async def keyless_in_a_table(world: World) -> Any:
    return await world.produce(bytes(Batch()), topic=await world.stage.topic("table", cleanup_policy="compact"))


async def batch_over_the_topics_own_limit(world: World) -> Any:
    return await world.produce(batch("x" * 300), topic=await world.stage.topic("small", max_message_bytes="100"))


def records_deleted(topic: str, offset: int) -> DeleteRecordsRequest:
    place = DeleteRecordsPartition(partition_index=0, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[place])], timeout_ms=10_000)


def offset_at(topic: str, time: int, epoch: int = -1) -> ListOffsetsRequest:
    place = ListOffsetsPartition(partition_index=0, timestamp=time, current_leader_epoch=epoch)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[place])])


def offsets_deleted(group: str, topic: str) -> OffsetDeleteRequest:
    place = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    return OffsetDeleteRequest(group_id=group, topics=[place])


def offsets_by_an_unknown_id(group: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])


def leaders_of(topic: str) -> ElectLeadersRequest:
    return ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic, partitions=[0])], timeout_ms=10_000)


def legacy_config(topic: str, name: str, value: str | None) -> AlterConfigsRequest:
    config = AlterableConfig(name=name, value=value)
    return AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])]
    )


def codes(answer: object) -> set[int]:
    """Every error code in an answer, wherever its version has a place for one."""
    if isinstance(answer, list):
        return {code for element in answer for code in codes(element)}
    if not isinstance(answer, Struct):
        return set()
    own = {getattr(answer, "error_code", 0)} - {0}
    return own.union(*(codes(getattr(answer, field.name)) for field in answer.FIELDS))


def users_named(*names: str) -> DescribeUserScramCredentialsRequest:
    """Describe the credentials of these users."""
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


def credential_deleted(mechanism: int = 1) -> AlterUserScramCredentialsRequest:
    """Delete a credential of a user who has none."""
    return AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="nobody", mechanism=mechanism)])


def credentials_set(*iterations: int) -> AlterUserScramCredentialsRequest:
    """Set one credential of a user for each number of iterations."""
    upsertions = [
        ScramCredentialUpsertion(name="nobody", mechanism=1, iterations=each, salt=b"salt", salted_password=b"salted")
        for each in iterations
    ]
    return AlterUserScramCredentialsRequest(upsertions=upsertions)
