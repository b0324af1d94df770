"""confluent-kafka: read with auto commit until the consumer has lost its partitions and has them again."""

import sys

from confluent_kafka import Consumer, TopicPartition

server, topic, group, client_id = sys.argv[1:]
consumer = Consumer(
    {
        "bootstrap.servers": server,
        "group.id": group,
        "client.id": client_id,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 60_000,
        "session.timeout.ms": 1_000,
        "heartbeat.interval.ms": 200,
        "partition.assignment.strategy": "cooperative-sticky",
    }
)
assigned: list[list[TopicPartition]] = []
consumer.subscribe([topic], on_assign=lambda _, partitions: assigned.append(partitions))
while len(assigned) < 2:
    consumer.poll(0.1)
consumer.close()
