"""Logs of one broker of a cluster in a database: rows are authoritative, local files are read.

When this broker begins to lead a partition, a thread reads its rows into files of a scratch
directory. From then on, each sync writes both, the files first. If files are lost, they only have
to be read again.
"""

import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

from kohort.log.api import Topic
from kohort.log.cluster import FileLock, PartitionId, SharedStore, Writer
from kohort.log.config import LogConfig
from kohort.log.directory import write_durably
from kohort.log.names import START_OFFSET, segment_path
from kohort.log.partition import Queued, SegmentedLog
from kohort.log.partition_files import MAX_OPEN_FILES
from kohort.log.postgres.cluster_state import ClusterDatabase
from kohort.log.postgres.compaction_segments import RowCompaction
from kohort.log.postgres.rows import (
    Appends,
    RowTable,
    StoredExtent,
    forget_deleted,
    move_start,
    read_extents,
    read_rows,
)
from kohort.log.postgres.time_partitions import drop_expired_time_partitions, term
from kohort.log.queue import PendingAppends
from kohort.log.recovery import Recovered, recover
from kohort.log.segment_files import FileMedium
from kohort.model import TopicPartition
from kohort.wire.batches import Buffer

_SYNC_MS = 30_000
_LOAD_MS = 600_000
"""Maximum duration in milliseconds of a statement for which the event loop does not wait."""


class RowMedium(FileMedium):
    """A segment whose rows are deleted when it is removed."""

    __slots__ = ("_removed",)

    def __init__(self, store: "PostgresStore", path: Path, removed: Callable[[], None], *, exists: bool) -> None:
        super().__init__(store.files, path, exists=exists)
        self._removed = removed

    def remove(self) -> None:
        super().remove()
        self._removed()


class PostgresStore(SharedStore):
    """A `LogStore` over a database.

    `load` is called in a thread of its own and `sync` in the writer thread; the other methods are
    called as for files.
    """

    home: ClusterDatabase

    def __init__(self, home: ClusterDatabase, scratch: Path, *, max_open_files: int = MAX_OPEN_FILES) -> None:
        """Open the store. `scratch`, an empty directory, is removed at the end. Raises DatabaseTrouble."""
        self._scratch_lock = FileLock(scratch / "lock")  # so that no broker considers it left over from a dead one
        super().__init__(home, scratch, max_open_files, durable=False)
        self._sync_session = home.session("writer", _SYNC_MS)
        self._load_session = home.session("loader", _LOAD_MS)
        self._clean_session = home.session("cleaner", _LOAD_MS)
        self._drop_session = home.session("drawers", _LOAD_MS)
        self.writer = Writer(RowTable(home, self._sync_session))
        self._extents: tuple[int, dict[PartitionId, StoredExtent]] = -1, {}
        """Partitions that this broker leads in the tables, as of a version of the image."""
        self._ids: dict[SegmentedLog, PartitionId] = {}
        self._moved: set[PartitionId] = set()
        """Partitions whose start offset has moved since the last take."""

    # Leadership

    def leads(self, partition_id: PartitionId) -> bool:
        return super().leads(partition_id) and (partition_id in self._logs or self._is_new(partition_id))

    def wanted(self) -> list[PartitionId]:
        """Return partitions that this broker leads by the image and has not loaded."""
        return [
            partition_id
            for partition_id, _ in self.image.led_by(self.home.node_id)
            if partition_id not in self._logs
            and not self._is_new(partition_id)
            and super(PostgresStore, self).leads(partition_id)
        ]

    def load(self, partition_id: PartitionId) -> SegmentedLog:
        """Read a partition from its rows. Raises KeyError if it does not exist any more, and OSError."""
        image = self.image
        topic, epoch = image.topics[partition_id.topic_id], image.leader(partition_id).epoch
        name, config = TopicPartition(topic.name, partition_id.partition), self._config(topic)
        with self._load_session.doing() as connection:
            # Once the tables name this broker as the leader, no other broker appends.
            if self._extents[0] != image.version:
                self._extents = image.version, read_extents(connection, self.home.node_id)
            extent = self._extents[1][partition_id]
            if not extent.end_offset:
                return self._make(partition_id, name, config, epoch, Recovered())
            directory = self._directory(name)
            if directory.exists():
                self._move_aside(directory)
            directory.mkdir()
            last, size, within = None, 0, 0
            for base_offset, body, time_partition in read_rows(connection, partition_id, extent.start_offset):
                if last is None or size + len(body) > config.segment_bytes or time_partition != within:
                    last, size, within = segment_path(directory, base_offset), 0, time_partition
                with last.open("ab", buffering=0) as file:
                    file.write(body)
                size += len(body)
        # An empty last segment makes all loaded segments full: recovery reads only the headers of
        # full segments, and offsets continue after the last one, even if compaction removed its
        # records.
        segment_path(directory, extent.end_offset).touch()
        if extent.start_offset:
            write_durably(directory / START_OFFSET, str(extent.start_offset).encode())
        found = recover(directory, name, self._media(partition_id, directory, exists=True), may_have_gaps=True)
        return self._make(partition_id, name, config, epoch, found)

    def loaded(self, partition_id: PartitionId, log: SegmentedLog) -> bool:
        """Use a log that `load` returned; return False if another broker leads the partition now."""
        if not super().leads(partition_id) or self.image.leader(partition_id).epoch != log.leader_epoch:
            self._close(log)
            return False
        log.config = self._config(self._topic(partition_id.topic_id))
        self._logs[partition_id] = log
        return True

    def close_stopped(self, partition_ids: Collection[PartitionId]) -> None:
        left = [
            self._directory(self._logs[partition_id].name)
            for partition_id in partition_ids
            if partition_id in self._logs
        ]
        super().close_stopped(partition_ids)
        for directory in left:
            if directory.exists():
                self._move_aside(directory)

    def _is_new(self, partition_id: PartitionId) -> bool:
        """Return whether the partition had no leader before, so that there is nothing to load."""
        return self.image.leader(partition_id).epoch == self.image.first_epoch

    def _open(self, topic: Topic, partition: int) -> SegmentedLog:
        if not 0 <= partition < topic.partitions:
            raise KeyError(partition)
        partition_id = PartitionId(topic.topic_id, partition)
        name = TopicPartition(topic.name, partition)
        return self._make(partition_id, name, self._config(topic), self._leader_epoch(*partition_id), Recovered())

    def _make(
        self, partition_id: PartitionId, name: TopicPartition, config: LogConfig, epoch: int, found: Recovered
    ) -> SegmentedLog:
        directory = self._directory(name)
        log = SegmentedLog(
            name,
            config,
            epoch,
            self._media(partition_id, directory, exists=False),
            self._queue.note,
            partial(RowCompaction, self.files, directory, self._keep_sidecar, self._clean_session, partition_id, epoch),
            segments=found.segments,
            start_offset=found.start_offset,
            producers=found.producers,
            keep_start=lambda offset: self._moved.add(partition_id),
        )
        self._ids[log] = partition_id
        return log

    def _media(self, partition_id: PartitionId, directory: Path, *, exists: bool) -> Callable[[int], FileMedium]:
        def medium(base_offset: int) -> FileMedium:
            return RowMedium(
                self, segment_path(directory, base_offset), lambda: self._moved.add(partition_id), exists=exists
            )

        return medium

    def _config(self, topic: Topic) -> LogConfig:
        config = super()._config(topic)
        retention_term = term(config)
        # A segment is removed as a whole: one that grew for longer would outlive the table of its first rows.
        return (
            config
            if retention_term is None
            else replace(config, segment_ms=min(config.segment_ms, retention_term.roll_ms))
        )

    def drop_expired_time_partitions(self) -> list[str]:
        """Drop tables whose rows have expired, and create those that are needed next; return the dropped tables' names.

        Called in a thread of its own, because it waits for readers. Raises OSError.
        """
        return drop_expired_time_partitions(self._drop_session, {term(log.config) for log in list(self._logs.values())})

    def stop_clearing(self) -> None:
        """Cancel `drop_expired_time_partitions`: a broker that shuts down does not wait for readers."""
        self._drop_session.cancel()

    def _close(self, log: SegmentedLog) -> None:
        super()._close(log)
        self._ids.pop(log, None)

    def remove_deleted(self) -> None:
        super().remove_deleted()
        self.files.cleanup_tasks.append(self._forget_deleted)

    # Durability

    def take(self) -> PendingAppends | None:
        while self._moved:
            partition_id = self._moved.pop()
            if (log := self._logs.get(partition_id)) is not None:
                self.files.cleanup_tasks.append(
                    partial(self._move_start, partition_id, log.leader_epoch, log.start_offset)
                )
        return super().take()

    def _write(self, pending: PendingAppends) -> None:
        # Files first: if they reject the data, nothing needs to be undone in the database.
        super()._write(pending)
        appends = Appends()
        for log, queued in pending.logs:
            if not log.deleted:
                self._add(appends, log, queued)
        if appends.partitions:
            for seconds in self.writer.write(appends):
                time.sleep(seconds)

    def _add(self, appends: Appends, log: SegmentedLog, queued: list[Queued]) -> None:
        topic_id, number = self._ids[log]
        first, last = queued[0].headers[0].base_offset, queued[-1].headers[-1].next_offset
        appends.partitions.append((topic_id, number, log.leader_epoch, first, last))
        parts: list[Buffer] = []
        retention_term = term(log.config)
        for position, append in enumerate(queued):
            parts += append.parts
            following = queued[position + 1] if position + 1 < len(queued) else None
            if following is None or following.segment is not append.segment:
                until = append.headers[-1].next_offset
                appends.rows.append((topic_id, number, first, until, b"".join(parts)))
                appends.terms.append(retention_term)
                parts, first = [], until

    def _move_start(self, partition_id: PartitionId, epoch: int, start_offset: int) -> None:
        try:
            with self._sync_session.doing() as connection:
                move_start(connection, partition_id, epoch, start_offset)
        except OSError:
            self._moved.add(partition_id)  # retried after the next take
            raise

    def _forget_deleted(self) -> None:
        with self._sync_session.doing() as connection:
            forget_deleted(connection)

    def _release(self, *, clean: bool) -> None:
        super()._release(clean=clean)
        for session in (self._sync_session, self._load_session, self._clean_session, self._drop_session):
            session.close()
        self._scratch_lock.close()
        shutil.rmtree(self.path, ignore_errors=True)
