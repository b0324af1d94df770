"""Transactions whose coordinator and partitions are on several brokers, which die between two steps."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from kohort.broker.groups.coordinator import group_partition
from kohort.log.cluster.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.cluster.conftest import RunningCluster, StartCluster
from tests.interop.process import until

pytestmark = pytest.mark.interop

PATIENCE_S = 60.0
PARTITIONS = 6
GROUP = "readers"


def created(cluster: RunningCluster, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = confluent_kafka.cimpl.NewTopic(topic, PARTITIONS, 1)
    admin.create_topics([new])[topic].result(PATIENCE_S)


def leader(cluster: RunningCluster, topic: str, partition: int) -> int:
    image = cluster.image
    found = image.named(topic)
    assert found is not None
    return image.leaders[found.topic_id][partition].node_id


def coordinator(cluster: RunningCluster, transactional_id: str) -> int:
    return leader(cluster, TRANSACTIONS_TOPIC, group_partition(transactional_id, 50))


class Copier:
    """One producer that writes each number to all partitions, and commits it as a group's offset, in a transaction.

    Every third transaction is aborted. What fails is begun again, as librdkafka's errors say.
    """

    def __init__(self, cluster: RunningCluster, topic: str, name: str) -> None:
        self.topic, self.name = topic, name
        given = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "linger.ms": 0}
        self.producer = confluent_kafka.Producer({**given, "transaction.timeout.ms": 30_000})
        self.consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
        self.producer.init_transactions(PATIENCE_S)
        self.done = 0

    def copy(self, number: int) -> None:
        while True:
            try:
                self._attempt(number)
                self.done = number + 1
                return
            except confluent_kafka.KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._insist(self.producer.abort_transaction)

    def _attempt(self, number: int) -> None:
        producer = self.producer
        for value, end in ((b"aborted", producer.abort_transaction), (b"", producer.commit_transaction)):
            if value and number % 3:
                continue
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                producer.produce(self.topic, value or f"{self.name}-{number}".encode(), partition=partition)
            offsets = [confluent_kafka.TopicPartition(self.topic, 0, 999_999 if value else number)]
            metadata = self.consumer.consumer_group_metadata()
            self._insist(lambda: producer.send_offsets_to_transaction(offsets, metadata, PATIENCE_S))  # noqa: B023
            if value:
                producer.flush(PATIENCE_S)
            self._insist(end)

    def _insist(self, step: Callable[..., object]) -> None:
        while True:
            try:
                step()
                return
            except confluent_kafka.KafkaException as error:
                if not error.args[0].retriable():
                    raise


def committed(cluster: RunningCluster, topic: str, partition: int) -> list[str]:
    """Return what read_committed consumers see, once no transaction is open."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    here = confluent_kafka.TopicPartition(topic, partition, 0)

    def ends() -> bool:
        _, stable = consumer.get_watermark_offsets(here, PATIENCE_S)
        return bool(stable)

    until(PATIENCE_S, "the partition has an end", ends)
    consumer.assign([here])
    found: list[str] = []
    while True:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "the end does not arrive"
        error = message.error()
        if error is not None:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            break
        found.append((message.value() or b"").decode())
    consumer.close()
    return found


def committed_offset(cluster: RunningCluster, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    [found] = consumer.committed([confluent_kafka.TopicPartition(topic, 0)], PATIENCE_S)
    consumer.close()
    return int(found.offset)


def check(cluster: RunningCluster, topic: str, names: list[str], numbers: int) -> None:
    for partition in range(PARTITIONS):

        def all_there() -> bool:
            return len(committed(cluster, topic, partition)) >= numbers * len(names)  # noqa: B023

        until(PATIENCE_S, f"all of {topic}-{partition} is committed", all_there)
        seen = committed(cluster, topic, partition)
        for name in names:
            own = [value for value in seen if value.startswith(name)]
            assert own == [f"{name}-{number}" for number in range(numbers)]
        assert len(seen) == numbers * len(names)
    assert committed_offset(cluster, topic) == numbers - 1


def test_a_transaction_spans_brokers(start_over_either: StartCluster) -> None:
    with start_over_either() as cluster:
        created(cluster, "t")
        names = [f"tx{number}" for number in range(3)]
        copiers = [Copier(cluster, "t", name) for name in names]
        assert len({coordinator(cluster, name) for name in names}) > 1, "choose other names"
        assert len({leader(cluster, "t", partition) for partition in range(PARTITIONS)}) == 3
        for number in range(6):
            for copier in copiers:
                copier.copy(number)
        check(cluster, "t", names, 6)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as made:
        yield made


@pytest.mark.parametrize("victim", ["coordinator", "leader", "group"])
def test_transactions_survive_a_killed_broker(
    start_over_either: StartCluster, pool: ThreadPoolExecutor, victim: str
) -> None:
    numbers = 30
    with start_over_either("--restart") as cluster:
        created(cluster, "t")
        names = ["tx0", "tx1", "tx2"]
        copiers = [Copier(cluster, "t", name) for name in names]

        def copy(copier: Copier) -> None:
            for number in range(numbers):
                copier.copy(number)

        copying = [pool.submit(copy, copier) for copier in copiers]
        for at in (5, 15):
            until(PATIENCE_S, "some are copied", lambda: copiers[0].done >= at or copying[0].done())  # noqa: B023
            cluster.whole(3, PATIENCE_S)
            node = {
                "coordinator": lambda: coordinator(cluster, "tx0"),
                "leader": lambda: leader(cluster, "t", 0),
                "group": lambda: leader(cluster, OFFSETS_TOPIC, group_partition(GROUP, 9)),
            }[victim]()
            before = cluster.process_id(node)
            cluster.signal(node, signal.SIGKILL)
            cluster.came_back(node, before)
        for each in copying:
            each.result(2 * PATIENCE_S)
        check(cluster, "t", names, numbers)
