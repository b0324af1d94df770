"""Programs for confluent-kafka that administer a cluster, or ask about it, as `confluent_programs.py`."""

from __future__ import annotations

from tests.examples.confluent_programs import Program

PROGRAMS = [
    Program(
        "context-managers",
        "github.com/confluentinc/confluent-kafka-python/blob/master/examples/context_manager_example.py",
        """
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

with AdminClient({"bootstrap.servers": BOOTSTRAP}) as admin:
    for attempt in range(2):
        for name, future in admin.create_topics([NewTopic(TOPIC + "-2", num_partitions=1)]).items():
            try:
                print(name, future.result())
            except KafkaException as problem:
                print(problem.args[0].name(), problem.args[0].code())
    admin.poll(timeout=0.1)

with Producer({"bootstrap.servers": BOOTSTRAP}) as producer:
    def delivered(err, msg):
        print(err, msg.topic(), msg.partition(), msg.offset(), msg.key(), msg.value(), msg.latency() > 0)
    for i in range(5):
        producer.produce(TOPIC + "-2", key=f"key-{i}", value=f"Message {i}".encode(), callback=delivered)
    producer.flush()

with Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "auto.offset.reset": "earliest"}) as consumer:
    consumer.subscribe([TOPIC + "-2"])
    seen = 0
    while seen < 5:
        msg = consumer.poll(timeout=1.0)
        if msg is None:
            continue
        print(msg.key().decode(), msg.value().decode(), msg.partition(), msg.offset())
        seen += 1
""",
    ),
    Program(
        "lag",
        "github.com/confluentinc/confluent-kafka-python/blob/master/examples/get_watermark_offsets.py",
        """
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Producer, TopicPartition

p = Producer({"bootstrap.servers": BOOTSTRAP})
for number in range(7):
    p.produce(TOPIC, str(number), partition=0)
p.flush()

consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": GROUP})
for committed_offset in (None, 3):
    if committed_offset is not None:
        print(consumer.commit(offsets=[TopicPartition(TOPIC, 0, committed_offset)], asynchronous=False))
    metadata = consumer.list_topics(TOPIC, timeout=10)
    if metadata.topics[TOPIC].error is not None:
        raise KafkaException(metadata.topics[TOPIC].error)
    partitions = [TopicPartition(TOPIC, p) for p in metadata.topics[TOPIC].partitions]
    for partition in consumer.committed(partitions, timeout=10):
        lo, hi = consumer.get_watermark_offsets(partition, timeout=10, cached=False)
        offset = "-" if partition.offset == OFFSET_INVALID else "%d" % partition.offset
        lag = hi - lo if partition.offset < 0 else hi - partition.offset
        print("%-50s  %9s  %9s" % ("{} [{}]".format(partition.topic, partition.partition), offset, lag))
print(len(metadata.brokers), metadata.topics, metadata.topics[TOPIC].partitions[0].replicas)
consumer.close()
""",
    ),
    Program(
        "admin",
        "github.com/confluentinc/confluent-kafka-python/blob/master/examples/adminapi.py",
        """
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

a = AdminClient({"bootstrap.servers": BOOTSTRAP})
new = [NewTopic(TOPIC + suffix, num_partitions=2, replication_factor=1) for suffix in ("-a", "-b")]
for topic, f in a.create_topics(new).items():
    f.result()
    print("Topic {} created".format(topic))
for topic, f in a.create_partitions([NewPartitions(TOPIC + "-a", 4)]).items():
    print(topic, f.result())
for topic, f in a.create_partitions([NewPartitions(TOPIC + "-none", 4)]).items():
    try:
        f.result()
    except KafkaException as e:
        print(e.args[0].name())
resource = ConfigResource("topic", TOPIC + "-a")
resource.add_incremental_config(ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET))
for res, f in a.incremental_alter_configs([resource]).items():
    print(res.name, f.result())
for res, f in a.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, TOPIC + "-a")]).items():
    config = f.result()["retention.ms"]
    print(res.name, config, config.source, config.is_default, config.is_read_only)
md = a.list_topics(timeout=10)
for topic in sorted(md.topics):
    if topic.startswith(TOPIC):
        print(topic, len(md.topics[topic].partitions), sorted(md.topics[topic].partitions))
for topic, f in a.delete_topics([TOPIC + "-a", TOPIC + "-b"]).items():
    print(topic, f.result())
print([topic for topic in sorted(a.list_topics(timeout=10).topics) if topic.startswith(TOPIC + "-")])
""",
    ),
    Program(
        "groups",
        "github.com/confluentinc/confluent-kafka-python/blob/master/examples/adminapi.py",
        """
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, IsolationLevel
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

p = Producer({"bootstrap.servers": BOOTSTRAP})
for number in range(5):
    p.produce(TOPIC, "message %d" % number, timestamp=1000 + 1000 * number)
p.flush()
a = AdminClient({"bootstrap.servers": BOOTSTRAP})
c = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": GROUP, "auto.offset.reset": "earliest"})
c.subscribe([TOPIC])
while c.poll(1.0) is None:
    pass

def show(group):
    print(group.group_id, group.state, group.type, group.is_simple_consumer_group, group.partition_assignor)
    for member in group.members:
        print(member.client_id == "", member.host, member.group_instance_id, member.member_id == c.memberid())
        print([(each.topic, each.partition) for each in member.assignment.topic_partitions])

for group, f in a.describe_consumer_groups([GROUP]).items():
    show(f.result())
found = a.list_consumer_groups(states={ConsumerGroupState.STABLE}).result()
print([(each.state, each.type) for each in found.valid if each.group_id == GROUP], found.errors)
c.close()
for group, f in a.describe_consumer_groups([GROUP]).items():
    show(f.result())

wanted = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 3)])
for group, f in a.alter_consumer_group_offsets([wanted]).items():
    print(group, [(each.partition, each.offset, each.error) for each in f.result().topic_partitions])
for group, f in a.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).items():
    print(f.result().group_id, [(each.topic, each.partition, each.offset) for each in f.result().topic_partitions])
partition = TopicPartition(TOPIC, 0)
for spec in OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.for_timestamp(2500), OffsetSpec.for_timestamp(9999):
    for at, f in a.list_offsets({partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED).items():
        print(at.topic, at.partition, f.result().offset, f.result().timestamp)
for at, f in a.delete_records([TopicPartition(TOPIC, 0, 2)]).items():
    print(at.topic, at.offset, f.result().low_watermark)
cluster = a.describe_cluster().result()
print(len(cluster.nodes), cluster.controller.id == cluster.nodes[0].id, cluster.nodes[0].id_string)
for group, f in a.delete_consumer_groups([GROUP]).items():
    print(group, f.result())
print([each for each in a.list_consumer_groups().result().valid if each.group_id == GROUP])
""",
    ),
]
