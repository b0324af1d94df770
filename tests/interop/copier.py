"""Program that copies a topic exactly once, and prints the number of records after each transaction.

python -m tests.interop.copier BOOTSTRAP SOURCE SINK

It is killed at any time. Its successor has the same transactional ID, which fences it, and the same instance ID,
with which it gets the partitions at once.
"""

from __future__ import annotations

import asyncio
import sys

from kohort import Consumer, Producer


async def copy(bootstrap: str, source: str, sink: str) -> None:
    consumer = Consumer(
        source,
        bootstrap_servers=bootstrap,
        group_id=source,
        group_instance_id="copier",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=7,
    )
    async with consumer, Producer(bootstrap_servers=bootstrap, transactional_id=source) as producer:
        await producer.init_transactions()
        print("ready", flush=True)
        copied = 0
        while True:
            records = await consumer.poll()
            if records:
                async with producer.transaction(consumer):
                    for record in records:
                        await producer.send(sink, record.value, partition=record.partition)
                copied += len(records)
                print(copied, flush=True)


if __name__ == "__main__":
    asyncio.run(copy(*sys.argv[1:]))
