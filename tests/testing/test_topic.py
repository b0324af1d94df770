"""Topics as tests use them: records are written and read without a client."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from kohort import blocking
from kohort.client.produce import murmur2
from kohort.errors import KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.testing import Broker, Cluster, WaitTimeoutError


@pytest.mark.parametrize("start", [Broker, lambda: Cluster(2)])
def test_clients_read_what_a_test_produces(start: Callable[[], Broker | Cluster]) -> None:
    with start() as broker:
        broker.create_topic("orders", 3)
        orders = broker.topic("orders")
        assert orders.produce("a", b"b", None, "d") == [TopicPartition("orders", number) for number in (0, 1, 2, 0)]
        assert orders.end_offsets() == {
            TopicPartition("orders", number): count for number, count in enumerate((2, 1, 1))
        }
        with blocking.Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", number) for number in range(3)])
            found: list[bytes | None] = []
            while len(found) < 4:
                found += [record.value for record in consumer.poll()]
        assert sorted(found, key=str) == [None, b"a", b"b", b"d"]


def test_a_waiting_client_gets_the_record_at_once() -> None:
    with Broker(topics={"orders": 1}) as broker:
        with blocking.Consumer(bootstrap_servers=broker.bootstrap_servers, fetch_max_wait_ms=30_000) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            consumer.seek_to_beginning()
            assert not consumer.poll(timeout=0.05)
            broker.topic("orders").produce("a")
            assert [record.value for record in consumer.poll(timeout=20)] == [b"a"]


def test_a_test_reads_what_clients_produce() -> None:
    with Broker(topics={"orders": 2}) as broker:
        orders = broker.topic("orders")
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, compression_type="zstd") as producer:
            for number in range(3):
                producer.send("orders", b"%d" % number, key=b"k", headers=[("h", b"x")], partition=1)
            found = orders.wait_records(3)
        assert [(record.partition, record.offset, record.value) for record in found] == [
            (1, 0, b"0"),
            (1, 1, b"1"),
            (1, 2, b"2"),
        ]
        assert {(record.key, tuple(record.headers)) for record in found} == {(b"k", (("h", b"x"),))}
        assert orders.records(0) == []
        with pytest.raises(WaitTimeoutError, match=r"Topic orders has 3 records after 0\.05 s, not 4\."):
            orders.wait_records(4, timeout_s=0.05)


async def test_a_test_on_an_event_loop_awaits_records() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        orders = broker.topic("orders")
        orders.produce("a", timestamp=1_000)
        (record,) = await orders.wait_records_async(1)
        assert (record.value, record.timestamp) == (b"a", 1_000)


def test_a_key_decides_as_in_javas_producer() -> None:
    with Broker(topics={"orders": 5}) as broker:
        (at,) = broker.topic("orders").produce("v", key="customer-7")
        assert at.partition == murmur2(b"customer-7") % 5


def test_what_does_not_exist_is_a_sentence() -> None:
    with Broker(topics={"orders": 2}) as broker:
        with pytest.raises(KohortError, match="Topic orders has no partition 2; it has 2, numbered from 0"):
            broker.topic("orders").produce("a", partition=2)
        with pytest.raises(KohortError, match="Topic orders has no partition 2; it has 2, numbered from 0"):
            broker.topic("orders").wait_records(1, partition=2)
        number: Any = 5
        with pytest.raises(KohortError, match="A key or a value is bytes, text or None, not 5: serialize it first"):
            broker.topic("orders").produce("a", number)
        with pytest.raises(KafkaError, match="There is no topic other"):
            broker.topic("other").produce("a")


def test_records_without_a_key_go_to_the_partitions_in_turn() -> None:
    with Broker(topics={"orders": 3}) as broker:
        assert [broker.topic("orders").produce("a")[0].partition for _ in range(4)] == [0, 1, 2, 0]


def test_a_topic_is_its_name() -> None:
    with Broker(topics={"orders": 2}) as broker:
        orders = broker.topic("orders")
        assert (orders, orders.partitions, repr(orders)) == ("orders", 2, "'orders'")
        assert type(pickle.loads(pickle.dumps(orders))) is str
