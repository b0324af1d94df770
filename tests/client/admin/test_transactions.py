"""Transactions as an admin client sees them, and those that hang."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kohort import Admin, ConfigError, ErrorCode, KafkaError, Producer, TopicPartition, blocking
from kohort.wire.messages.describe_producers import ProducerState
from tests.client.link import linked_broker

DESCRIBE_PRODUCERS, LIST, DESCRIBE = 61, 66, 65
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD_MS = time.time_ns() // 1_000_000 - 3_600_000


def open_since(start: int, producer_id: int, last_ms: int = OLD_MS) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=0,
        last_sequence=4,
        last_timestamp=last_ms,
        coordinator_epoch=0,
        current_txn_start_offset=start,
    )


async def test_only_old_transactions_that_no_coordinator_has_hang() -> None:
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 2)
        options: dict[str, Any] = {"bootstrap_servers": f"127.0.0.1:{link.port}"}
        async with Producer(**options, transactional_id="alive") as producer, Admin(**options) as admin:
            await producer.init_transactions()
            producer.begin_transaction()
            await (await producer.send("t", b"x", partition=0))
            [alive] = await admin.list_transactions()

            def change(answer: Any, client: str | None) -> None:
                for partition in answer.topics[0].partitions:
                    if partition.partition_index == 0:
                        # That of its coordinator, one without a coordinator, and one that has just written.
                        partition.active_producers = [
                            open_since(0, alive.producer_id),
                            open_since(7, 4_711),
                            open_since(9, 4_712, time.time_ns() // 1_000_000),
                        ]
                    else:
                        # Its coordinator knows it, but not in this partition.
                        partition.active_producers = [open_since(3, alive.producer_id)]

            link.change[DESCRIBE_PRODUCERS] = change
            found = await admin.find_hanging_transactions([T0, T1])
            assert [(at, each.producer_id, name) for at, each, name in map(_parts, found)] == [
                (T0, 4_711, None),
                (T1, alive.producer_id, "alive"),
            ]
            assert await admin.find_hanging_transactions([T0, T1], max_transaction_timeout_ms=7_200_000) == []
            link.change.clear()
            assert await admin.find_hanging_transactions([T0, T1]) == []
            await producer.abort_transaction()


def _parts(hanging: Any) -> tuple[Any, Any, Any]:
    return hanging.partition, hanging.producer, hanging.transactional_id


async def test_filters_that_a_broker_is_too_old_for_are_refused() -> None:
    async with linked_broker() as (_, link):

        def older(answer: Any, client: str | None) -> None:
            for api in answer.api_keys:
                if api.api_key == LIST:
                    api.max_version = 0

        link.change[18] = older
        async with Admin(bootstrap_servers=f"127.0.0.1:{link.port}") as admin:
            assert await admin.list_transactions() == []
            filters: dict[str, Any]
            for filters in ({"min_duration_ms": 1}, {"pattern": "a.*"}):
                with pytest.raises(KafkaError, match="too old to filter transactions") as refused:
                    await admin.list_transactions(**filters)
                assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_blocking_admin_has_the_same() -> None:
    from kohort.testing import Broker

    with Broker(topics={"t": 1}) as broker:
        options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
        with blocking.Producer(**options, transactional_id="tx") as producer, blocking.Admin(**options) as admin:
            with producer.transaction():
                producer.send("t", b"x")
            [listed] = admin.list_transactions(pattern="t.")
            described = admin.describe_transactions(["tx"])["tx"]
            assert (listed.producer_id, listed.transactional_id) == (described.producer_id, "tx")
            with pytest.raises(KafkaError) as missing:
                admin.describe_transactions(["other"])
            assert missing.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            with pytest.raises(ConfigError, match="Sleeping: no state of transactions"):
                admin.list_transactions(states=["Sleeping"])
            assert admin.fence_producers(["tx"])["tx"].id >= 0
            assert admin.find_hanging_transactions([T0]) == []
