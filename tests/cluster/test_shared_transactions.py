"""Transactions with two brokers of a cluster, in this process."""

from __future__ import annotations

from pathlib import Path

from kohort import Producer
from tests.cluster.test_shared_broker import leaders, so, two_brokers


async def test_a_broker_that_leads_no_partition_of_the_transaction_log_takes_records_of_transactions(
    tmp_path: Path,
) -> None:
    async with two_brokers(tmp_path, transaction_state_log_num_partitions="1") as brokers:
        brokers[0].topics.create("orders", 4)
        await so(lambda: set(leaders(brokers[1], "orders")) == {1, 2})
        async with Producer(
            bootstrap_servers=f"127.0.0.1:{brokers[0].port}",
            transactional_id="t",
            max_block_ms=10_000,
            delivery_timeout_ms=10_000,
            request_timeout_ms=5_000,
        ) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                for partition in range(4):
                    await producer.send("orders", b"value", partition=partition)
