"""Snapshots of a broker in memory: topics, records, configs, committed offsets and groups, and the way back.

A snapshot shares the bytes of records with the broker. A restore replaces only logs that have changed since, and loads
only the groups in changed partitions of `__consumer_offsets` again.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from kohort.broker.groups import Shard
from kohort.errors import ErrorCode, KohortError
from kohort.log import MemorySnapshot, MemoryStore
from kohort.log.cluster import OFFSETS_TOPIC
from kohort.recorder import JOURNAL_TOPIC
from kohort.testing.events import KitActed
from kohort.testing.taps import TappedBroker

_KEPT = (JOURNAL_TOPIC,)
"""Topics whose records a restore does not take back: what happened is not undone by it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of one broker at one time. It can be restored any number of times, while that broker runs."""

    broker: TappedBroker
    contents: MemorySnapshot
    groups: Mapping[int, Set[str]]
    """The IDs of the groups in each partition of `__consumer_offsets`."""


async def take(broker: TappedBroker) -> Snapshot:
    """Return the broker's contents. Raise KohortError if its log is not in memory."""
    store = _store(broker)
    await _settled(broker, store)
    groups = {shard.partition: {group.group_id for group in shard.all_groups} for shard in broker.groups}
    return Snapshot(broker, store.snapshot(), groups)


async def restore(snapshot: Snapshot) -> None:
    """Let the broker have the contents of the snapshot again.

    Members that the snapshot does not have get UNKNOWN_MEMBER_ID, and join again. Members that are in the snapshot and
    no longer connected are removed. Fetches that wait are answered; those behind the end get OFFSET_OUT_OF_RANGE.
    """
    broker, contents = snapshot.broker, snapshot.contents
    if broker.stopping:
        raise KohortError("The broker of this snapshot has stopped.")
    store = _store(broker)
    await _settled(broker, store)
    shards = [broker.groups.of_partition(number) for number in _changed_shards(broker, store, contents)]
    groups = {group.group_id for shard in shards for group in shard.all_groups}
    groups |= {group_id for shard in shards for group_id in snapshot.groups[shard.partition]}
    for shard in shards:
        shard.resign(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    await _settled(broker, store)  # what producers have written since

    topics = _restore_store(broker, store, contents)
    broker.emit(KitActed(broker.now(), broker.node_id, "restored a snapshot", frozenset(groups), frozenset(topics)))
    broker.groups.lead([shard.partition for shard in shards])
    for shard in shards:
        await shard.loaded()
        _remove_absent(broker, shard)


def _restore_store(broker: TappedBroker, store: MemoryStore, contents: MemorySnapshot) -> Set[str]:
    """Restore the store and what the broker keeps of it; return the topics that are not as they were before."""
    before, configs = dict(store.topics()), store.all_configs
    changed = store.changed_since(contents, _KEPT)
    store.restore(contents, _KEPT)
    broker.topics.release_topic(changed)
    broker.topics.refresh()
    broker.topics_image.tell()
    broker.configs_changed(configs, store.all_configs)
    broker.waiting_fetches.check_all()
    broker.waiting_fetches.expire_all()  # one that goes on waiting would watch a log that is no longer in use
    after = store.topics()
    names = {topic.topic_id: topic.name for topic in (*before.values(), *after.values())}
    touched = {names[topic_id] for topic_id, _ in changed}
    touched |= {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return touched - {OFFSETS_TOPIC}


def _changed_shards(broker: TappedBroker, store: MemoryStore, contents: MemorySnapshot) -> list[int]:
    offsets = broker.topics.named(OFFSETS_TOPIC)
    assert offsets is not None
    changed = store.changed_since(contents, _KEPT)
    return sorted(number for topic_id, number in changed if topic_id == offsets.topic_id)


def _remove_absent(broker: TappedBroker, shard: Shard) -> None:
    """Remove restored members that no client is any more: they would keep their partitions until their sessions end."""
    connected = broker.member_connections.connected
    for group in shard.all_groups:
        for member_id in list(group.members):
            if (group.group_id, member_id) not in connected:
                shard.expire_member(group.group_id, member_id)


async def _settled(broker: TappedBroker, store: MemoryStore) -> None:
    """Wait until nothing is queued; no append can follow before the caller's next `await`."""
    await broker.writer.drain()
    while store.queued_bytes:
        await broker.writer.drain()


def _store(broker: TappedBroker) -> MemoryStore:
    if not isinstance(broker.store, MemoryStore):
        raise KohortError("Only a broker whose log is in memory has snapshots: start it without `data`.")
    return broker.store
