"""The same client for plain threads."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

import pytest

from kohort import ConfigError, KafkaError, KohortError, NewTopic, TopicPartition
from kohort.blocking import Admin, Consumer, Producer
from kohort.client import ClosedError
from tests.interop.broker import Broker


def test_sent_records_are_read_and_committed(any_broker: Broker, fresh: str) -> None:
    told: list[tuple[str, int, bool]] = []
    here = threading.current_thread()

    def revoked(partitions: frozenset[TopicPartition]) -> None:
        consumer.commit()
        told.append(("revoked", len(partitions), threading.current_thread() is here))

    def assigned(partitions: frozenset[TopicPartition]) -> None:
        told.append(("assigned", len(partitions), threading.current_thread() is here))

    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(fresh, 3)])
        with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            sent = [producer.send(fresh, b"%d" % n, key=b"%d" % n) for n in range(5_000)]
            assert sent[-1].result().topic == fresh
            producer.flush()
            assert all(delivery.done() for delivery in sent)
        options: dict[str, Any] = {"group_id": fresh, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        with Consumer(bootstrap_servers=any_broker.bootstrap, **options) as consumer:
            consumer.subscribe([fresh], on_assigned=assigned, on_revoked=revoked)
            values = [record.value for record in islice(consumer, 5_000)]
            assert len(consumer.assignment) == 3
        assert len(set(values)) == 5_000
        assert told == [("assigned", 3, True), ("revoked", 3, True)]
        assert sum(row.lag or 0 for row in admin.group_lag(fresh)) == 0


def test_a_callback_may_close_its_consumer(any_broker: Broker, fresh: str) -> None:
    told: list[str] = []

    def close(partitions: frozenset[TopicPartition]) -> None:
        consumer.close()
        told.append("closing")

    with Admin(bootstrap_servers=any_broker.bootstrap) as admin:
        admin.create_topics([NewTopic(fresh, 1)])
        consumer = Consumer(bootstrap_servers=any_broker.bootstrap, group_id=fresh)
        consumer.subscribe([fresh], on_assigned=close, on_revoked=lambda _: told.append("revoked"))
        assert list(consumer) == []
        assert told == ["closing", "revoked"]
        with pytest.raises(ClosedError):
            consumer.poll()
        assert admin.describe_groups([fresh])[fresh].members == ()


def test_threads_share_a_producer(any_broker: Broker, fresh: str) -> None:
    with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
        results: list[int] = []

        def send(name: int) -> None:
            sent = [producer.send(fresh, b"%d-%d" % (name, n), partition=0) for n in range(500)]
            results.append(max(delivery.result().offset for delivery in sent))

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(results) == 1999


def test_errors_come_out_where_they_belong(any_broker: Broker, fresh: str) -> None:
    with pytest.raises(ConfigError, match="did you mean group_id"):
        Consumer(bootstrap_servers=any_broker.bootstrap, groupid="g")  # type: ignore[call-arg]
    with Producer(bootstrap_servers=any_broker.bootstrap, max_block_ms=300) as producer:
        refused = producer.send("no/topic", b"x")
        with pytest.raises(KafkaError):
            refused.result()
        with pytest.raises(TypeError):
            producer.send(fresh, "text").result()

    def broken(partitions: frozenset[TopicPartition]) -> None:
        raise ZeroDivisionError

    consumer = Consumer(fresh, bootstrap_servers=any_broker.bootstrap, group_id=fresh, on_assigned=broken)
    with pytest.raises(ZeroDivisionError):
        for _ in range(50):
            consumer.poll(timeout=0.2)
    with pytest.raises(KohortError, match="is not assigned"):
        consumer.seek(TopicPartition(fresh, 77), 0)
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll()


def test_no_thread_is_left(any_broker: Broker, fresh: str) -> None:
    before = threading.active_count()
    with Admin(bootstrap_servers=any_broker.bootstrap) as admin, Producer(bootstrap_servers=any_broker.bootstrap):
        admin.list_topics()
        with Consumer(fresh, bootstrap_servers=any_broker.bootstrap, group_id=fresh) as consumer:
            consumer.poll(timeout=0.1)
            assert threading.active_count() == before + 3
    assert threading.active_count() == before
