"""Metadata, CreateTopics and DeleteTopics."""

from __future__ import annotations

from typing import Any

from kohort.model import NO_TOPIC_ID
from kohort.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kohort.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.conversation.members import UNKNOWN_ID
from tests.interop.conversation.stage import Stage, scene


def topic(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    """A new topic; configs with underscores for dots."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@scene
async def metadata(s: Stage) -> None:
    """In every version, by name, by id, of all, of none, of what is not there."""
    orders = await s.topic("orders", partitions=2)
    for v in range(14):
        await s.admin.ask(f"orders {v}", MetadataRequest(topics=[MetadataRequestTopic(name=orders)]), v)
        await s.admin.ask(f"all {v}", MetadataRequest(topics=[] if v == 0 else None), v)
    for v in range(1, 14):
        await s.admin.ask(f"none {v}", MetadataRequest(topics=[]), v)
    for v in range(4, 14):
        wanted = [MetadataRequestTopic(name="unknown"), MetadataRequestTopic(name=orders)]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        await s.admin.ask(f"one unknown {v}", request, v)
    for v in (8, 9, 10, 12):
        wanted = [MetadataRequestTopic(name=orders)]
        ops = {} if v > 10 else {"include_cluster_authorized_operations": True}
        request = MetadataRequest(topics=wanted, include_topic_authorized_operations=True, **ops)
        await s.admin.ask(f"with operations {v}", request, v)
    for v in (10, 11, 12, 13):
        by_id = [MetadataRequestTopic(name=None, topic_id=s.ids[orders])]
        await s.admin.ask(f"by id {v}", MetadataRequest(topics=by_id, allow_auto_topic_creation=False), v)
        unknown = [MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID)]
        await s.admin.ask(f"by unknown id {v}", MetadataRequest(topics=unknown, allow_auto_topic_creation=False), v)
    both = [MetadataRequestTopic(name=orders, topic_id=s.ids[orders])]
    await s.admin.ask("by name and id", MetadataRequest(topics=both), 12)
    neither = [MetadataRequestTopic(name=None, topic_id=NO_TOPIC_ID)]
    await s.admin.ask("by neither", MetadataRequest(topics=neither), 12)
    mixed = [*both[:0], MetadataRequestTopic(name=orders), MetadataRequestTopic(name=None, topic_id=s.ids[orders])]
    await s.admin.ask("one by name, one by id", MetadataRequest(topics=mixed), 12)
    twice = [MetadataRequestTopic(name=orders), MetadataRequestTopic(name=orders)]
    await s.admin.ask("twice", MetadataRequest(topics=twice), 9)
    for name in ("", ".", "..", "a b", "a/b", "x" * 249, "x" * 250, "é"):
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=len(name) != 249)
        await s.admin.ask(f"the name {name!r}", request, 9)
    await s.admin.ask("the offsets topic", MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")]), 9)


@scene
async def auto_creation(s: Stage) -> None:
    """A topic is made when a client asks for it, unless it says not to."""
    for v in (1, 3, 4, 9, 12):
        name = f"{s.scene}-{v}"
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        await s.admin.ask(f"the first request {v}", request, v)
        await s.settled(name)
        await s.admin.ask(f"the next request {v}", request, v)


@scene
async def create_topics(s: Stage) -> None:
    """Good and bad ones in each version, with and without effect."""

    async def create(name: str, *topics: CreatableTopic, v: int = 7, **changes: Any) -> None:
        fields = {"topics": list(topics), "timeout_ms": 10_000, **changes}
        await s.admin.ask(name, CreateTopicsRequest(**fields), v)

    p = s.scene
    for v in range(2, 8):
        await create(f"one {v}", topic(f"{p}-{v}", 2), v=v)
        await create(f"the same again {v}", topic(f"{p}-{v}", 2), v=v)
        await create(f"only to see {v}", topic(f"{p}-never", 2), v=v, validate_only=True)
    for name in ("", ".", "..", "a b", "a/b", "x" * 250, "é"):
        await create(f"the name {name!r}", topic(name))
    await create("the longest name", topic(p + "x" * (249 - len(p))), validate_only=True)
    await create("a name that differs by a dot", topic(f"{p}.7"), topic(f"{p}_7"))
    await s.settled(f"{p}-7")
    for v in (4, 7):
        await create(f"no partitions {v}", topic(f"{p}-no", 0), v=v)
        await create(f"-1 partitions {v}", topic(f"{p}-default-{v}", -1), v=v)
        await create(f"-2 partitions {v}", topic(f"{p}-no", -2), v=v)
        await create(f"no replicas {v}", topic(f"{p}-no", 1, 0), v=v)
        await create(f"-1 replicas {v}", topic(f"{p}-default-r-{v}", 1, -1), v=v)
        await create(f"2 replicas {v}", topic(f"{p}-no", 1, 2), v=v)
    for v in (2, 3):
        await create(f"-1 partitions {v}", topic(f"{p}-default-{v}", -1), v=v)
        await create(f"-1 replicas {v}", topic(f"{p}-default-r-{v}", 1, -1), v=v)
    await create("too many partitions", topic(f"{p}-no", 2_000_000))
    await create("none")
    await create("one twice", topic(f"{p}-twice"), topic(f"{p}-twice"), topic(f"{p}-once"))
    await create("good and bad", topic(f"{p}-good"), topic("a b"), topic(f"{p}-7"))
    await create("configs", topic(f"{p}-configs", retention_ms="1000000000", cleanup_policy="compact"))
    await create("an unknown config", topic(f"{p}-no", no_such_config="1"))
    await create("a config that is no number", topic(f"{p}-no", retention_ms="long"))
    await create("a config out of range", topic(f"{p}-no", segment_bytes="1"))
    await create("a bad cleanup policy", topic(f"{p}-no", cleanup_policy="shred"))
    await create("a config of null", topic(f"{p}-no", retention_ms=None))
    await create(
        "a config twice",
        CreatableTopic(
            name=f"{p}-no",
            num_partitions=1,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name="retention.ms", value="1"),
                CreatableTopicConfig(name="retention.ms", value="2"),
            ],
        ),
    )
    await create("the offsets topic", topic("__consumer_offsets"))

    def assigned(*brokers: list[int], first: int = 0, partitions: int = -1, replicas: int = -1) -> CreatableTopic:
        made = topic(f"{p}-assigned", partitions, replicas)
        made.assignments = [
            CreatableReplicaAssignment(partition_index=first + n, broker_ids=ids) for n, ids in enumerate(brokers)
        ]
        return made

    await create("assigned to this broker", assigned([1], [1]), validate_only=True)
    await create("assigned to another broker", assigned([2]))
    await create("assigned to one broker twice", assigned([1, 1]))
    await create("assigned to nobody", assigned([]))
    await create("assigned from partition 1 on", assigned([1], first=1))
    await create("assigned from partition -1 on", assigned([1], first=-1))
    await create("assigned, with partitions", assigned([1], partitions=1))
    await create("assigned, with replicas", assigned([1], replicas=1))


@scene
async def delete_topics(s: Stage) -> None:
    """By name and by id, good and bad."""
    names = [await s.topic(f"t{v}") for v in range(1, 9)]
    for v in range(1, 6):
        request = DeleteTopicsRequest(topic_names=[names[v], "unknown"], timeout_ms=10_000)
        await s.admin.ask(f"one and an unknown one {v}", request, v)
    state = DeleteTopicState(name=names[6])
    await s.admin.ask(
        "by name 6", DeleteTopicsRequest(topics=[state, DeleteTopicState(name="unknown")], timeout_ms=10_000), 6
    )
    by_id = [DeleteTopicState(topic_id=s.ids[names[7]]), DeleteTopicState(topic_id=UNKNOWN_ID)]
    await s.admin.ask("by id 6", DeleteTopicsRequest(topics=by_id, timeout_ms=10_000), 6)
    both = [DeleteTopicState(name=names[0], topic_id=s.ids[names[0]])]
    await s.admin.ask("by both", DeleteTopicsRequest(topics=both, timeout_ms=10_000), 6)
    await s.admin.ask("by neither", DeleteTopicsRequest(topics=[DeleteTopicState()], timeout_ms=10_000), 6)
    await s.admin.ask("none", DeleteTopicsRequest(timeout_ms=10_000), 6)
    await s.admin.ask("an empty name", DeleteTopicsRequest(topic_names=[""], timeout_ms=10_000), 5)
    await s.admin.ask("one twice", DeleteTopicsRequest(topic_names=[names[0], names[0]], timeout_ms=10_000), 5)
    twice = [DeleteTopicState(name=names[0]), DeleteTopicState(topic_id=s.ids[names[0]])]
    await s.admin.ask("one by name and by id", DeleteTopicsRequest(topics=twice, timeout_ms=10_000), 6)
