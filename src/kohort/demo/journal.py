"""Rebalances of a group, read from the journal topic like any other topic."""

from typing import Any

from kohort.client import Consumer
from kohort.model import TopicPartition
from kohort.recorder import JOURNAL_TOPIC, RebalanceRecord


async def read_journal(bootstrap: str, group: str, **options: Any) -> list[RebalanceRecord]:
    """Return the group's records written so far, oldest first. `options` are those of a client."""
    partition = TopicPartition(JOURNAL_TOPIC, 0)
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **options) as consumer:
        end = (await consumer.end_offsets([partition]))[partition]
        consumer.assign([partition])
        records = []
        while await consumer.position(partition) < end:
            records += await consumer.poll()
    key = group.encode()
    return [RebalanceRecord.from_json(record.value or b"") for record in records if record.key == key]
