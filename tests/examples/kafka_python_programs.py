"""Programs after the examples in kafka-python's documentation."""

from __future__ import annotations

from tests.examples.programs import Program

README = "https://kafka-python.readthedocs.io/en/master/index.html"
HIGH_LEVEL = "https://kafka-python.readthedocs.io/en/master/high_level.html"
PRODUCER = "https://kafka-python.readthedocs.io/en/master/apidoc/KafkaProducer.html"
EXAMPLE = "example.py of the repository dpkp/kafka-python"
CONSUMER = "https://kafka-python.readthedocs.io/en/master/apidoc/KafkaConsumer.html"

PROGRAMS = [
    Program(
        "readme-producer",
        f"{README}#kafkaproducer",
        """
import json
from kafka import KafkaProducer

producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
for _ in range(100):
    producer.send(TOPIC, b"some_message_bytes")

# wait for one record
future = producer.send(TOPIC, b"another_message")
result = future.get(timeout=60)
print(result.topic, result.partition, result.offset, result.topic_partition, result.serialized_value_size)
print(future.is_done, future.succeeded(), future.failed(), future.value == result, future.exception)

# wait for all of them
producer.flush()

# a key chooses the partition
print(producer.send(TOPIC, key=b"foo", value=b"bar").get(timeout=60).serialized_key_size)

# headers
metadata = producer.send(TOPIC, value=b"c29tZQ", headers=[("content-encoding", b"base64")]).get(timeout=60)
print(metadata.offset, metadata.serialized_header_size, metadata.checksum)

# serializers, and compression
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, value_serializer=lambda v: json.dumps(v).encode("utf-8"))
print(producer.send(TOPIC, {"foo": "bar"}).get(timeout=60).serialized_value_size)
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, key_serializer=str.encode)
print(producer.send(TOPIC, key="ping", value=b"1234").get(timeout=60).serialized_key_size)
producer = KafkaProducer(bootstrap_servers=BOOTSTRAP, compression_type="gzip")
for i in range(1000):
    producer.send(TOPIC, b"msg %d" % i)
producer.flush()
print(producer.send(TOPIC, b"last").get(timeout=60).offset, producer.partitions_for(TOPIC))
""",
    ),
    Program(
        "readme-consumer",
        f"{README}#kafkaconsumer",
        """
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

producer = KafkaProducer(bootstrap_servers=[BOOTSTRAP])
for number in range(5):
    producer.send(TOPIC, b"%d" % number, key=b"k" * number or None, timestamp_ms=1_700_000_000_000 + number)
producer.send(TOPIC, key=b"tombstone", headers=[("h", b"1"), ("h", b"2")], timestamp_ms=1_700_000_000_009)
producer.close()

# join a group
consumer = KafkaConsumer(TOPIC, bootstrap_servers=[BOOTSTRAP], group_id=GROUP, auto_offset_reset="earliest")
for msg in consumer:
    print(msg)
    if msg.value is None:
        break
consumer.close()

# assign one partition by hand
consumer = KafkaConsumer(bootstrap_servers=[BOOTSTRAP], auto_offset_reset="earliest")
consumer.assign([TopicPartition(TOPIC, 0)])
msg = next(consumer)
print(msg.offset, msg.value, msg.key, msg.headers, msg.timestamp_type)
print(consumer.assignment(), consumer.subscription(), TopicPartition(TOPIC, 0))
consumer.close()
""",
    ),
    Program(
        "readme-deserializers",
        f"{README}#kafkaconsumer",
        """
from kafka import DefaultSerializer, IsolationLevel, JsonSerializer, KafkaConsumer, KafkaProducer

producer = KafkaProducer(
    bootstrap_servers=BOOTSTRAP, key_serializer=DefaultSerializer(), value_serializer=JsonSerializer()
)
for number in range(3):
    producer.send(TOPIC, key=f"key-{number}", value={"foo": number}, headers=[("content-encoding", b"base64")])
producer.send(TOPIC, key="deleted", value=None)
producer.flush()

consumer = KafkaConsumer(
    bootstrap_servers=BOOTSTRAP,
    auto_offset_reset="earliest",
    consumer_timeout_ms=1000,
    isolation_level=IsolationLevel.READ_COMMITTED,
    key_deserializer=DefaultSerializer(),
    value_deserializer=JsonSerializer(),
)
consumer.subscribe([TOPIC])
seen = 0
while seen < 4:  # the iteration ends after a second without a record
    for msg in consumer:
        assert isinstance(msg.value, dict) or msg.key == "deleted"
        print(msg.key, msg.value, msg.headers, msg.serialized_key_size, msg.serialized_value_size)
        seen += 1
print("end", bool(consumer.metrics()), bool(producer.metrics()))
consumer = KafkaConsumer(
    TOPIC, bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", value_deserializer=lambda data: (data or b"null")
)
print([next(consumer).value for _ in range(4)])
print(list(IsolationLevel), IsolationLevel.READ_COMMITTED == 1)
""",
    ),
    Program(
        "high-level-consumer",
        f"{HIGH_LEVEL}#kafkaconsumer",
        """
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

with KafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
    for number in range(5):
        producer.send(TOPIC, b"%d" % number)

# commits by hand: the next offset to read
consumer = KafkaConsumer(
    TOPIC, group_id=GROUP, enable_auto_commit=False, bootstrap_servers=[BOOTSTRAP], auto_offset_reset="earliest"
)
for message in consumer:
    print("%s:%d:%d: key=%s value=%s" % (message.topic, message.partition, message.offset, message.key, message.value))
    tp = TopicPartition(message.topic, message.partition)
    consumer.commit({tp: OffsetAndMetadata(message.offset + 1, "", -1)})
    if message.offset == 2:
        break
print(consumer.committed(tp))
consumer.close()

# the same group continues, and ends after a second without a record
consumer = KafkaConsumer(TOPIC, group_id=GROUP, bootstrap_servers=[BOOTSTRAP], consumer_timeout_ms=1000)
seen = []
while len(seen) < 2:
    seen.extend(message.value for message in consumer)
print(seen)
consumer.close()

# the earliest records, without commits
consumer = KafkaConsumer(
    TOPIC, bootstrap_servers=[BOOTSTRAP], auto_offset_reset="earliest", enable_auto_commit=False
)
print(next(consumer).offset)
consumer.close()

# a pattern
consumer = KafkaConsumer(bootstrap_servers=[BOOTSTRAP], group_id=GROUP + "-pattern", auto_offset_reset="earliest")
consumer.subscribe(pattern="^" + TOPIC[:20])
print(next(consumer).value, consumer.subscription() == {TOPIC})
consumer.close()
""",
    ),
    Program(
        "high-level-producer",
        f"{HIGH_LEVEL}#kafkaproducer",
        """
from kafka import DefaultSerializer, JsonSerializer, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

producer = KafkaProducer(bootstrap_servers=[BOOTSTRAP])

# asynchronous by default
future = producer.send(TOPIC, b"raw_bytes")

# wait for it
try:
    record_metadata = future.get(timeout=10)
except KafkaError as error:
    print("failed", error)
    raise
print(record_metadata.topic, record_metadata.partition, record_metadata.offset)

producer.send(TOPIC, key=b"foo", value=b"bar").get(timeout=10)
for serializer, value in (
    (DefaultSerializer(), "value_str"),
    (DefaultSerializer("utf-16"), "\u61c2\u4e0d\u61c2"),
    (JsonSerializer(), {"key": "value"}),
):
    producer = KafkaProducer(bootstrap_servers=[BOOTSTRAP], value_serializer=serializer)
    print(producer.send(TOPIC, value).get(timeout=10).serialized_value_size)
consumer = KafkaConsumer(
    TOPIC, bootstrap_servers=[BOOTSTRAP], auto_offset_reset="earliest", value_deserializer=lambda data: data
)
print([next(consumer).value for _ in range(5)])


def on_send_success(record_metadata):
    print("success", record_metadata.topic, record_metadata.partition, record_metadata.offset)


def on_send_error(excp):
    print("error", type(excp).__name__, isinstance(excp, KafkaError))


# several attempts, and callbacks
producer = KafkaProducer(bootstrap_servers=[BOOTSTRAP], retries=5)
producer.send(TOPIC, b"raw_bytes").add_callback(on_send_success).add_errback(on_send_error)
producer.flush()
print(producer.partitions_for(TOPIC))
""",
    ),
    Program(
        "producer-and-consumer-errors",
        f"{PRODUCER}#kafka.KafkaProducer.send",
        """
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import IllegalStateError, KafkaConfigurationError, MessageSizeTooLargeError

producer = KafkaProducer(bootstrap_servers=[BOOTSTRAP])
partition = TopicPartition(TOPIC, 0)
consumer = KafkaConsumer(bootstrap_servers=[BOOTSTRAP])


def refused(action):
    try:
        action()
    except (IllegalStateError, KafkaConfigurationError, MessageSizeTooLargeError, ValueError, TypeError) as error:
        kinds = (IllegalStateError, KafkaConfigurationError, MessageSizeTooLargeError, ValueError, TypeError)
        print(*(kind.__name__ for kind in kinds if isinstance(error, kind)))


refused(lambda: producer.send(TOPIC, b"x" * 2_000_000))
refused(lambda: producer.send(TOPIC, "text"))
refused(lambda: producer.send(TOPIC, b"x", headers=[("a", "text")]))
refused(lambda: producer.send(TOPIC, b"x", partition=7))
refused(lambda: producer.send(TOPIC, b"x", partition=-1))
refused(lambda: consumer.position(partition))
refused(lambda: consumer.seek(partition, 0))
refused(lambda: consumer.commit())
refused(lambda: consumer.subscribe([TOPIC], listener=object()))
consumer.close()
producer.close()
""",
    ),
    Program(
        "example-threads",
        EXAMPLE,
        """
import threading
from kafka import KafkaConsumer, KafkaProducer


class Producer(threading.Thread):
    def __init__(self):
        super().__init__()
        self.stop_event = threading.Event()

    def run(self):
        producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
        while not self.stop_event.wait(0.05):
            producer.send(TOPIC, b"test")
            producer.send(TOPIC, b"\\xc2Hola, mundo!")
        producer.close()


class Consumer(threading.Thread):
    def __init__(self):
        super().__init__()
        self.seen = []

    def run(self):
        consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, auto_offset_reset="earliest", consumer_timeout_ms=1000)
        consumer.subscribe([TOPIC])
        while len(self.seen) < 6:
            for message in consumer:
                self.seen.append(message.value)
                if len(self.seen) == 6:
                    break
        consumer.close()


producer, consumer = Producer(), Consumer()
producer.start()
consumer.start()
consumer.join()
producer.stop_event.set()
producer.join()
print(consumer.seen)
""",
    ),
    Program(
        "consumer-poll-and-seek",
        f"{CONSUMER}#kafka.KafkaConsumer.poll",
        """
import time
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
began = int(time.time() * 1000)
for number in range(6):
    producer.send(TOPIC, b"%d" % number, partition=number % 2, timestamp_ms=began + number)
producer.close()

zero, one = partitions = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
consumer = KafkaConsumer(bootstrap_servers=BOOTSTRAP, enable_auto_commit=False)
consumer.assign(partitions)
consumer.seek_to_beginning()
found = {}
while sum(map(len, found.values())) < 6:
    for partition, records in consumer.poll(timeout_ms=500).items():
        found.setdefault(partition, []).extend(record.value for record in records)
print(found[zero], found[one], consumer.poll())
print([consumer.position(partition) for partition in partitions], consumer.highwater(zero))
print(consumer.beginning_offsets(partitions) == {zero: 0, one: 0}, consumer.end_offsets(partitions)[one])
found = consumer.offsets_for_times({zero: began + 1, one: began + 3_600_000})
print(found[zero].offset, found[zero].timestamp - began, found[one])
consumer.seek(zero, 2)
consumer.pause(one)
print(consumer.poll(timeout_ms=10_000, max_records=1)[zero][0].value, consumer.paused())
consumer.resume(one)
consumer.seek_to_end(zero)
print(consumer.position(zero), consumer.paused(), consumer.partitions_for_topic(TOPIC), TOPIC in consumer.topics())
consumer.close()
""",
        partitions=2,
    ),
    Program(
        "consumer-listener-and-commits",
        f"{CONSUMER}#kafka.KafkaConsumer.subscribe",
        """
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

producer = KafkaProducer(bootstrap_servers=BOOTSTRAP)
for number in range(4):
    producer.send(TOPIC, b"%d" % number)
producer.flush()


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        if revoked:
            print("revoked", sorted(revoked))

    def on_partitions_assigned(self, assigned):
        if assigned:
            print("assigned", sorted(assigned))


partition = TopicPartition(TOPIC, 0)
consumer = KafkaConsumer(
    bootstrap_servers=BOOTSTRAP, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
)
consumer.subscribe([TOPIC], listener=Listener())
seen = []
while len(seen) < 4:
    for records in consumer.poll(timeout_ms=1000).values():
        seen.extend(records)
print(len(seen), consumer.committed(partition))
consumer.commit({partition: OffsetAndMetadata(2, "half", -1)})
print(consumer.committed(partition), consumer.committed(partition, metadata=True))
answers = []
future = consumer.commit_async(callback=lambda *answer: answers.append(answer))
while not (future.is_done and answers):
    consumer.poll(timeout_ms=100)
print(answers[0][0][partition].offset, answers[0][1])
print(future.succeeded(), consumer.committed(partition))
print(consumer.subscription() == {TOPIC}, consumer.group_metadata().group_id == GROUP)
consumer.unsubscribe()
print(consumer.subscription(), consumer.assignment())
consumer.subscribe([TOPIC], listener=Listener())
while not consumer.assignment():
    consumer.poll(timeout_ms=100)
consumer.close()
""",
    ),
]
