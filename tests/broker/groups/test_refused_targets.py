"""A target that leaves partitions out: whom the broker tells, and what it does then."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kohort import Admin, Consumer
from kohort.broker import Broker, BrokerOptions
from kohort.wire.messages.consumer_protocol import Assignment, Subscription
from tests.client.own_assignor import FirstTakesAll


class LeavesOut(FirstTakesAll):
    """Gives every partition of a topic but the first."""

    name = "leaves-out"

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """See the class."""
        shares = super().assign(partitions, members, instance_ids)
        return {
            name: Assignment([partition for partition in share.partitions if partition.partition > 0])
            for name, share in shares.items()
        }


@pytest.mark.timeout(60)
async def test_the_broker_warns_of_it_and_its_own_assignor_computes_after_the_rebalance_timeout(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reason = "it assigns orders-0 to no member"
    options: dict[str, Any] = {"group_protocol": "consumer", "group_local_assignors": [LeavesOut()]}
    async with Broker(BrokerOptions(port=0)) as broker:
        broker.topics.create("orders", 3)
        address = f"127.0.0.1:{broker.port}"
        async with Consumer(
            "orders", group_id="g", bootstrap_servers=address, max_poll_interval_ms=1_000, **options
        ) as consumer:
            async with asyncio.timeout(50):
                while len(consumer.assignment) < 3:
                    await consumer.poll(timeout=0.1)
            by_logger: dict[str, list[str]] = {}
            for record in caplog.records:
                if reason in record.getMessage():
                    assert record.levelname == "WARNING"
                    by_logger.setdefault(record.name.split(".")[1], []).append(record.getMessage())
            assert {name: len(lines) for name, lines in by_logger.items()} == {"broker": 1, "client": 1}
            [line] = by_logger["broker"]
            assert "group=g" in line and "assignor=leaves-out" in line and "members keep the last target until" in line
            async with Admin(bootstrap_servers=address) as admin:
                assert (await admin.describe_groups(["g"]))["g"].assignor == "uniform"
