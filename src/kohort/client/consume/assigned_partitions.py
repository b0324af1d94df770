"""Assigned partitions of one consumer: their positions, pausing, and the records fetched from them.

The consumer decides which partitions are assigned and when records are handed out.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from kohort.client.arguments import partition_of, whole_number
from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.fetcher import Fetcher
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.partition_batch import PartitionBatch, PartitionValues
from kohort.client.consume.positioner import Positioner
from kohort.client.consume.unread import UnreadRecords
from kohort.client.net import Cluster
from kohort.client.offset_spec import OffsetSpec
from kohort.client.options import ConsumerOptions
from kohort.errors import KohortError
from kohort.member import OffsetAndMetadata
from kohort.model import TopicPartition


@dataclass(frozen=True, slots=True)
class _Left:
    """Records of one partition that were handed out before the application moved its position."""

    began_at: int
    """Offset of the last commit, or at which reading began."""
    ended_at: OffsetAndMetadata
    """Position before the move."""


class AssignedPartitions:
    """Partitions that one consumer reads. `on_news` is called when `take` has records or errors."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, on_news: Callable[[], None]) -> None:
        self.fetcher = Fetcher(cluster, options, on_news, self.find_positions, self._renewed)
        self.unread = UnreadRecords()
        """Records that were taken for iteration, or that follow one that could not be deserialized."""
        self.released: set[TopicPartition] = set()
        """Partitions that were removed after records of them were handed out and not committed."""
        self._left: dict[TopicPartition, _Left] = {}
        """Partitions that the application moved after records of them were handed out and not committed."""
        self._cluster = cluster
        self._on_news = on_news
        self._positioner = Positioner(cluster, options, self.fetcher, on_news)

    def all(self) -> frozenset[TopicPartition]:
        """Return the partitions that are currently assigned."""
        return frozenset(self.fetcher.states)

    def replace(self, wanted: set[TopicPartition]) -> set[TopicPartition]:
        """Read exactly these partitions and return those removed. Retained partitions keep their positions."""
        gone = self.fetcher.states.keys() - wanted
        self.remove(gone)
        self.fetcher.add(wanted - self.fetcher.states.keys())
        self._positioner.find_positions()
        return gone

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        gone = set(partitions)
        self.released |= gone & self._uncommitted().keys()
        for partition in gone:
            self._left.pop(partition, None)
        self.fetcher.remove(gone)
        self._positioner.forget(gone)
        self.unread.forget(gone)

    def state(self, partition: TopicPartition) -> PartitionState:
        """Return the state of a partition. Raises KohortError if it is not assigned."""
        wanted = partition_of(partition)
        try:
            return self.fetcher.states[wanted]
        except KeyError:
            raise KohortError(f"{wanted} is not assigned to this consumer.") from None

    # -- pausing

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching and taking records of these partitions."""
        for partition in partitions:
            state = self.state(partition)
            self.fetcher.pause(state)
            self.unread.hold(state.partition)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch and take records of these partitions again."""
        for partition in partitions:
            state = self.state(partition)
            state.paused = False
            self.unread.release(state.partition)
        self.fetcher.fetch_more()
        self._on_news()

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return frozenset(partition for partition, state in self.fetcher.states.items() if state.paused)

    # -- positions

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record to be handed out; None if it is unknown."""
        state = self.state(partition)
        return None if state.position is None else self._handed_out(state)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the known positions of all partitions."""
        return {
            partition: self._handed_out(state)
            for partition, state in self.fetcher.states.items()
            if state.position is not None
        }

    def offsets_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the known positions with the epochs and topic IDs of the records read."""
        return {
            partition: self._to_commit(state)
            for partition, state in self.fetcher.states.items()
            if state.position is not None
        }

    def _to_commit(self, state: PartitionState) -> OffsetAndMetadata:
        return OffsetAndMetadata(self._handed_out(state), "", state.leader_epoch, state.topic_id)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Begin again at these offsets after an aborted transaction."""
        self.released -= offsets.keys()
        for partition, committed in offsets.items():
            left = self._left.pop(partition, None)
            if left is not None and left.ended_at == committed:
                continue  # the commit is of the records before the move, and reading began again after it
            if (state := self.fetcher.states.get(partition)) is not None and state.position is not None:
                state.restart = committed.offset

    def uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of the partitions with records that were handed out since the last commit."""
        states = self.fetcher.states
        return {
            partition: self._left[partition].ended_at
            if states[partition].position is None
            else self._to_commit(states[partition])
            for partition in self._uncommitted()
        }

    def restart(self) -> None:
        """Continue from the last commit, or where reading began."""
        self.released.clear()
        began_at, self._left = self._uncommitted(), {}
        for partition, offset in began_at.items():
            self._move(self.state(partition), offset)

    def _uncommitted(self) -> dict[TopicPartition, int]:
        """Return the last commit of the partitions with records that were handed out since."""
        began_at = ((partition, self._began_at(state)) for partition, state in self.fetcher.states.items())
        return {partition: offset for partition, offset in began_at if offset is not None}

    def _began_at(self, state: PartitionState) -> int | None:
        """Return the last commit, or where reading began; None if nothing was handed out since."""
        left = self._left.get(state.partition)
        if left is not None:
            return left.began_at
        return None if state.position is None or self._handed_out(state) == state.restart else state.restart

    def _leave(self, states: Iterable[PartitionState]) -> None:
        """Keep what the next commit or abort needs of partitions that the application moves now."""
        for state in states:
            began_at = self._began_at(state)
            if began_at is not None and state.position is not None:
                self._left[state.partition] = _Left(began_at, self._to_commit(state))

    def with_topic_ids(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Add the IDs of the topics read, so that a commit never applies to a new topic of the same name."""
        identified = dict(offsets)
        for partition, state in self.fetcher.states.items():
            position = identified.get(partition)
            if position is not None and position.topic_id is None:
                identified[partition] = position._replace(topic_id=state.topic_id)
        return identified

    def find_positions(self) -> None:
        """Start looking up the partitions that have no position."""
        self._positioner.find_positions()

    async def position_progress(self) -> None:
        """Wait until a request for positions is answered, at most retry_backoff_ms."""
        await self._positioner.progress()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue from this offset."""
        at = whole_number("the offset", offset)
        state = self.state(partition)
        self._leave([state])
        self._move(state, at)

    def _move(self, state: PartitionState, at: int) -> None:
        self.unread.forget({state.partition})
        state.move(at, None, self._cluster.metadata.topic_id(state.partition.topic))
        self.fetcher.fetch_more()

    def reset(self, partitions: Collection[TopicPartition], spec: OffsetSpec) -> None:
        """Continue from this offset of these partitions, or of all if there are none."""
        wanted = [self.state(partition) for partition in partitions] or list(self.fetcher.states.values())
        self._leave(wanted)
        self.unread.forget({state.partition for state in wanted})
        for state in wanted:
            state.lose(spec)
        self._positioner.find_positions()

    def start_at(self, partition: TopicPartition, committed: OffsetAndMetadata) -> None:
        """Continue from the committed offset, unless the partition is gone or has a position or a seek."""
        state = self.fetcher.states.get(partition)
        if state is not None and state.position is None and state.reset is None:
            state.committed = committed
            state.move(committed.offset, committed.leader_epoch, committed.topic_id)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return the number of records after the position as of the last fetch; None before that."""
        state = self.state(partition)
        if state.end is None or state.position is None:
            return None
        return max(0, state.end - self._handed_out(state))

    def lags(self) -> dict[TopicPartition, int | None]:
        """Return the lag of all partitions."""
        return {partition: self.lag(partition) for partition in self.fetcher.states}

    def _handed_out(self, state: PartitionState) -> int:
        assert state.position is not None
        unread = self.unread.first_offset(state.partition)
        return state.position if unread is None else unread

    def _renewed(self, partition: TopicPartition) -> None:
        self._left.pop(partition, None)
        self.unread.forget({partition})

    # -- handing out records

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to `most` records. Raises the error of a partition."""
        return self.unread.take(most) if self.unread else self.fetcher.take(most)

    def read_ahead(self, most: int) -> list[UnreadRecords]:
        """Take up to `most` records for an iteration, unless some are unread. Return `unread` if it has records."""
        if not self.unread:
            self.unread.extend(self.fetcher.take_runs(most))
        return [self.unread] if self.unread else []

    def take_columns(self, most: int) -> list[PartitionBatch]:
        """Return up to `most` records as Arrow batches. Raises the error of a partition."""
        return self.unread.take_columns(most) if self.unread else self.fetcher.take_columns(most)

    def take_values(self, most: int) -> list[PartitionValues]:
        """Return only the values of up to `most` records. Raises the error of a partition."""
        return self.unread.take_values(most) if self.unread else self.fetcher.take_values(most)

    def raise_error(self) -> None:
        """Raise the error of a position lookup, once."""
        self._positioner.raise_error()

    async def close(self) -> None:
        """Stop all lookups and fetches."""
        await self._positioner.close()
        await self.fetcher.close()
