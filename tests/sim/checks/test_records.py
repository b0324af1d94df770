"""Records of a topic as the checks know them, also those that its leader wrote after another broker had deleted it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from kohort.model import UUID
from kohort.sim import Plan, World
from kohort.sim.violation import Violation
from kohort.wire.batches import encode_pairs


def written(world: World, topic_id: UUID, value: bytes, offset: int) -> None:
    """A batch with that record alone is durable at that offset of partition 0."""
    batch = bytearray(encode_pairs([(b"key", value)], 0))
    batch[:8] = offset.to_bytes(8, "big")
    partition = topic_id, 0
    world._written(partition, bytes(batch), world.brokers.disk.newest(partition))


def test_a_record_is_known_though_its_topic_was_just_deleted() -> None:
    world = World(Plan(0, topics={"orders": 1}, records=True))
    assert world.record_clients is not None
    (topic_id,) = world.brokers.disk.topics
    written(world, topic_id, b"writer-0.0#0", 0)
    del world.brokers.disk.topics[topic_id]
    written(world, topic_id, b"writer-0.0#1", 1)
    assert world.record_clients.records.logs[topic_id, 0] == [b"writer-0.0#0", b"writer-0.0#1"]


@pytest.mark.parametrize(("clock", "number", "is_allowed"), [(86_400, 0, True), (86_399, 0, False), (86_400, 1, False)])
def test_a_batch_is_written_again_only_where_a_clock_has_made_the_broker_forget_its_producer(
    clock: float, number: int, is_allowed: bool
) -> None:
    world = World(Plan(0, topics={"orders": 1}, records=True))
    assert world.record_clients is not None
    (topic_id,) = world.brokers.disk.topics
    for offset, before in enumerate((0, 2)):
        written(world, topic_id, b"writer-0.0#%d" % before, offset)
    world.brokers.clocks[0] = clock
    with nullcontext() if is_allowed else pytest.raises(Violation, match="wrote"):
        written(world, topic_id, b"writer-0.0#%d" % number, 2)
    assert ((topic_id, 0) in world.record_clients.records.damaged) is is_allowed
