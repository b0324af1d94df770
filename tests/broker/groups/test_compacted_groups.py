"""S10: a coordinator that is loaded from a compacted log is the one that is loaded from the whole log."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kohort.coordinator import GroupConfig, GroupShard
from kohort.log import MemoryStore, PartitionLog
from kohort.wire.batches import encode_pairs
from kohort.wire.batches.scanning.record_pairs import Pair
from kohort.wire.group_log import group_record
from kohort.wire.group_log.group_bytes import decode_key, decode_value
from tests.coordinator.shell import durable
from tests.coordinator.test_random_members import act, actions, world
from tests.log.logs import NOW, flush, records, topic_in
from tests.log.test_compaction import TABLE, compact


def loaded(pairs: list[Pair]) -> GroupShard:
    shard = GroupShard(GroupConfig(), lambda: "id")
    for key_bytes, value in pairs:
        key = decode_key(key_bytes or b"")
        assert key is not None
        shard.replay(group_record(key, None if value is None else decode_value(key, value)))
    return shard


def contents(log: PartitionLog) -> list[Pair]:
    return [(record.key, record.value) for record in records(log)]


@given(st.lists(actions, min_size=10, max_size=120), st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_groups_are_the_same_from_a_compacted_log(done: list[tuple[str, int]], pauses: list[int]) -> None:
    lived = world()
    store = MemoryStore()
    # Tombstones go at the second compaction.
    log = store.partition(topic_in(store, configs=TABLE | {"segment.bytes": "700", "delete.retention.ms": "1"}), 0)
    written, now, compactions = 0, NOW, list(pauses)
    for step, (action, number) in enumerate(done):
        act(lived, action, number, step)
        if len(lived.shell.log) > written:
            log.append(encode_pairs(lived.shell.log[written:], now), log.leader_epoch)
            written = len(lived.shell.log)
            flush(store)
        if compactions and step % 20 == 19:
            now += compactions.pop()
            compact(store, log, now)
    compact(store, log, now + 5)
    assert durable(loaded(contents(log))) == durable(loaded(list(lived.shell.log)))
