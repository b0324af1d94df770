"""Programs after the other clients' documentation that administer topics and groups."""

from __future__ import annotations

from tests.examples.programs import Program

OF_KAFKA_PYTHON = [
    Program(
        "failures",
        "https://kafka-python.readthedocs.io/en/master/high_level.html#kafkaproducer",
        """
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError, MessageSizeTooLargeError

name = TOPIC + "-small"
with KafkaAdminClient(bootstrap_servers=BOOTSTRAP) as admin:
    configs = {"max.message.bytes": "1000"}
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1, "configs": configs}})

producer = KafkaProducer(bootstrap_servers=[BOOTSTRAP])
future = producer.send(name, b"x" * 5000)
future.add_callback(lambda metadata: print("written"))
future.add_errback(lambda error: print("errback", type(error).__name__))
producer.flush()
print(future.is_done, future.succeeded(), future.failed(), future.value, future.retriable())
try:
    future.get(timeout=10)
except KafkaError as error:
    print(type(error).__name__, isinstance(error, MessageSizeTooLargeError), error.errno)

producer = KafkaProducer(bootstrap_servers=[BOOTSTRAP])  # that of the library sends nothing after a failure
for number in range(3):
    producer.send(TOPIC, b"%d" % number)
producer.close()

# a record that is not processed is not committed
try:
    with KafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest") as consumer:
        for message in consumer:
            raise OSError("not processed")
except OSError as error:
    print(error)
with KafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest") as consumer:
    print(next(consumer).value)
with KafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest") as consumer:
    print(next(consumer).value, consumer.committed(TopicPartition(TOPIC, 0)))
""",
    ),
    Program(
        "high-level-admin",
        "https://kafka-python.readthedocs.io/en/master/high_level.html#kafkaadminclient",
        """
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

admin = KafkaAdminClient(bootstrap_servers=[BOOTSTRAP])
# topics with defaults, and with details
admin.create_topics([TOPIC + "-1"], timeout_ms=None, validate_only=False)
new_topics = {TOPIC + "-2": {"num_partitions": 1, "replication_factor": 1, "configs": {"max.message.bytes": "1000000"}}}
admin.create_topics(new_topics, timeout_ms=None, validate_only=False)
print([topic.removeprefix(TOPIC) for topic in sorted(admin.list_topics()) if topic.startswith(TOPIC)])
admin.delete_topics([TOPIC + "-1", TOPIC + "-2"])

with KafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
    producer.send(TOPIC, b"1")
with KafkaConsumer(TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest") as consumer:
    print(next(consumer).value)
print([(group["group_id"], group["group_state"]) for group in admin.list_groups() if group["group_id"] == GROUP])
described = admin.describe_groups([GROUP])
print(list(described), described[GROUP]["group_state"], described[GROUP]["members"])
print(admin.list_group_offsets([GROUP]))
""",
    ),
    Program(
        "admin",
        "https://kafka-python.readthedocs.io/en/master/apidoc/KafkaAdminClient.html",
        """
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

admin = KafkaAdminClient(bootstrap_servers=BOOTSTRAP, client_id="test")
name = TOPIC + "-new"
made = admin.create_topics([NewTopic(name=name, num_partitions=2, replication_factor=1)], validate_only=False)
print([(topic["name"], topic["error_code"]) for topic in made["topics"]])
try:
    admin.create_topics(new_topics=[NewTopic(name=name, num_partitions=2, replication_factor=1)])
except TopicAlreadyExistsError as error:
    print(error.errno, error.retriable, isinstance(error, KafkaError), str(error)[:35])
admin.create_topics({name + "er": {"num_partitions": 1, "replication_factor": 1, "configs": {"retention.ms": "1000"}}})
print([topic for topic in sorted(admin.list_topics()) if topic.startswith(name)])
admin.create_partitions({name: 3})
(topic,) = admin.describe_topics([name])
print(topic["name"], topic["error_code"], topic["is_internal"])
print(sorted((part["partition_index"], part["leader_id"], part["replica_nodes"]) for part in topic["partitions"]))
print(len(admin.describe_cluster()["brokers"]))

KafkaProducer(bootstrap_servers=BOOTSTRAP).send(name, b"1", partition=0).get(timeout=10)
consumer = KafkaConsumer(name, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest")
print(next(consumer).value)
consumer.close()
print([group["group_state"] for group in admin.list_groups() if group["group_id"] == GROUP])
print(admin.describe_groups([GROUP])[GROUP]["group_state"])
print(admin.list_group_offsets(GROUP)[GROUP][TopicPartition(name, 0)].offset)
print(admin.delete_groups([GROUP])[GROUP])
print([topic["error_code"] for topic in admin.delete_topics([name, name + "er"])["topics"]])
try:
    admin.delete_topics([name])
except UnknownTopicOrPartitionError as error:
    print(error.errno)
admin.close()
""",
    ),
]

OF_AIOKAFKA = [
    Program(
        "admin",
        "https://aiokafka.readthedocs.io/en/stable/api.html#aiokafka.admin.AIOKafkaAdminClient",
        """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic


async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    name = TOPIC + "-new"
    for _ in range(2):
        made = await admin.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "60000"})])
        print([tuple(error)[:2] for error in made.topic_errors])
    await admin.create_partitions({name: NewPartitions(2)})
    (topic,) = await admin.describe_topics([name])
    print(topic["topic"], topic["error_code"], topic["is_internal"])
    print(sorted((partition["partition"], partition["replicas"]) for partition in topic["partitions"]))
    print(name in await admin.list_topics(), len((await admin.describe_cluster())["brokers"]))
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        await producer.send_and_wait(name, b"1", partition=0)
    consumer = AIOKafkaConsumer(name, bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest")
    async with consumer:
        print((await consumer.getone()).value)
    print((GROUP, "consumer") in await admin.list_consumer_groups())
    print((await admin.list_consumer_group_offsets(GROUP))[TopicPartition(name, 0)])
    gone = await admin.delete_topics([name, "no-such-topic"])
    print([tuple(error) for error in gone.topic_error_codes])
    await admin.close()


asyncio.run(main())
""",
    ),
]
