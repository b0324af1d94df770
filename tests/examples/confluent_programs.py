"""Programs for confluent-kafka that produce and consume: those of its documentation, in our words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Program:
    """Program that prints what it finds. `source` is where the documentation has it."""

    name: str
    source: str
    text: str


PROGRAMS = [
    Program(
        "readme",
        "github.com/confluentinc/confluent-kafka-python/blob/master/README.md",
        """
from confluent_kafka import Consumer, KafkaError, Producer

p = Producer({"bootstrap.servers": BOOTSTRAP})

def delivery_report(err, msg):
    if err is not None:
        print("Message delivery failed: {}".format(err))
    else:
        print("Message delivered to {} [{}]".format(msg.topic(), msg.partition()))

for data in ["one", "two", "three"]:
    p.poll(0)
    p.produce(TOPIC, data.encode("utf-8"), callback=delivery_report)
p.flush()

c = Consumer({
    "bootstrap.servers": BOOTSTRAP,
    "group.id": GROUP,
    "default.topic.config": {"auto.offset.reset": "smallest"},
})
c.subscribe([TOPIC])
received = 0
while received < 3:
    msg = c.poll(1.0)
    if msg is None:
        continue
    if msg.error():
        if msg.error().code() == KafkaError._PARTITION_EOF:
            continue
        print(msg.error())
        break
    print("Received message: {}".format(msg.value().decode("utf-8")))
    received += 1
c.close()
""",
    ),
    Program(
        "lines",
        "github.com/confluentinc/confluent-kafka-python/blob/master/examples/producer.py",
        """
from confluent_kafka import Producer

p = Producer(**{"bootstrap.servers": BOOTSTRAP, "queue.buffering.max.messages": 3, "linger.ms": 50})
delivered = []

def delivery_callback(err, msg):
    delivered.append((err, msg.partition(), msg.offset(), msg.value()))

full = 0
for number in range(10):
    while True:
        try:
            p.produce(TOPIC, "line %d" % number, callback=delivery_callback)
            break
        except BufferError as problem:
            full += 1
            if full == 1:
                print(problem, len(p))
            p.poll(0.1)
print(p.flush(), len(p), full > 0)
for each in delivered:
    print(each)
""",
    ),
    Program(
        "ends-of-partitions",
        "github.com/confluentinc/confluent-kafka-python/blob/master/examples/consumer.py",
        """
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

p = Producer({"bootstrap.servers": BOOTSTRAP})
for number in range(4):
    p.produce(TOPIC, key="key", value=str(number), headers={"n": str(number), "none": None})
p.flush()

c = Consumer({
    "bootstrap.servers": BOOTSTRAP,
    "group.id": GROUP,
    "session.timeout.ms": 6000,
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
})

def print_assignment(consumer, partitions):
    print("Assignment:", partitions, consumer is c)

def print_revocation(consumer, partitions):
    print("Revoked:", partitions)

c.subscribe([TOPIC], on_assign=print_assignment, on_revoke=print_revocation)
try:
    while True:
        msg = c.poll(timeout=1.0)
        if msg is None:
            continue
        if msg.error():
            if msg.error().code() == KafkaError._PARTITION_EOF:
                print("%% %s [%d] reached end at offset %d" % (msg.topic(), msg.partition(), msg.offset()))
                break
            raise KafkaException(msg.error())
        print("%% %s [%d] at offset %d with key %s:" % (msg.topic(), msg.partition(), msg.offset(), msg.key()))
        print(msg.value(), msg.headers(), msg.timestamp()[0], msg.leader_epoch(), len(msg))
finally:
    c.close()
try:
    c.poll(0)
except RuntimeError as problem:
    print(problem)
""",
    ),
    Program(
        "seek",
        "github.com/confluentinc/confluent-kafka-python/blob/master/examples/seek_specific_offset_partition.py",
        """
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

p = Producer({"bootstrap.servers": BOOTSTRAP})
for number in range(6):
    p.produce(TOPIC, "message %d" % number, partition=0, timestamp=1000 + number)
p.flush()

c = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "auto.offset.reset": "earliest"})
start = TopicPartition(TOPIC, 0, 2)
c.assign([start])
print(c.assignment())
print(c.position([TopicPartition(TOPIC, 0)]))
for number in range(2):
    msg = c.poll(10)
    print(msg.offset(), msg.value(), msg.timestamp()[1])
print(c.position([TopicPartition(TOPIC, 0)]))
c.seek(TopicPartition(TOPIC, 0, OFFSET_BEGINNING))
print([msg.offset() for msg in c.consume(3, timeout=10)])
c.pause([start])
print(c.poll(0.3))
c.resume([start])
print([msg.offset() for msg in c.consume(10, timeout=1)])
c.seek(TopicPartition(TOPIC, 0, 5))
print(c.poll(10).value())
try:
    c.seek(TopicPartition(TOPIC, 99, 5))
except KafkaException as problem:
    print(problem.args[0].name())
for time in (1003, 9999):
    print(c.offsets_for_times([TopicPartition(TOPIC, 0, time)]))
c.unassign()
print(c.assignment(), c.poll(0.1))
c.close()
""",
    ),
    Program(
        "commits",
        "docs.confluent.io/kafka-clients/python/current/overview.html",
        """
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

p = Producer({"bootstrap.servers": BOOTSTRAP})
for number in range(10):
    p.produce(TOPIC, "message %d" % number)
p.flush()

def commit_completed(err, partitions):
    print("Committed", err, [(each.partition, each.offset) for each in partitions])

conf = {
    "bootstrap.servers": BOOTSTRAP,
    "group.id": GROUP,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "on_commit": commit_completed,
}
consumer = Consumer(conf)
consumer.subscribe([TOPIC])
try:
    consumer.commit(asynchronous=False)
except KafkaException as problem:
    print(problem.args[0].name())
count = 0
while count < 8:
    msg = consumer.poll(timeout=1.0)
    if msg is None:
        continue
    count += 1
    if count == 4:
        print([(each.partition, each.offset) for each in consumer.commit(asynchronous=False)])
    if count == 6:
        print([(each.partition, each.offset) for each in consumer.commit(message=msg, asynchronous=False)])
consumer.close()

consumer = Consumer({**conf, "enable.auto.commit": True, "enable.auto.offset.store": False})
consumer.subscribe([TOPIC])
left = []
while len(left) < 4:
    msg = consumer.poll(timeout=1.0)
    if msg is not None:
        left.append(msg.offset())
        if len(left) == 3:
            consumer.store_offsets(msg)
print(left)
consumer.close()
consumer = Consumer(conf)
print(consumer.committed([TopicPartition(TOPIC, 0)])[0].offset)
consumer.close()
""",
    ),
    Program(
        "cooperative",
        "docs.confluent.io/platform/current/clients/confluent-kafka-python/html/index.html",
        """
from confluent_kafka import Consumer, Producer, TopicPartition

p = Producer({"bootstrap.servers": BOOTSTRAP, "compression.type": "zstd", "acks": "all"})
for number in range(5):
    p.produce(TOPIC, key=str(number), value=None if number == 3 else "v")
print(p.flush(10))

def assigned(consumer, partitions):
    for partition in partitions:
        partition.offset = 1
    consumer.incremental_assign(partitions)
    print("assigned", [each.partition for each in partitions])

def revoked(consumer, partitions):
    print("revoked", [each.partition for each in partitions])
    consumer.incremental_unassign(partitions)

c = Consumer({
    "bootstrap.servers": BOOTSTRAP,
    "group.id": GROUP,
    "partition.assignment.strategy": "cooperative-sticky",
    "auto.offset.reset": "latest",
})
c.subscribe(["^" + TOPIC], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
seen = 0
while seen < 4:
    msg = c.poll(1.0)
    if msg is not None:
        print(msg.offset(), msg.key(), msg.value())
        seen += 1
print(c.assignment() == [TopicPartition(TOPIC, 0)], bool(c.memberid()))
c.close()
""",
    ),
]
