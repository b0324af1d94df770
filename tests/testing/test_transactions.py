"""Transactions on the brokers of the kit: all or nothing, also over a snapshot."""

import confluent_kafka
import pytest

from kohort import blocking
from kohort.testing import Broker, Cluster


def write(servers: str, value: bytes, *, commit: bool) -> None:
    """Write a record to each of two partitions in a transaction of librdkafka."""
    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "transactional.id": "shop"})
    producer.init_transactions(20.0)
    producer.begin_transaction()
    for partition in range(2):
        producer.produce("orders", value, partition=partition)
    producer.flush(20.0)
    (producer.commit_transaction if commit else producer.abort_transaction)(20.0)


def committed(servers: str, count: int) -> list[bytes | None]:
    """Read so many records of committed transactions, and what is there with them."""
    reading = blocking.Consumer(
        "orders", bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    found: list[bytes | None] = []
    with reading as consumer:
        while len(found) < count:
            found += [record.value for record in consumer.poll()]
    return sorted(found, key=str)


@pytest.mark.interop
@pytest.mark.parametrize("kind", [Broker, Cluster])
def test_readers_see_committed_transactions_only(kind: type[Broker | Cluster]) -> None:
    with kind(topics={"orders": 2}) as brokers:
        for value, commit in ((b"a", True), (b"b", False), (b"c", True)):
            write(brokers.bootstrap_servers, value, commit=commit)
        assert committed(brokers.bootstrap_servers, 4) == [b"a", b"a", b"c", b"c"]


@pytest.mark.interop
def test_a_restored_broker_has_forgotten_the_transactions_since_the_snapshot() -> None:
    with Broker(topics={"orders": 2}) as broker:
        write(broker.bootstrap_servers, b"before", commit=True)
        committed(broker.bootstrap_servers, 2)
        snapshot = broker.snapshot()
        for _ in range(2):
            write(broker.bootstrap_servers, b"after", commit=True)
            assert committed(broker.bootstrap_servers, 4) == [b"after", b"after", b"before", b"before"]
            broker.restore(snapshot)
            assert committed(broker.bootstrap_servers, 2) == [b"before", b"before"]
