"""Offsets of one consumer: what was delivered, what is stored for the next commit, and commits in flight."""

import time
from collections.abc import Collection, Iterable
from concurrent.futures import CancelledError, Future, wait
from typing import Any

from kohort.client import CommitFailedError, FoundOffset, KohortError, OffsetAndMetadata
from kohort.compat.confluent.clients import OneRecordConsumer
from kohort.compat.confluent.configuration import Configuration
from kohort.compat.confluent.errors import KafkaError, KafkaException, error_of, raising
from kohort.compat.confluent.values import OFFSET_END, Message, TopicPartition, partition_of, with_position
from kohort.model import TopicPartition as Partition

Offsets = dict[Partition, OffsetAndMetadata]

_WAIT_S = 30.0
"""Maximum time for which `close` waits for commits in flight."""


class OffsetStore:
    """Offsets that `commit` commits, and positions after the messages that the application has received."""

    def __init__(self, client: OneRecordConsumer, configuration: Configuration) -> None:
        self._client = client
        self._configuration = configuration
        self._positions: Offsets = {}
        self._stored: Offsets = {}
        self._in_flight: list[tuple[Future[None], Offsets]] = []
        self._commit_at = time.monotonic() + (configuration.auto_commit_s or 0.0)

    def deliver(self, partition: Partition, offset: int, epoch: int | None) -> None:
        """Note that the application has received the records of a partition up to this offset."""
        after = self._positions[partition] = OffsetAndMetadata(offset + 1, "", epoch)
        if self._configuration.store_offsets:
            self._stored[partition] = after

    def position(self, partition: Partition) -> TopicPartition:
        """Return the offset after the last message that was received since the partition was assigned."""
        self._client.note_delivered()
        at = self._positions.get(partition)
        return (
            TopicPartition(*partition) if at is None else TopicPartition(*partition, at.offset, None, at.leader_epoch)
        )

    def store(self, offsets: Offsets) -> None:
        """Store these offsets for the next commit. Raises KafkaException for a partition that is not assigned."""
        if self._configuration.store_offsets:
            raise KafkaException(
                KafkaError(KafkaError._INVALID_ARG, "store_offsets requires enable.auto.offset.store=False")
            )
        if missing := offsets.keys() - self._client.assignment:
            listed = ", ".join(str(partition) for partition in sorted(missing))
            raise KafkaException(KafkaError(KafkaError._STATE, f"{listed}: not assigned to this consumer"))
        self._stored.update(offsets)

    def keep_only(self, partitions: Collection[Partition]) -> None:
        """Forget all other partitions."""
        self._client.note_delivered()
        for partition in (self._positions.keys() | self._stored.keys()) - set(partitions):
            self.forget([partition])

    def forget(self, partitions: Iterable[Partition]) -> None:
        """Forget these partitions, which are assigned no more."""
        self._client.note_delivered()
        for partition in partitions:
            self._positions.pop(partition, None)
            self._stored.pop(partition, None)

    # -- commits

    def stored(self) -> Offsets:
        """Return the offsets that a commit without arguments commits."""
        self._client.note_delivered()
        return dict(self._stored)

    def commit(self, offsets: Offsets) -> list[TopicPartition]:
        """Commit and wait. Return the partitions, with an error where the broker rejected only some."""
        rejected: dict[Partition, KafkaError] = {}
        try:
            with raising("Consumer closed"):
                self._client.commit(offsets)
        except KafkaException as problem:
            cause = problem.__cause__
            if not isinstance(cause, CommitFailedError) or cause.errors.keys() >= offsets.keys():
                raise
            rejected = {partition: KafkaError(code) for partition, code in cause.errors.items()}
        self._committed(offsets, rejected)
        return _listed(offsets, rejected)

    def _committed(self, offsets: Offsets, rejected: Collection[Partition]) -> None:
        """Keep only stored offsets that are not committed yet."""
        self._client.note_delivered()
        for partition, at in offsets.items():
            stored = self._stored.get(partition)
            if stored is not None and stored.offset <= at.offset and partition not in rejected:
                del self._stored[partition]

    def commit_soon(self, offsets: Offsets) -> None:
        """Start a commit. `serve` calls on_commit when it has ended."""
        with raising("Consumer closed"):
            self._in_flight.append((self._client.commit_nowait(offsets), offsets))

    def commit_stored(self, partitions: Collection[Partition] | None = None) -> None:
        """Commit the stored offsets of these partitions, or of all, if the adapter commits automatically."""
        if self._configuration.auto_commit_s is None:
            return
        self._client.note_delivered()
        offsets = {at: stored for at, stored in self._stored.items() if partitions is None or at in partitions}
        if offsets:
            self.commit_soon(offsets)
            self.finish()

    def serve(self) -> None:
        """Start an automatic commit if it is due, and report commits that have ended."""
        every_s = self._configuration.auto_commit_s
        if every_s is not None and time.monotonic() >= self._commit_at:
            self._commit_at = time.monotonic() + every_s
            if stored := self.stored():
                self.commit_soon(stored)
        for commit in [commit for commit in self._in_flight if commit[0].done()]:
            self._in_flight.remove(commit)
            self._report(*commit)

    def finish(self) -> None:
        """Wait for the commits in flight, and report them."""
        wait([future for future, _ in self._in_flight], _WAIT_S)
        self.serve()

    def _report(self, future: "Future[None]", offsets: Offsets) -> None:
        rejected: dict[Partition, KafkaError] = {}
        error: KafkaError | None = None
        try:
            future.result()
        except CommitFailedError as problem:
            rejected = {partition: KafkaError(code) for partition, code in problem.errors.items()}
            error = error_of(problem)
        except (KohortError, CancelledError) as problem:
            error = error_of(problem)
        else:
            self._committed(offsets, ())
        if self._configuration.on_commit is not None:
            self._configuration.on_commit(error, _listed(offsets, rejected))
        elif error is not None:
            self._configuration.log.error("a commit failed: %s", error)


def with_found_offset(partition: Partition, at: FoundOffset | None) -> TopicPartition:
    """Return a partition with the offset of a record, or with OFFSET_END if there is none."""
    if at is None:
        return TopicPartition(*partition, OFFSET_END)
    return TopicPartition(*partition, at.offset, None, at.leader_epoch)


def _listed(offsets: Offsets, rejected: dict[Partition, KafkaError]) -> list[TopicPartition]:
    found = [with_position(partition, at) for partition, at in sorted(offsets.items())]
    for each in found:
        each.error = rejected.get(partition_of(each))
    return found


def chosen_offsets(message: Message | None, offsets: Any) -> Offsets | None:
    """Return the offsets that `commit` and `store_offsets` were given, or None if there are none."""
    if message is not None and offsets is not None:
        raise ValueError("message and offsets are mutually exclusive")
    if message is not None:
        return _after(message)
    if offsets is None:
        return None
    chosen: Offsets = {}
    for each in offsets:
        if each.offset >= 0:
            chosen[partition_of(each)] = OffsetAndMetadata(each.offset, each.metadata or "", each.leader_epoch)
    return chosen


def _after(message: Message) -> Offsets:
    error, topic, partition, offset = message.error(), message.topic(), message.partition(), message.offset()
    if error is not None or topic is None or partition is None or offset is None:
        raise ValueError(f"the message is no record that can be committed: {error}")
    return {Partition(topic, partition): OffsetAndMetadata(offset + 1, "", message.leader_epoch())}
