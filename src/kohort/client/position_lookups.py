"""The three requests that place a partition: committed offsets, offsets of a reset, and what a new leader has.

Each is asked once, for partitions that one broker can answer for. Returns the error of each that it did not place.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from kohort.client.cluster import Cluster
from kohort.client.committed import ask_committed
from kohort.client.epochs import ask_epoch_ends
from kohort.client.failures import LogTruncatedError, NoOffsetError
from kohort.client.leaders import Answer, leader_epoch
from kohort.client.offset_spec import OffsetSpec
from kohort.client.offsets import FoundOffset, ask_offsets
from kohort.client.options import ConsumerOptions
from kohort.client.partition import PartitionState
from kohort.client.reset import ByDuration, Reset, reset_policy
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.member import OffsetAndMetadata
from kohort.model import UUID, Millis, TopicPartition

_log = logging.getLogger(__name__)

_R = TypeVar("_R")

Turns = Mapping[TopicPartition, tuple[PartitionState, int]]
"""The partitions of one request, each as of its turn: an answer to an earlier turn changes nothing."""

Errors = dict[TopicPartition, KohortError]


class PositionLookups:
    """Of one consumer. Moves the positions of those that it finds."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions) -> None:
        self._cluster = cluster
        self._group_id = options.group_id
        self._policy = reset_policy(options.auto_offset_reset)
        self._read_committed = options.isolation_level == "read_committed"
        self._stale_ids: dict[str, UUID] = {}
        """Topic ids that the coordinator does not know; it is asked by the names of these topics."""

    async def ask_committed(self, turns: Turns) -> Errors:
        """Ask the group's coordinator. Raises KafkaError."""
        assert self._group_id
        ids = {partition.topic: self._cluster.metadata.topic_id(partition.topic) for partition in turns}
        by_id = {name: topic_id for name, topic_id in ids.items() if topic_id != self._stale_ids.get(name)}
        found, refused = await ask_committed(self._cluster, self._group_id, list(turns), by_id)
        for partition, problem in refused.items():
            asked_by = by_id.get(partition.topic)
            if problem.code is ErrorCode.UNKNOWN_TOPIC_ID and asked_by is not None:
                self._stale_ids[partition.topic] = asked_by
        return _placed(turns, (found, refused), self._place_committed)

    def _place_committed(self, state: PartitionState, position: OffsetAndMetadata | None) -> KohortError | None:
        if position is None:
            return self.resets(state)
        state.move(position.offset, position.leader_epoch)
        return None

    def resets(self, state: PartitionState) -> NoOffsetError | None:
        """Have auto_offset_reset place it, if neither a committed offset nor a seek does."""
        state.reset = state.reset or self._policy
        if state.reset is not None:
            return None
        return NoOffsetError(
            f"{state.partition} has no committed offset and auto_offset_reset is none: seek, or set it."
        )

    async def ask_offsets(self, node: int, turns: Turns) -> Errors:
        """Ask a leader where the resets of these lead. Raises KafkaError."""
        now = int(time.time() * 1000)
        asked = {partition: _spec(state.reset, now) for partition, (state, _) in turns.items()}

        def place(state: PartitionState, found: FoundOffset | None) -> KohortError | None:
            if found is not None:
                state.move(found.offset)
            elif isinstance(asked[state.partition], OffsetSpec):
                return KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
            else:
                state.reset = OffsetSpec.LATEST  # every record there is older than the duration asks for
            return None

        connection = await self._cluster.connection(node)
        answer = await ask_offsets(self._cluster, connection, asked, read_committed=self._read_committed)
        return _placed(turns, answer, place)

    async def ask_epochs(self, node: int, turns: Turns) -> Errors:
        """KIP-320: ask a new leader whether it has what was fetched from the one before. Raises KafkaError."""
        epochs = {partition: leader_epoch(self._cluster, partition) for partition in turns}
        fetched = {partition: state.fetch_epoch for partition, (state, _) in turns.items()}

        def compare(state: PartitionState, end: int | None) -> KohortError | None:
            if state.fetch_epoch != fetched[state.partition]:
                return None  # a fetch brought records of a later epoch meanwhile; the next check asks for that one
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
            answer = {partition: state.fetch_at for partition, (state, _) in turns.items()}, {}  # too old to say
        return _placed(turns, answer, compare)

    def _has(self, state: PartitionState, end: int | None) -> bool:
        """Whether a log that ends there for us has all that was fetched; if not, go back to where it ends."""
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


def _placed(turns: Turns, answer: Answer[_R], place: Callable[[PartitionState, _R], KohortError | None]) -> Errors:
    """Give each partition what was found for it, unless it was moved meanwhile."""
    found, refused = answer
    errors: Errors = dict(refused)
    for partition, (state, turn) in turns.items():
        if partition not in found:
            left_out = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{partition}: the answer leaves this partition out")
            errors.setdefault(partition, left_out)
        elif state.turn == turn and (error := place(state, found[partition])) is not None:
            errors[partition] = error
    return errors


def _spec(reset: Reset | None, now: Millis) -> OffsetSpec | Millis:
    assert reset is not None
    return max(0, now - reset.back_ms) if isinstance(reset, ByDuration) else reset
