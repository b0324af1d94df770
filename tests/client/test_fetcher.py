"""Which partitions are fetched next, beside fetches that bring nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from kohort import Consumer, Producer, TopicPartition
from tests.client.conftest import eventually
from tests.client.link import linked_broker

FETCH = 1


async def test_fetches_that_only_repeat_themselves_leave_room_for_a_partition_that_was_drained() -> None:
    # There are two fetches at a broker. Each of them repeats itself for as long as it brings nothing and nothing
    # changes, so that with both at quiet partitions a third would never be fetched again.
    full, quiet, other = (TopicPartition("t", number) for number in range(3))
    sizes: dict[str, Any] = {"max_partition_fetch_bytes": 1, "fetch_max_wait_ms": 20}
    async with linked_broker() as (broker, link):
        broker.topics.create("t", 3)
        bootstrap = f"127.0.0.1:{link.port}"
        async with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
            for number in range(3):  # each in a batch of its own, of which a fetch brings one
                await (await producer.send("t", b"%d" % number, partition=full.partition))
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **sizes) as consumer:
            consumer.assign([full])
            await eventually(lambda: consumer.lag(full) == 3)  # fetched: no more of it until it is taken
            for partition in (quiet, other):
                consumer.incremental_assign([partition])
                await eventually(lambda at=partition: at in consumer.positions())  # type: ignore[misc]
                asked = link.asked[FETCH]
                await eventually(lambda before=asked: link.asked[FETCH] > before + 10)  # type: ignore[misc]
            async with asyncio.timeout(10):
                values = [record.value for _ in range(3) for record in await consumer.poll(timeout=5.0)]
    assert values == [b"0", b"1", b"2"]
