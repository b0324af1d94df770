"""Operators' tools: what each client's admin does to topics, configs, records and groups."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import aiokafka
import aiokafka.admin
import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.cimpl
import kafka
import kafka.admin
import kafka.errors
import pytest

from tests.interop.broker import Broker
from tests.interop.kafka import run_tool
from tests.interop.process import until

pytestmark = pytest.mark.interop

SECONDS = 20.0
T = TypeVar("T")
confluent: Any = confluent_kafka.admin  # it has names that its type hints lack
Partition = confluent_kafka.TopicPartition


def settled(what: str, reached: Callable[[], bool]) -> None:
    """Wait until a change is applied: Apache Kafka responds before all of its parts have applied it."""
    until(SECONDS, what, reached)


def only_result(futures: Mapping[Any, Future[T]]) -> T:
    """The only result; raises what the broker answered."""
    (future,) = futures.values()
    return future.result(SECONDS)


def code(futures: Mapping[Any, Future[Any]]) -> str:
    """The name of the error that the broker answered."""
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        only_result(futures)
    name: str = refused.value.args[0].name()
    return name


def partitions(admin: confluent_kafka.admin.AdminClient, topic: str) -> int:
    """How many the topic has; 0 while there is none."""
    try:
        return len(only_result(admin.describe_topics(confluent_kafka.TopicCollection([topic]))).partitions)
    except confluent_kafka.KafkaException:
        return 0


def produce(bootstrap: str, topic: str, count: int) -> None:
    """Write that many records to partition 0."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(SECONDS) == 0


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """As a consumer that assigns itself; Apache Kafka's first commit waits for the coordinators to be made."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def committed() -> bool:
        try:
            consumer.commit(offsets=[Partition(topic, 0, offset)], asynchronous=False)
        except confluent_kafka.KafkaException as error:
            assert error.args[0].retriable() or error.args[0].name() == "NOT_COORDINATOR", error
            return False
        return True

    try:
        settled("the commit", committed)
    finally:
        consumer.close()


def test_confluent_kafka(any_broker: Broker, fresh: str) -> None:
    bootstrap, group = any_broker.bootstrap, f"{fresh}-group"
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    topic = confluent.ConfigResource("topic", fresh)

    def configs() -> dict[str, str]:
        return {name: entry.value for name, entry in only_result(admin.describe_configs([topic])).items()}

    def alter(name: str, value: str, operation: Any) -> Mapping[Any, Future[None]]:
        entry = confluent.ConfigEntry(name, value, incremental_operation=operation)
        resource = confluent.ConfigResource("topic", fresh, incremental_configs=[entry])
        altered: Mapping[Any, Future[None]] = admin.incremental_alter_configs([resource])
        return altered

    only_result(admin.create_topics([confluent_kafka.cimpl.NewTopic(fresh, 2, config={"retention.ms": "70000000"})]))
    settled("the topic", lambda: partitions(admin, fresh) == 2)
    assert configs()["retention.ms"] == "70000000"

    only_result(admin.create_partitions([confluent.NewPartitions(fresh, 4)]))
    settled("four partitions", lambda: partitions(admin, fresh) == 4)
    assert code(admin.create_partitions([confluent.NewPartitions(fresh, 3)])) == "INVALID_PARTITIONS"

    only_result(alter("cleanup.policy", "compact", confluent.AlterConfigOpType.APPEND))
    settled("two policies", lambda: configs()["cleanup.policy"] == "delete,compact")
    only_result(alter("cleanup.policy", "compact", confluent.AlterConfigOpType.SUBTRACT))
    settled("one policy", lambda: configs()["cleanup.policy"] == "delete")
    assert code(alter("retention.ms", "soon", confluent.AlterConfigOpType.SET)) == "INVALID_CONFIG"
    with pytest.warns(DeprecationWarning):
        only_result(
            admin.alter_configs([confluent.ConfigResource("topic", fresh, set_config={"segment.ms": "80000000"})])
        )
    # A config that is not in the request returns to the broker's value; the tests' brokers keep all records.
    settled("only what was given", lambda: configs()["retention.ms"] == "-1")
    assert configs()["segment.ms"] == "80000000"

    produce(bootstrap, fresh, 10)
    deleted = only_result(admin.delete_records([Partition(fresh, 0, 7)]))
    assert deleted.low_watermark == 7
    assert code(admin.delete_records([Partition(fresh, 0, 99)])) == "OFFSET_OUT_OF_RANGE"

    preferred = confluent_kafka.ElectionType.PREFERRED
    (elected,) = admin.elect_leaders(preferred, [Partition(fresh, 0)]).result(SECONDS).values()
    assert elected is None or elected.name() == "ELECTION_NOT_NEEDED"

    commit(bootstrap, group, fresh, 8)
    only_result(admin.delete_consumer_groups([group]))
    assert code(admin.delete_consumer_groups([group])) == "GROUP_ID_NOT_FOUND"

    only_result(admin.delete_topics([fresh]))
    settled("no topic", lambda: partitions(admin, fresh) == 0)
    assert code(admin.describe_configs([topic])) == "UNKNOWN_TOPIC_OR_PART"


def test_kafka_python(any_broker: Broker, fresh: str) -> None:
    bootstrap, group = any_broker.bootstrap, f"{fresh}-group"
    admin: Any = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    place = kafka.TopicPartition(fresh, 0)
    try:
        admin.create_topics([kafka.admin.NewTopic(fresh, 1, 1)], wait_for_metadata=True)
        admin.create_partitions({fresh: kafka.admin.NewPartitions(3)})
        settled("three partitions", lambda: len(admin.describe_topics([fresh])[0]["partitions"]) == 3)
        pages = admin.describe_topic_partitions([fresh], response_partition_limit=2)
        assert pages["next_cursor"] == {"topic_name": fresh, "partition_index": 2}
        pages = admin.describe_topic_partitions([fresh], cursor=pages["next_cursor"])
        assert [p["partition_index"] for p in pages["topics"][0]["partitions"]] == [2]

        kind = kafka.admin.ConfigResourceType.TOPIC
        admin.alter_configs([kafka.admin.ConfigResource(kind, fresh, {"retention.ms": "70000000"})])
        wanted = [kafka.admin.ConfigResource(kind, fresh)]

        def modified() -> dict[str, Any]:
            found: dict[str, Any] = admin.describe_configs(wanted)["topic"][fresh]
            return found

        settled("the config", lambda: modified().get("retention.ms", {}).get("value") == "70000000")
        (listed,) = admin.list_config_resources(["TOPIC"]).values()
        assert fresh in listed

        produce(bootstrap, fresh, 10)
        assert admin.delete_records({place: 6})[place]["low_watermark"] == 6
        (directory,) = admin.describe_log_dirs()[0]["log_dirs"]
        sizes = {row["name"]: sum(p["partition_size"] for p in row["partitions"]) for row in directory["topics"]}
        assert sizes[fresh] > 0
        (producer,) = admin.describe_producers([place])[place].active_producers or [None]
        assert producer is None or producer.last_sequence >= 0
        (elected,) = admin.elect_leaders(0, {fresh: [0]}).replica_election_results
        assert elected.partition_result[0].error_code == kafka.errors.ElectionNotNeededError.errno

        commit(bootstrap, group, fresh, 7)
        assert admin.delete_group_offsets(group, [place]) == {place: kafka.errors.NoError}
        with pytest.raises(kafka.errors.GroupIdNotFoundError):
            admin.delete_group_offsets(f"{group}-missing", [place])
    finally:
        admin.close()


async def test_aiokafka(any_broker: Broker, fresh: str) -> None:
    admin: Any = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=any_broker.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([aiokafka.admin.NewTopic(fresh, 1, 1)])
        async with asyncio.timeout(SECONDS):
            while (await admin.describe_topics([fresh]))[0]["error_code"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await admin.create_partitions({fresh: aiokafka.admin.NewPartitions(3)})
        kind = aiokafka.admin.config_resource.ConfigResourceType.TOPIC
        resource = aiokafka.admin.config_resource.ConfigResource
        altered = await admin.alter_configs([resource(kind, fresh, configs={"retention.ms": "70000000"})])
        assert altered[0].resources[0][0] == 0
        (described,) = await admin.describe_configs([resource(kind, fresh)])
        assert described.resources[0][0] == 0
        place = aiokafka.TopicPartition(fresh, 0)
        assert await admin.delete_records({place: aiokafka.admin.RecordsToDelete(0)}) == {place: 0}
        assert (await admin.describe_cluster())["brokers"]
        deleted = await admin.delete_topics([fresh])
        assert deleted.topic_error_codes == [(fresh, 0)]
    finally:
        await admin.close()


@pytest.mark.java
def test_java(any_broker: Broker, kafka_tools: None, fresh: str, tmp_path: Path) -> None:
    bootstrap, group = any_broker.bootstrap, f"{fresh}-group"
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    only_result(admin.create_topics([confluent_kafka.cimpl.NewTopic(fresh, 2)]))
    settled("the topic", lambda: partitions(admin, fresh) == 2)
    produce(bootstrap, fresh, 10)
    commit(bootstrap, group, fresh, 8)
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps({"version": 1, "partitions": [{"topic": fresh, "partition": 0, "offset": 5}]}))
    server, tools = ("--bootstrap-server", bootstrap), "org.apache.kafka.tools."
    about = ("--entity-type", "topics", "--entity-name", fresh)
    changes = (
        (f"{tools}TopicCommand", *server, "--alter", "--topic", fresh, "--partitions", "4"),
        ("kafka.admin.ConfigCommand", *server, "--alter", *about, "--add-config", "retention.ms=70000000"),
        (f"{tools}DeleteRecordsCommand", *server, "--offset-json-file", str(offsets)),
        (f"{tools}consumer.group.ConsumerGroupCommand", *server, "--delete", "--group", group),
    )
    with ThreadPoolExecutor(2) as two:  # a JVM mostly waits
        _, altered, deleted, gone = two.map(lambda command: run_tool(*command), changes)
    assert "Completed updating config" in altered
    assert "low_watermark: 5" in deleted
    assert "was successful" in gone
    described = run_tool(f"{tools}TopicCommand", *server, "--describe", "--topic", fresh)
    assert "PartitionCount: 4" in described
    assert "retention.ms=70000000" in described


@pytest.mark.java
def test_quotas_of_the_java_tool(any_broker: Broker, kafka_tools: None, fresh: str) -> None:
    configs = ("kafka.admin.ConfigCommand", "--bootstrap-server", any_broker.bootstrap)
    about = ("--user", fresh, "--client-defaults")
    run_tool(*configs, "--alter", *about, "--add-config", "producer_byte_rate=1048576")
    expected = f"Quota configs for user-principal '{fresh}', the default client-id are producer_byte_rate=1048576.0"
    settled("the quota", lambda: expected in run_tool(*configs, "--describe", *about))
    run_tool(*configs, "--alter", *about, "--delete-config", "producer_byte_rate")
    settled("no quota", lambda: "Quota" not in run_tool(*configs, "--describe", *about))
