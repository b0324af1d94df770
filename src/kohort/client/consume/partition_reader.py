"""Assigned partitions: their positions, pausing, and the offsets of their logs.

The consumer decides which partitions are assigned and when records are handed out.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kohort.client.arguments import partition_of, whole
from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.fetcher import Fetcher
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.partition_batch import PartitionBatch
from kohort.client.consume.positioner import Positioner
from kohort.client.consume.unread import UnreadRecords
from kohort.client.net.cluster import Cluster
from kohort.client.net.not_kafka import copied
from kohort.client.net.offsets import FoundOffset, list_offsets
from kohort.client.offset_spec import OffsetSpec
from kohort.client.options import ConsumerOptions, read_options
from kohort.errors import KohortError
from kohort.model import Millis, TopicPartition


class PartitionReader:
    """Base of the consumer: everything that does not involve groups."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = read_options(ConsumerOptions, options)
        self.cluster = Cluster(self._options)
        """Client's view of the cluster, for inspection."""
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        """Event that makes a waiting poll check again."""
        self._fetcher = Fetcher(self.cluster, self._options, self._news.set, self._find_positions, self._renewed)
        self._positioner = Positioner(self.cluster, self._options, self._fetcher, self._news.set)
        self._unread = UnreadRecords()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that are currently assigned."""
        return frozenset(self._fetcher.states)

    # -- pausing

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop returning records of these partitions until `resume`; they stay assigned."""
        for partition in partitions:
            self._fetcher.pause(self._state(partition))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again."""
        for partition in partitions:
            self._state(partition).paused = False
        self._fetcher.go_on()
        self._news.set()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """Partitions that are paused."""
        return frozenset(partition for partition, state in self._fetcher.states.items() if state.paused)

    # -- positions

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to be returned, waiting until it is known."""
        state = self._state(partition)
        while state.position is None:
            self._raise_errors()
            await self._positioner.progress()
            self._state(partition)
        return self._handed_out(state)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the known positions of all assigned partitions, which `commit` commits."""
        return {
            partition: self._handed_out(state)
            for partition, state in self._fetcher.states.items()
            if state.position is not None
        }

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from this offset."""
        at = whole("the offset", offset)
        state = self._state(partition)
        self._unread.forget({state.partition})
        state.move(at)
        self._fetcher.go_on()

    def seek_to_beginning(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue from the first offset of these partitions, or of all assigned ones."""
        self._reset(partitions, OffsetSpec.EARLIEST)

    def seek_to_end(self, partitions: Collection[TopicPartition] = ()) -> None:
        """Continue from the end of these partitions, or of all assigned ones."""
        self._reset(partitions, OffsetSpec.LATEST)

    def _reset(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> None:
        wanted = [self._state(partition) for partition in partitions] or list(self._fetcher.states.values())
        self._unread.forget({state.partition for state in wanted})
        for state in wanted:
            state.lose(spec)
        self._positioner.go_on()

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of records after the position as of the last fetch; None before that."""
        state = self._state(partition)
        if state.end is None or state.position is None:
            return None
        return max(0, state.end - self._handed_out(state))

    def lags(self) -> dict[TopicPartition, int | None]:
        """Return the lag of all assigned partitions."""
        return {partition: self.lag(partition) for partition in self._fetcher.states}

    def _handed_out(self, state: PartitionState) -> int:
        assert state.position is not None
        unread = self._unread.first_offset(state.partition)
        return state.position if unread is None else unread

    # -- offsets of the logs

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first readable offset of each partition."""
        return await self._ends(partitions, OffsetSpec.EARLIEST)

    async def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the next record to be appended to each partition."""
        return await self._ends(partitions, OffsetSpec.LATEST)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, Millis]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return the offset of the first record at or after each timestamp; None if all are older."""
        return await list_offsets(self.cluster, times)

    async def _ends(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        committed = self._options.isolation_level == "read_committed"
        found = await list_offsets(self.cluster, dict.fromkeys(partitions, spec), read_committed=committed)
        return {partition: one.offset for partition, one in found.items() if one is not None}

    async def partitions_for(self, topic: str) -> int:
        """Return the topic's partition count; 0 if it does not exist."""
        return (await self.cluster.refresh((topic,))).partitions(topic)

    # -- handing out records

    def _take(self, most: int) -> list[ConsumerRecord]:
        return self._unread.take(most) if self._unread else self._fetcher.take(most)

    def _take_columns(self, most: int) -> list[PartitionBatch]:
        return self._unread.take_columns(most) if self._unread else self._fetcher.take_columns(most)

    # -- bookkeeping

    def _set_assignment(self, wanted: set[TopicPartition]) -> None:
        """Read exactly these partitions; retained partitions keep their positions."""
        self._drop(self._fetcher.states.keys() - wanted)
        self._fetcher.add(wanted - self._fetcher.states.keys())
        self._positioner.go_on()

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        self._fetcher.remove(gone)
        self._positioner.forget(gone)
        self._unread.forget(gone)

    def _find_positions(self) -> None:
        self._positioner.go_on()

    def _renewed(self, partition: TopicPartition) -> None:
        self._unread.forget({partition})

    def _state(self, partition: TopicPartition) -> PartitionState:
        wanted = partition_of(partition)
        try:
            return self._fetcher.states[wanted]
        except KeyError:
            raise KohortError(f"{wanted} is not assigned to this consumer.") from None

    def _raise_problem(self) -> None:
        problem = self.cluster.problem
        if problem is not None and not problem.retriable:
            raise copied(problem)

    def _raise_errors(self) -> None:
        self._raise_problem()
        self._positioner.raise_error()

    async def _stop_reading(self) -> None:
        await self._positioner.close()
        await self._fetcher.close()
        await self.cluster.close()
