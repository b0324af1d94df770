"""Read records one by one with `async for`, and write a record for each of them, in one event loop.

    python examples/async_iteration.py orders invoices billing [--bootstrap HOST:PORT] [--max N]

A record is committed when its result is on the brokers' disks. Partitions that a rebalance revokes are committed in
`revoked`, which runs before another member gets them.
"""

import argparse
import asyncio

from kohort import Consumer, Producer, TopicPartition


async def run(source: str, target: str, group: str, bootstrap: str, most: int | None) -> None:
    done: dict[TopicPartition, int] = {}

    async def revoked(partitions: frozenset[TopicPartition]) -> None:
        await consumer.commit({partition: done.pop(partition) for partition in partitions if partition in done})

    consumer = Consumer(
        bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe([source], on_revoked=revoked)
    async with consumer, Producer(bootstrap_servers=bootstrap) as producer:
        handled = 0
        async for record in consumer:
            delivery = await producer.send(target, (record.value or b"").upper(), key=record.key)
            await delivery
            done[TopicPartition(record.topic, record.partition)] = record.offset + 1
            handled += 1
            if handled % 100 == 0 or handled == most:
                await consumer.commit(done)
                done.clear()
            if handled == most:
                break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("group")
    parser.add_argument("--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--max", type=int, help="number of records after which the program ends")
    options = parser.parse_args()
    asyncio.run(run(options.source, options.target, options.group, options.bootstrap, options.max))


if __name__ == "__main__":
    main()
