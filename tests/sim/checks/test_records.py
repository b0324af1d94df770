"""Records of a topic as the checks know them, also those that its leader wrote after another broker had deleted it."""

from __future__ import annotations

from kohort.model import UUID
from kohort.sim import Plan, World
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
