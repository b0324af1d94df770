"""Shared parts of the log's tests: stores with one topic, small batches, and the contents of a log."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from kohort.log import LogStore, PartitionLog, Topic
from kohort.model import UUID, Millis
from kohort.wire.batches import Record, batches, decode_records, encode_batch

NOW = 1_700_000_000_000


def topic_in(
    store: LogStore, name: str = "orders", partitions: int = 3, configs: Mapping[str, str] | None = None
) -> UUID:
    topic_id = uuid4()
    store.create_topic(Topic(topic_id, name, partitions, configs or {}))
    return topic_id


def batch(*values: bytes, time: int = NOW, **producer: int) -> bytearray:
    """A batch of these values, a millisecond apart."""
    records = [Record(offset, time + offset, b"key", value) for offset, value in enumerate(values)]
    return encode_batch(records, **producer)  # type: ignore[arg-type]


def append(log: PartitionLog, *values: bytes, time: int = NOW, **producer: int) -> int:
    return log.append(batch(*values, time=time, **producer), log.leader_epoch)


def flush(store: LogStore) -> None:
    """Do the work of the broker's writer thread."""
    while pending := store.take():
        store.sync(pending)
        store.settle(pending)


def at(now: Millis) -> Callable[[Millis], Millis]:
    """What retention needs to know of the time: when a record of some age was written."""
    return lambda age: now - age


def records(log: PartitionLog, offset: int | None = None, max_bytes: int = 1 << 20) -> list[Record]:
    """Everything from an offset on, read piece by piece as a consumer does."""
    position = log.start_offset if offset is None else offset
    found: list[Record] = []
    while parts := log.read(position, max_bytes):
        for part in parts:
            for at, header in batches(part):
                found += [record for record in decode_records(part, at) if record.offset >= position]
                assert header.leader_epoch >= 0
                following = header.next_offset
        position = following
    assert position == log.stable_offset
    return found


def values(log: PartitionLog, offset: int | None = None, max_bytes: int = 1 << 20) -> list[bytes | None]:
    found = records(log, offset, max_bytes)
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    return [record.value for record in found]


def open_below(path: Path) -> int:
    """Return how many descriptors of this process are open below a path. Other tests open and close some elsewhere."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += descriptor.readlink().is_relative_to(path)
    return found
