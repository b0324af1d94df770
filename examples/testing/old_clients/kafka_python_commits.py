"""kafka-python: commit once, and go on until the consumer has joined again."""

import os
import sys

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import CommitFailedError

server, topic, group, client_id = sys.argv[1:]
assignments = 0


class Counting(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    def on_partitions_revoked(self, revoked: object) -> None:
        pass

    def on_partitions_assigned(self, assigned: object) -> None:
        global assignments
        assignments += 1


consumer = KafkaConsumer(
    bootstrap_servers=server,
    group_id=group,
    client_id=client_id,
    enable_auto_commit=False,
    session_timeout_ms=2000,
    heartbeat_interval_ms=300,
)
consumer.subscribe([topic], listener=Counting())
while assignments < 1:
    consumer.poll(100)
try:
    consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(0, "", -1)})
    sys.exit("The commit was accepted.")
except CommitFailedError as error:
    print(error)
while assignments < 2:
    consumer.poll(100)
consumer.close()
sys.stdout.flush()
# One in five programs would hang while Python ends: `__del__` of this release's coordinator waits for a lock that its
# heartbeat thread never gives back.
os._exit(0)
