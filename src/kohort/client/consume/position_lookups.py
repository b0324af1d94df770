"""The three requests that determine positions: committed offsets, reset offsets and epoch end offsets.

Each request covers partitions that one broker can answer for, and is sent once. Each lookup returns
the errors of the partitions for which it found no position.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from kohort.client.consume.leader_epochs import ask_epoch_ends
from kohort.client.consume.partition import PartitionState
from kohort.client.failures import LogTruncatedError, NoOffsetError
from kohort.client.membership import ask_committed
from kohort.client.net import Cluster, ask_offsets, leader_epoch
from kohort.client.offset_spec import OffsetSpec
from kohort.client.options import ConsumerOptions
from kohort.client.reset import ByDuration, Reset, reset_policy
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition
from kohort.requests import FoundOffset, PartitionResults

_log = logging.getLogger(__name__)

_R = TypeVar("_R")

Turns = Mapping[TopicPartition, tuple[PartitionState, int]]
"""Partitions of one request with their turns. A response to an earlier turn changes nothing."""

Errors = dict[TopicPartition, KohortError]


class PositionLookups:
    """Position lookups of one consumer, which move the positions of the partitions found."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._group_id = options.group_id
        self._policy = reset_policy(options.auto_offset_reset)
        self._read_committed = options.isolation_level == "read_committed"

    async def ask_committed(self, turns: Turns) -> Errors:
        """Request committed offsets from the group's coordinator. Raises KafkaError."""
        assert self._group_id
        ids = self._topic_ids(turns)

        def place(state: PartitionState, position: OffsetAndMetadata | None) -> KohortError | None:
            state.committed = position
            if position is None:
                return self.resets(state)
            state.move(position.offset, position.leader_epoch, ids[state.partition.topic])
            return None

        answer = await ask_committed(self._cluster, self._group_id, list(turns), ids)
        return _placed(turns, answer, place)

    def _topic_ids(self, turns: Turns) -> dict[str, UUID | None]:
        """Return the IDs of the topics of these partitions, before they are asked for.

        They may change before the answer arrives, and a position is valid only in the topic for
        which it was found.
        """
        known = self._cluster.metadata
        return {
            partition.topic: state.granted or known.topic_id(partition.topic) for partition, (state, _) in turns.items()
        }

    def resets(self, state: PartitionState) -> NoOffsetError | None:
        """Apply auto_offset_reset if the partition has neither a committed offset nor a seek.

        Return an error if no reset policy is set.
        """
        state.reset = state.reset or self._policy
        if state.reset is not None:
            return None
        return NoOffsetError(
            f"{state.partition} has no committed offset and auto_offset_reset is none: seek, or set it."
        )

    async def ask_offsets(self, node: int, turns: Turns) -> Errors:
        """Request the reset offsets of these partitions from their leader. Raises KafkaError."""
        now = int(time.time() * 1000)
        asked = {partition: _spec(state.reset, now) for partition, (state, _) in turns.items()}
        ids = self._topic_ids(turns)

        def place(state: PartitionState, found: FoundOffset | None) -> KohortError | None:
            if found is not None:
                state.move(found.offset, None, ids[state.partition.topic])
            elif isinstance(asked[state.partition], OffsetSpec):
                return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
            else:
                state.reset = OffsetSpec.LATEST  # every record is older than the duration allows
            return None

        connection = await self._cluster.connection(node)
        answer = await ask_offsets(self._cluster, connection, asked, read_committed=self._read_committed)
        return _placed(turns, answer, place)

    async def ask_epochs(self, node: int, turns: Turns) -> Errors:
        """Ask a new leader whether it has the records fetched from the previous one (KIP-320).

        Raises KafkaError.
        """
        epochs = {partition: leader_epoch(self._cluster, partition) for partition in turns}
        fetched = {partition: state.fetch_epoch for partition, (state, _) in turns.items()}

        def compare(state: PartitionState, end: int | None) -> KohortError | None:
            if state.fetch_epoch != fetched[state.partition]:
                return None  # a fetch meanwhile returned records of a later epoch; the next check uses it
            try:
                if self._has(state, end):
                    state.checked_epoch = epochs[state.partition]
            except LogTruncatedError as truncated:
                return truncated
            return None

        asked = {partition: epoch for partition, epoch in fetched.items() if epoch is not None}
        try:
            connection = await self._cluster.connection(node)
            answer = await ask_epoch_ends(self._cluster, connection, asked)
        except KafkaError as problem:
            if problem.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            answer = {partition: state.fetch_at for partition, (state, _) in turns.items()}, {}  # too old to answer
        return _placed(turns, answer, compare)

    def _has(self, state: PartitionState, end: int | None) -> bool:
        """Return whether a log that ends at `end` has all fetched records; if not, move back to its end."""
        position = state.position
        assert position is not None
        if end is not None and end >= state.fetch_at:
            return True
        if end is not None and end >= position:
            _log.warning("truncated: partition=%s at=%d, before it was handed out", state.partition, end)
            state.unfetch()
            return False
        if self._policy is None:
            raise LogTruncatedError(state.partition, position, end)
        _log.warning("truncated: partition=%s at=%s, behind the position %d", state.partition, end, position)
        if end is None:
            state.lose(self._policy)
        else:
            state.move(end)
        return False


def _placed(
    turns: Turns, answer: PartitionResults[_R], place: Callable[[PartitionState, _R], KohortError | None]
) -> Errors:
    """Apply the result to each partition that has not been moved since."""
    found, refused = answer
    errors: Errors = dict(refused)
    for partition, (state, turn) in turns.items():
        if partition not in found:
            left_out = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition}: the answer lacks this partition")
            errors.setdefault(partition, left_out)
        elif state.turn == turn and (error := place(state, found[partition])) is not None:
            errors[partition] = error
    return errors


def _spec(reset: Reset | None, now: Millis) -> OffsetSpec | Millis:
    assert reset is not None
    return max(0, now - reset.back_ms) if isinstance(reset, ByDuration) else reset
