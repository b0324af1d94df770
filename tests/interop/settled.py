"""Waiting for the markers of transactions: a commit is acknowledged before partitions have them."""

from __future__ import annotations

import asyncio

from kohort import Consumer, TopicPartition


async def settled(address: str, *partitions: TopicPartition) -> None:
    """Wait until no transaction is open in these partitions."""
    async with (
        Consumer(bootstrap_servers=address, isolation_level="read_committed") as committed,
        Consumer(bootstrap_servers=address) as every,
        asyncio.timeout(30),
    ):
        while await committed.end_offsets(partitions) != await every.end_offsets(partitions):  # noqa: ASYNC110  no event
            await asyncio.sleep(0.01)
