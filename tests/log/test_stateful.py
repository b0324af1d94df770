"""Random histories of one topic against a plain list, over memory and over files with crashes and restarts."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kohort.log import FileStore, LogStore, MemoryStore, OffsetOutOfRange, PartitionLog, Pending
from tests.log.logs import NOW, append, at, flush, topic_in, values

PARTITIONS = 2
CONFIGS = {"segment.bytes": "700", "retention.bytes": "2500"}
partitions = st.integers(0, PARTITIONS - 1)


class Model:
    """Expected contents of a partition: batches of values from `start`, settled and waiting ones."""

    def __init__(self) -> None:
        self.start = 0
        self.settled: list[tuple[int, list[bytes]]] = []
        self.taken: list[tuple[int, list[bytes]]] = []
        self.waiting: list[tuple[int, list[bytes]]] = []
        self.stable = 0

    @property
    def end(self) -> int:
        newest = [*self.taken, *self.waiting]
        return newest[-1][0] + len(newest[-1][1]) if newest else self.stable

    def settle(self) -> None:
        self.settled += self.taken
        self.taken = []
        if self.settled:
            self.stable = max(self.stable, self.settled[-1][0] + len(self.settled[-1][1]))

    def drop(self) -> None:
        self.taken, self.waiting = [], []

    def truncate(self, offset: int) -> None:
        if offset < self.stable:
            self.stable = min(base for base, held in self.settled if base + len(held) > offset)
            self.settled = [(base, held) for base, held in self.settled if base < self.stable]
            self.start = min(self.start, self.stable)

    def visible(self, offset: int) -> list[bytes]:
        return [value for base, held in self.settled for at, value in enumerate(held, base) if at >= offset]


class MemoryHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store: LogStore = self.opened()
        self.topic_id = topic_in(self.store, partitions=PARTITIONS, configs=CONFIGS)
        self.models = [Model() for _ in range(PARTITIONS)]
        self.pending: Pending | None = None
        self.sent = 0

    def opened(self) -> LogStore:
        return MemoryStore()

    def log(self, partition: int) -> PartitionLog:
        return self.store.partition(self.topic_id, partition)

    @initialize()
    def first(self) -> None:
        self.append(0, 1, 10)

    @rule(partition=partitions, count=st.integers(1, 4), size=st.integers(0, 300))
    def append(self, partition: int, count: int, size: int) -> None:
        sent = [b"%d " % (self.sent + n) + b"x" * size for n in range(count)]
        self.sent += count
        model = self.models[partition]
        base_offset = model.end
        producer = {"producer_id": partition, "producer_epoch": 0, "base_sequence": base_offset}
        assert append(self.log(partition), *sent, time=NOW + self.sent, **producer) == base_offset
        model.waiting.append((base_offset, sent))

    @precondition(lambda self: self.pending is None)
    @rule()
    def take(self) -> None:
        self.pending = self.store.take()
        if self.pending is None:
            assert not any(model.waiting for model in self.models)
        for model in self.models:
            model.taken, model.waiting = model.waiting, []

    @precondition(lambda self: self.pending is not None)
    @rule()
    def settle(self) -> None:
        assert self.pending is not None
        self.store.sync(self.pending)
        self.store.settle(self.pending)
        self.pending = None
        for model in self.models:
            model.settle()

    @precondition(lambda self: self.pending is not None)
    @rule(written=st.booleans())
    def fail(self, written: bool) -> None:
        assert self.pending is not None
        if written:
            self.store.sync(self.pending)
        self.store.fail(self.pending, OSError("the disk is full"))
        self.pending = None
        for model in self.models:
            model.drop()

    @precondition(lambda self: self.pending is None)
    @rule(partition=partitions, back=st.integers(0, 8))
    def truncate(self, partition: int, back: int) -> None:
        model = self.models[partition]
        if model.waiting:
            return
        offset = max(self.log(partition).start_offset, model.stable - back)
        self.log(partition).truncate(offset)
        model.truncate(offset)

    @rule(partition=partitions, ahead=st.integers(0, 8))
    def delete_before(self, partition: int, ahead: int) -> None:
        model = self.models[partition]
        model.start = min(model.start + ahead, model.stable)
        assert self.log(partition).delete_before(model.start) == model.start

    @rule(partition=partitions)
    def retention(self, partition: int) -> None:
        model = self.models[partition]
        start = self.log(partition).apply_retention(at(NOW))
        assert model.start <= start <= model.stable
        model.start = start
        assert self.log(partition).size <= 2500 + 2500

    @invariant()
    def every_partition_is_its_model(self) -> None:
        for partition, model in enumerate(self.models):
            log = self.log(partition)
            assert (log.start_offset, log.stable_offset, log.end_offset) == (model.start, model.stable, model.end)
            visible = model.visible(model.start)
            assert values(log) == visible
            if len(visible) > 3:
                assert values(log, model.start + 2, max_bytes=400) == visible[2:]
            for outside in (model.start - 1, model.stable + 1):
                with pytest.raises(OffsetOutOfRange):
                    log.read(outside, 100)
            known = log.producers.get(partition)
            if known is not None and known.batches and model.end > model.start:
                assert known.batches[-1].last_offset == model.end - 1

    def teardown(self) -> None:
        if self.pending is not None:
            self.store.fail(self.pending, OSError("over"))
        self.store.close()


class FilesHistory(MemoryHistory):
    def opened(self) -> LogStore:
        self.root = Path(tempfile.mkdtemp(prefix="kohort-log-"))
        self.path = self.root / "0"
        self.crashes = 0
        return FileStore(self.path)

    @precondition(lambda self: self.pending is None)
    @rule()
    def restart(self) -> None:
        flush(self.store)
        for model in self.models:
            model.taken, model.waiting = model.waiting, []
            model.settle()
        self.store.close()
        self.store = FileStore(self.path)

    @rule()
    def crash(self) -> None:
        """Whatever was not settled may be there or not; here it never reached the disk."""
        assert isinstance(self.store, FileStore)
        self.crashes += 1
        copy = self.root / str(self.crashes)
        shutil.copytree(self.path, copy)
        self.store.abandon()
        self.store, self.path, self.pending = FileStore(copy), copy, None
        for model in self.models:
            model.drop()

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.root)


STEPS = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True, database=None)
TestMemory = MemoryHistory.TestCase
TestMemory.settings = STEPS
TestFiles = FilesHistory.TestCase
TestFiles.settings = STEPS
