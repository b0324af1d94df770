"""Transactional methods of the adapters, as programs for the three libraries call them."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from kohort import NewTopic, OffsetAndMetadata, TopicPartition, blocking, client
from kohort.compat import aiokafka, confluent, kafka_python
from tests.interop.broker import Broker
from tests.interop.process import until
from tests.interop.settled import settled


@pytest.fixture
def name(any_broker: Broker) -> str:
    """The name of two topics, `NAME` with ten records and `NAME-copy`; and of a group and a transactional ID."""
    name = uuid.uuid4().hex
    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 1), NewTopic(f"{name}-copy", 1)])
    with blocking.Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        for number in range(10):
            producer.send(name, b"%d" % number)
    return name


COPIED = [b"%d" % number for number in range(10)]


def copies(broker: Broker, name: str) -> list[bytes | None]:
    """What a read_committed consumer finds in the copy."""
    asyncio.run(settled(broker.bootstrap, blocking_partition(f"{name}-copy")))
    reading = blocking.Consumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed")
    with reading as consumer:
        here = blocking_partition(f"{name}-copy")
        consumer.assign([here])
        consumer.seek(here, 0)
        end, found = consumer.end_offsets([here])[here], []
        while consumer.position(here) < end:
            found += [record.value for record in consumer.poll(timeout=0.1)]
        return found


def blocking_partition(topic: str) -> kafka_python.TopicPartition:
    return kafka_python.TopicPartition(topic, 0)


def committed(broker: Broker, name: str) -> int | None:
    with blocking.Consumer(bootstrap_servers=broker.bootstrap, group_id=name) as consumer:
        [found] = consumer.committed([blocking_partition(name)]).values()
        return None if found is None else found.offset


def test_a_program_for_confluent_kafka_copies_exactly_once(any_broker: Broker, name: str) -> None:
    servers = {"bootstrap.servers": any_broker.bootstrap}
    consumer = confluent.Consumer(
        {**servers, "group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    producer = confluent.Producer({**servers, "transactional.id": name, "transaction.timeout.ms": 30_000})
    delivered: list[int | None] = []
    try:
        consumer.subscribe([name])
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(f"{name}-copy", b"undone")
        producer.abort_transaction(30)
        messages: list[confluent.Message] = []
        while len(messages) < 10:
            message = consumer.poll(30.0)
            assert message is not None and message.error() is None
            messages.append(message)
        producer.begin_transaction()
        for message in messages:
            producer.produce(
                f"{name}-copy", message.value(), on_delivery=lambda _, told: delivered.append(told.offset())
            )
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        assert len(delivered) == 10
    finally:
        consumer.close()
        producer.close()
    assert copies(any_broker, name) == COPIED
    assert committed(any_broker, name) == 10


def test_errors_of_confluent_kafka_say_whether_to_abort_or_to_give_up(any_broker: Broker, name: str) -> None:
    def producer() -> confluent.Producer:
        return confluent.Producer({"bootstrap.servers": any_broker.bootstrap, "transactional.id": name})

    zombie, heir = producer(), producer()
    with pytest.raises(confluent.KafkaException) as early:
        zombie.begin_transaction()
    assert early.value.args[0].code() == confluent.KafkaError._STATE
    zombie.init_transactions(30)
    zombie.begin_transaction()
    with pytest.raises(confluent.KafkaException) as large:
        zombie.produce(f"{name}-copy", bytes(2_000_000))
    assert large.value.args[0].code() == confluent.KafkaError.MSG_SIZE_TOO_LARGE
    with pytest.raises(confluent.KafkaException) as lost:
        zombie.commit_transaction(30)
    assert lost.value.args[0].txn_requires_abort() and not lost.value.args[0].fatal()
    zombie.abort_transaction(30)
    zombie.begin_transaction()
    zombie.produce(f"{name}-copy", b"of the zombie")
    zombie.flush(30)
    heir.init_transactions(30)
    with pytest.raises(confluent.KafkaException) as fenced:
        zombie.commit_transaction(30)
    error = fenced.value.args[0]
    assert (error.code(), error.fatal(), error.txn_requires_abort()) == (confluent.KafkaError._FENCED, True, False)
    zombie.close()
    heir.close()
    assert copies(any_broker, name) == []


def test_a_program_for_kafka_python_copies_exactly_once(any_broker: Broker, name: str) -> None:
    at = any_broker.bootstrap
    reading = kafka_python.KafkaConsumer(
        name, bootstrap_servers=at, group_id=name, auto_offset_reset="earliest", enable_auto_commit=False
    )
    with reading as consumer, kafka_python.KafkaProducer(bootstrap_servers=at, transactional_id=name) as producer:
        producer.init_transactions()
        producer.init_transactions()  # kafka-python allows it
        producer.begin_transaction()
        producer.send(f"{name}-copy", b"undone")
        producer.abort_transaction()
        found: list[kafka_python.ConsumerRecord] = []
        while len(found) < 10:
            for records in consumer.poll(timeout_ms=30_000).values():
                found += records
        producer.begin_transaction()
        for record in found:
            producer.send(f"{name}-copy", record.value)
        offsets: dict[client.TopicPartition, kafka_python.OffsetAndMetadata] = {
            blocking_partition(name): kafka_python.OffsetAndMetadata(found[-1].offset + 1, "", -1)
        }
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.commit_transaction()
        with pytest.raises(kafka_python.errors.IllegalStateError):
            producer.commit_transaction()
        with kafka_python.KafkaProducer(bootstrap_servers=at, transactional_id=name) as heir:
            heir.init_transactions()
            producer.begin_transaction()
            producer.send(f"{name}-copy", b"of the zombie")
            with pytest.raises(
                (kafka_python.errors.ProducerFencedError, kafka_python.errors.TransactionAbortableError)
            ):
                producer.commit_transaction()
    assert copies(any_broker, name) == COPIED
    assert committed(any_broker, name) == 10


def test_kafka_python_commits_offsets_of_a_static_member(any_broker: Broker, name: str) -> None:
    at = any_broker.bootstrap
    reading = kafka_python.KafkaConsumer(
        name,
        bootstrap_servers=at,
        group_id=name,
        group_instance_id="a",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    with reading as consumer, kafka_python.KafkaProducer(bootstrap_servers=at, transactional_id=name) as producer:
        while not consumer.poll(timeout_ms=30_000):
            pass
        group = consumer.group_metadata()
        offsets: dict[client.TopicPartition, kafka_python.OffsetAndMetadata] = {
            blocking_partition(name): kafka_python.OffsetAndMetadata(5, "", -1)
        }
        assert group.group_instance_id == "a"
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(kafka_python.errors.TransactionAbortableError):
            producer.send_offsets_to_transaction(offsets, group._replace(group_instance_id="b"))
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction(offsets, group)
        producer.commit_transaction()
    assert committed(any_broker, name) == 5


async def test_a_program_for_aiokafka_copies_exactly_once(any_broker: Broker, name: str) -> None:
    at = any_broker.bootstrap
    reading = aiokafka.AIOKafkaConsumer(
        name, bootstrap_servers=at, group_id=name, auto_offset_reset="earliest", enable_auto_commit=False
    )
    async with reading as consumer, aiokafka.AIOKafkaProducer(bootstrap_servers=at, transactional_id=name) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(f"{name}-copy", b"undone")
                raise ZeroDivisionError
        found = [await consumer.getone() for _ in range(10)]
        async with producer.transaction():
            for record in found:
                await producer.send(f"{name}-copy", record.value)
            await producer.send_offsets_to_transaction({aiokafka.TopicPartition(name, 0): 10}, name)
        with pytest.raises(aiokafka.errors.IllegalOperation):
            await producer.commit_transaction()
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=at, transactional_id=name):
            with pytest.raises(aiokafka.errors.ProducerFenced):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({aiokafka.TopicPartition(name, 0): 11}, name)
    assert await asyncio.to_thread(copies, any_broker, name) == COPIED
    assert await asyncio.to_thread(committed, any_broker, name) == 10


def test_an_offset_that_a_transaction_may_change_is_an_error_if_it_must_be_stable(
    any_broker: Broker, name: str
) -> None:
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    asked = [confluent.admin.ConsumerGroupTopicPartitions(name)]
    admin = confluent.admin.AdminClient({"bootstrap.servers": any_broker.bootstrap})

    def found(*, require_stable: bool) -> list[tuple[int, int, str | None]]:
        [answer] = admin.list_consumer_group_offsets(asked, require_stable=require_stable).values()
        listed = answer.result(20).topic_partitions or []
        return [(one.partition, one.offset, None if one.error is None else one.error.name()) for one in listed]

    with blocking.Admin(bootstrap_servers=any_broker.bootstrap) as kohort_admin:
        kohort_admin.create_partitions(name, 2)
        with blocking.Producer(bootstrap_servers=any_broker.bootstrap, transactional_id=name) as producer:
            producer.init_transactions()
            with producer.transaction() as transaction:
                transaction.send_offsets({first: 3, second: 9}, name)
            until(20, "committed", lambda: found(require_stable=True) == [(0, 3, None), (1, 9, None)])
            producer.begin_transaction()
            producer.send_offsets_to_transaction({first: 5}, name)
            assert found(require_stable=False) == [(0, 3, None), (1, 9, None)]
            assert found(require_stable=True) == [(0, -1001, "UNSTABLE_OFFSET_COMMIT"), (1, 9, None)]
            assert kohort_admin.group_offsets(name, [first])[first] == OffsetAndMetadata(3)
            with ThreadPoolExecutor(1) as pool:
                waits = pool.submit(kohort_admin.group_offsets, name, [first], require_stable=True)
                producer.commit_transaction()
                assert waits.result(20)[first] == OffsetAndMetadata(5)
