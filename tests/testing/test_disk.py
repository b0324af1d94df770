"""A disk that a test breaks: real clients see what a broker does then, and go on when it is as before."""

import time

import pytest

from kohort import NewTopic, blocking
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.testing import Broker, Cluster, Event, KitActed

PATIENCE_S = 30.0


@pytest.mark.parametrize("kind", ["fill_disk", "fail_disk"])
def test_what_is_not_written_is_not_acknowledged_and_everything_goes_on_afterwards(kind: str) -> None:
    seen: list[Event] = []
    with Broker(topics={"orders": 1}, observers=[seen.append]) as broker:
        servers = broker.bootstrap_servers
        with (
            blocking.Producer(bootstrap_servers=servers) as producer,
            blocking.Consumer(
                "orders", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
            ) as consumer,
            blocking.Admin(bootstrap_servers=servers) as admin,
        ):
            producer.send("orders", b"one").result()
            assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"one"]
            with getattr(broker, kind)():
                later = producer.send("orders", b"two")
                with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
                    later.result(timeout=0.2)
                with pytest.raises(KafkaError):
                    consumer.commit(timeout=0.2)
                with pytest.raises(KafkaError) as refused:
                    admin.create_topics([NewTopic("new", 1)])
                assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
                with pytest.raises(OSError, match="a test"):
                    broker._run(lambda: broker.node.store.keep_configs("groups", "g", {"a": "b"}))
            assert later.result(timeout=PATIENCE_S).offset == 1
            assert [record.value for record in consumer.poll(timeout=PATIENCE_S)] == [b"two"]
            consumer.commit(timeout=PATIENCE_S)
            admin.create_topics([NewTopic("new", 1)])
    assert [event.what for event in seen if isinstance(event, KitActed)] == [
        "filled the disk" if kind == "fill_disk" else "let the disk fail"
    ]


def test_acknowledgements_wait_for_a_slow_disk_until_it_is_undone() -> None:
    with (
        Broker(topics={"orders": 1}) as broker,
        blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        producer.send("orders", b"one").result()
        with broker.slow_disk(100):
            began = time.monotonic()
            producer.send("orders", b"two").result()
            assert time.monotonic() - began >= 0.1
        slow = broker.slow_disk(60_000)
        later = producer.send("orders", b"three")
        with pytest.raises(KafkaError, match="REQUEST_TIMED_OUT"):
            later.result(timeout=0.2)
        slow.undo()
        assert later.result(timeout=PATIENCE_S).offset == 2


def test_one_broker_of_a_cluster_has_a_full_disk_for_a_time() -> None:
    with Cluster(2, topics={"orders": 2}) as cluster:
        with pytest.raises(KohortError, match="There is no broker 7"):
            cluster.fill_disk(node_id=7)
        outage = cluster.fill_disk(node_id=1, ms=200)
        with blocking.Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            sent = [producer.send("orders", b"x", partition=partition) for partition in (0, 1)]
            assert [one.result(timeout=PATIENCE_S).offset for one in sent] == [0, 0]
        outage.undo()


def test_a_broker_with_a_slow_disk_stops_without_delay() -> None:
    with Broker(topics={"orders": 1}) as broker:
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, acks=0) as producer:
            broker.slow_disk(600_000)
            producer.send("orders", b"one").result()
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE_S
