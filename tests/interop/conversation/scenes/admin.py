"""Requests of operators about partitions, records, configs, the cluster, epochs, logs, producers and elections."""

from __future__ import annotations

from kohort.broker.config.without_effect import IDLE, IDLE_OF_TOPICS, IDLE_TOPIC_NAMES
from kohort.wire.messages import alter_configs as legacy
from kohort.wire.messages import incremental_alter_configs as incremental
from kohort.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kohort.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.wire.messages.describe_cluster import DescribeClusterRequest
from kohort.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kohort.wire.messages.describe_producers import DescribeProducersRequest
from kohort.wire.messages.describe_producers import TopicRequest as ProducersOf
from kohort.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kohort.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kohort.wire.messages.list_config_resources import ListConfigResourcesRequest
from kohort.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.interop.conversation.scenes.records import batch, produce
from tests.interop.conversation.stage import Stage, scene

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@scene
async def create_partitions(s: Stage) -> None:
    """More partitions, good and bad."""
    orders, clicks = await s.topic("orders", partitions=2), await s.topic("clicks")

    async def ask(name: str, *topics: tuple[str, int, list[list[int]] | None], v: int = 3, only: bool = True) -> None:
        wanted = [
            CreatePartitionsTopic(
                name=topic,
                count=count,
                assignments=None
                if ids is None
                else [CreatePartitionsAssignment(broker_ids=broker_ids) for broker_ids in ids],
            )
            for topic, count, ids in topics
        ]
        request = CreatePartitionsRequest(topics=wanted, timeout_ms=10_000, validate_only=only)
        await s.admin.ask(name, request, v)

    for v in range(4):
        await ask(f"one more {v}", (orders, 3 + v, None), v=v, only=False)
    for count in (6, 5, 0, -1, 7):
        await ask(f"{count} of 6", (orders, count, None))
    await ask("an unknown topic", ("unknown", 3, None))
    await ask("no name", ("", 3, None))
    await ask("one twice", (orders, 7, None), (orders, 8, None))
    await ask("good and bad", (clicks, 2, None), (orders, 1, None), only=False)
    assignments: tuple[list[list[int]], ...] = ([[1], [1]], [[1]], [[9], [9]], [[1, 1], [1]], [[], [1]], [])
    for ids in assignments:
        await ask(f"two more assigned to {ids}", (orders, 8, ids))
    await ask("none")


@scene
async def delete_records(s: Stage) -> None:
    """The start moves, or it does not."""
    orders, table = await s.topic("orders"), await s.topic("table", cleanup_policy="compact")
    await produce(s, "ten records", orders, batch(*"0123456789"))

    async def ask(name: str, *wanted: tuple[str, int, int], v: int = 2) -> None:
        topics = [
            DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
            for topic, index, offset in wanted
        ]
        await s.admin.ask(name, DeleteRecordsRequest(topics=topics, timeout_ms=10_000), v)

    for v in range(3):
        await ask(f"the first {v + 1}", (orders, 0, v + 1), v=v)
    for offset in (2, 11, -2, -1, 10):
        await ask(f"to {offset}", (orders, 0, offset))
    await ask("what is not there", (orders, 1, 0), ("unknown", 0, 0), (orders, -1, 0))
    await ask("a compacted topic", (table, 0, -1))
    await ask("the offsets topic", ("__consumer_offsets", 0, 0))
    await ask("none")


@scene
async def describe_configs(s: Stage) -> None:
    """Values and where they come from, known and unknown."""
    orders = await s.topic("orders", cleanup_policy="compact", retention_bytes="123456")
    some = ["cleanup.policy", "retention.bytes", "segment.bytes", "max.message.bytes", "message.timestamp.type"]

    async def ask(name: str, *resources: tuple[int, str, list[str] | None], v: int = 4, synonyms: bool = True) -> None:
        wanted = [
            DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=keys)
            for kind, resource, keys in resources
        ]
        await s.admin.ask(name, DescribeConfigsRequest(resources=wanted, include_synonyms=synonyms), v)

    for v in range(1, 5):
        await ask(f"a topic {v}", (TOPIC, orders, some), v=v)
    await ask("without synonyms", (TOPIC, orders, some), synonyms=False)
    await ask("what does nothing here", (TOPIC, orders, [*IDLE_TOPIC_NAMES, *IDLE_OF_TOPICS]))
    await ask("and of a broker", (BROKER, "1", list(IDLE)))
    await ask("an unknown config", (TOPIC, orders, ["nonsense", "cleanup.policy"]))
    for name in ("unknown", "a b", ""):
        await ask(f"the topic {name!r}", (TOPIC, name, some))
    mine = ["message.max.bytes", "num.partitions", "auto.create.topics.enable", "log.cleanup.policy", "node.id"]
    await ask("a broker", (BROKER, "1", mine))
    for name in ("9", "one"):
        await ask(f"the broker {name!r}", (BROKER, name, mine))
    await ask("a group without a name", (GROUP, "", None))
    await ask("another broker's loggers", (LOGGER, "9", None))
    await ask("a metrics subscription without a name", (METRICS, "", None))
    await ask("an unknown type beside a topic", (99, "x", None), (TOPIC, orders, some))
    await ask("none")


@scene
async def alter_configs(s: Stage) -> None:
    """Single configs, lists, everything at once; and what cannot be."""
    orders = await s.topic("orders", segment_bytes="2000000")
    shown = ["cleanup.policy", "retention.bytes", "segment.bytes", "delete.retention.ms"]

    async def ask(name: str, *resources: tuple[int, str, list[tuple[str, int, str | None]]], v: int = 1) -> None:
        wanted = [
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=resource,
                configs=[incremental.AlterableConfig(name=key, config_operation=op, value=to) for key, op, to in all_],
            )
            for kind, resource, all_ in resources
        ]
        await s.admin.ask(name, incremental.IncrementalAlterConfigsRequest(resources=wanted), v)

    async def replace(name: str, kind: int, resource: str, v: int = 2, **configs: str | None) -> None:
        entries = [legacy.AlterableConfig(name=key.replace("_", "."), value=to) for key, to in configs.items()]
        wanted = legacy.AlterConfigsResource(resource_type=kind, resource_name=resource, configs=entries)
        await s.admin.ask(name, legacy.AlterConfigsRequest(resources=[wanted]), v)

    async def show(name: str, **heard_of: str) -> None:
        wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name=orders, configuration_keys=shown)
        request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True)
        await s.configs_are(request, {key.replace("_", "."): value for key, value in heard_of.items()})
        await s.admin.ask(name, request, 4)

    for v in (0, 1):
        await ask(f"set {v}", (TOPIC, orders, [("retention.bytes", SET, f"{v}000")]), v=v)
    await ask("add to a list", (TOPIC, orders, [("cleanup.policy", APPEND, "compact")]))
    await ask("add it again", (TOPIC, orders, [("cleanup.policy", APPEND, "compact")]))
    await show("two policies", cleanup_policy="delete,compact")
    await ask("take from a list", (TOPIC, orders, [("cleanup.policy", SUBTRACT, "compact")]))
    await ask("take the last one", (TOPIC, orders, [("cleanup.policy", SUBTRACT, "delete")]))
    await show("no policy", cleanup_policy="")
    await ask("add to an empty list", (TOPIC, orders, [("cleanup.policy", APPEND, "compact")]))
    await show("one policy again", cleanup_policy="compact")
    for what, text in {"nothing": "", "blanks": " ", "a comma": ",", "one and a comma": "delete,"}.items():
        await ask(f"set a list to {what}", (TOPIC, orders, [("cleanup.policy", SET, text)]))
    await ask("set a list to one", (TOPIC, orders, [("cleanup.policy", SET, "delete")]))
    await ask("delete", (TOPIC, orders, [("segment.bytes", DELETE, None)]))
    await show("one policy, and a segment as all have it", segment_bytes="1073741824", cleanup_policy="delete")
    key = "retention.bytes"
    for name, change in {
        "add to a number": (key, APPEND, "1"),
        "set to null": (key, SET, None),
        "set to a word": (key, SET, "many"),
        "set an unknown one": ("nonsense", SET, "1"),
        "delete an unknown one": ("nonsense", DELETE, None),
        "add to an unknown one": ("nonsense", APPEND, "1"),
        "a policy that is none": ("cleanup.policy", SET, "shred"),
        "an operation that is none": (key, 9, "1"),
    }.items():
        await ask(name, (TOPIC, orders, [change]))
    await ask("one config twice", (TOPIC, orders, [(key, SET, "1"), (key, SET, "2")]))
    await ask("one topic twice", (TOPIC, orders, [(key, SET, "1")]), (TOPIC, orders, []))
    await ask("nothing", (TOPIC, orders, []))
    for name in ("unknown", "a b", ""):
        await ask(f"the topic {name!r}", (TOPIC, name, [(key, SET, "1")]))
    await ask("an unknown topic and a bad value", (TOPIC, "unknown", [(key, SET, "x")]))
    most = "max.connections"
    for name in ("1", "9", "one"):
        await ask(f"the broker {name!r}", (BROKER, name, [(most, SET, "15000")]))
    await ask("a broker's setting that is fixed", (BROKER, "1", [("num.partitions", SET, "2")]))
    await ask("a broker's setting to a word", (BROKER, "1", [(most, SET, "many")]))
    await ask("a broker's setting that is no list", (BROKER, "1", [(most, APPEND, "1")]))
    await ask("a group's unknown config", (GROUP, "g", [("nonsense", SET, "1")]))
    await ask("a group without a name", (GROUP, "", [("nonsense", SET, "1")]))
    await ask("an unknown type", (99, "x", [("nonsense", SET, "1")]))
    for v in range(3):
        await replace(f"everything {v}", TOPIC, orders, v, retention_bytes=f"{v}5000")
    await show("only what was given", retention_bytes="25000", cleanup_policy="delete")
    await replace("everything by null", TOPIC, orders, retention_bytes=None)
    await replace("everything by a word", TOPIC, orders, retention_bytes="many")
    await replace("everything of an unknown topic", TOPIC, "unknown", retention_bytes="1")
    await replace("everything of a broker", BROKER, "1")
    await replace("a logger", LOGGER, "1", kafka="DEBUG")


@scene
async def describe_cluster(s: Stage) -> None:
    """The brokers, and who asks at the wrong door. And which resources have configs."""
    for v in range(3):
        await s.admin.ask(f"as usual {v}", DescribeClusterRequest(), v)
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        await s.admin.ask(f"with operations {v}", request, v)
    for endpoint in (2, 0, 7):
        await s.admin.ask(f"endpoint {endpoint}", DescribeClusterRequest(endpoint_type=endpoint), 2)
    await s.admin.ask("subscriptions only", ListConfigResourcesRequest(), 0)
    for kind in (BROKER, METRICS, GROUP, 0, 99):
        await s.admin.ask(f"resources of type {kind}", ListConfigResourcesRequest(resource_types=[kind]), 1)


@scene
async def describe_topic_partitions(s: Stage) -> None:
    """Pages, cursors, topics that are not there."""
    clicks, orders, zebras = await s.topic("clicks", 5), await s.topic("orders", 4), await s.topic("zebras", 2)

    async def ask(name: str, *topics: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> None:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=topic) for topic in topics],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        await s.admin.ask(name, request, 0)

    for limit in (2_000, 11, 9, 6, 5, 4, 1, 0, -1):
        await ask(f"at most {limit}", orders, clicks, zebras, limit=limit)
    await ask("unknown ones, and one twice", zebras, "unknown", "a b", zebras)
    await ask("an unknown one behind a full page", clicks, "unknown", limit=5)
    for index in (0, 3, 4, 99, -1):
        await ask(f"from partition {index} on", orders, zebras, clicks, cursor=(orders, index))
    await ask("from a topic that is not asked for on", orders, cursor=(clicks, 0))
    await ask("from an unknown topic on", "unknown", zebras, cursor=("unknown", 1))


@scene
async def offsets_for_leader_epochs(s: Stage) -> None:
    """Of the only epoch there is, and of others."""
    orders = await s.topic("orders", 2)
    await produce(s, "three records", orders, batch("a", "b", "c"))
    for v in (2, 3, 4):
        for epoch in (0, 1, -1, -2):
            for topic, index in ((orders, 0), (orders, 1), (orders, 2), ("unknown", 0)):
                wanted = OffsetForLeaderTopic(
                    topic=topic, partitions=[OffsetForLeaderPartition(partition=index, leader_epoch=epoch)]
                )
                request = OffsetForLeaderEpochRequest(topics=[wanted], **({} if v < 3 else {"replica_id": -1}))
                place = "unknown" if topic == "unknown" else f"{index}"
                await s.admin.ask(f"epoch {epoch} of {place}, {v}", request, v)
    later = OffsetForLeaderPartition(partition=0, leader_epoch=0, current_leader_epoch=9)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=orders, partitions=[later])]
    )
    await s.admin.ask("a leader of the future", request, 4)


@scene
async def logs_producers_and_elections(s: Stage) -> None:
    """Requests about partitions."""
    orders = await s.topic("orders", 2)
    await produce(s, "by nobody", orders, batch("a"))
    await produce(s, "by somebody", orders, batch("b", "c", producer_id=4_711, producer_epoch=2, base_sequence=0))
    for v in range(1, 5):
        for name, wanted in {"some": [1, 0, 0], "some and others": [0, 99, -1], "others": [99]}.items():
            topics = [DescribableLogDirTopic(topic=orders, partitions=wanted)]
            await s.admin.ask(f"logs of {name} {v}", DescribeLogDirsRequest(topics=topics), v)
        unknown = [DescribableLogDirTopic(topic="unknown", partitions=[0])]
        await s.admin.ask(f"logs of an unknown topic {v}", DescribeLogDirsRequest(topics=unknown), v)
        await s.admin.ask(f"logs of none {v}", DescribeLogDirsRequest(topics=[]), v)
    for topic in (orders, "unknown", "a b", ""):
        request = DescribeProducersRequest(topics=[ProducersOf(name=topic, partition_indexes=[0, 1, 2, -1])])
        await s.admin.ask(f"producers of {topic.removeprefix(s.scene)!r}", request, 0)
    await s.admin.ask("producers of none", DescribeProducersRequest(), 0)
    for v in range(3):
        for kind in (0, 1, 7) if v else (0,):
            some = [
                TopicPartitions(topic=orders, partitions=[0, 1, 99]),
                TopicPartitions(topic="unknown", partitions=[0]),
            ]
            elect = ElectLeadersRequest(topic_partitions=some, **({"election_type": kind} if v else {}))
            await s.admin.ask(f"an election of kind {kind} {v}", elect, v)
        await s.admin.ask(f"no election {v}", ElectLeadersRequest(topic_partitions=[]), v)
