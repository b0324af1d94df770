"""Handling of failed fetches, according to the error table."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from kohort.client.consume.partition import PartitionState
from kohort.client.consume.pending_errors import PendingErrors
from kohort.client.consume.read_replicas import ReadReplicas
from kohort.client.error_table import Operation, Reaction, explained, reaction
from kohort.client.failures import OffsetOutOfRangeError
from kohort.client.net import Cluster, EarliestTimer, FailureLog, back_off
from kohort.client.options import ConsumerOptions
from kohort.client.reset import reset_policy
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.wire.batches import BatchError

_log = logging.getLogger(__name__)


class FetchErrors:
    """Fetch errors of one consumer.

    `later` fires when a partition may be fetched again. `on_news` is called when there is an error
    to raise, `on_lost` when a position has to be looked up.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        replicas: ReadReplicas,
        later: EarliestTimer,
        on_news: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._replicas = replicas
        self._later = later
        self._on_news = on_news
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._policy = reset_policy(options.auto_offset_reset)
        self._pending_errors = PendingErrors()
        self._failures = FailureLog(_log, self._loop.time, "not fetched", "fetched again")

    # -- interface to the fetcher

    def has_pending_error(self, state: PartitionState) -> bool:
        """Return whether fetching of the partition waits until its error has been raised."""
        return self._pending_errors.holds(state)

    def raise_error(self) -> None:
        """Raise the error of a partition whose fetched records have all been handed out.

        The partition is fetched again after a backoff.
        """
        states, error = self._pending_errors.take(lambda state: not state.paused and not state.has_records)
        if error is not None:
            self._back_off(states)
            raise error

    def succeeded(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that these partitions were fetched."""
        self._failures.succeeded(partitions)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Discard the failures of partitions that are no longer fetched."""
        self._failures.forget(partitions)

    # -- failures

    def unreachable(self, states: Collection[PartitionState], problem: KafkaError) -> None:
        """Handle a broker that did not answer or rejected the whole request."""
        states = self._of_leaders(states, f"failed: {problem.sentence}")
        if not states:
            return
        if reaction(Operation.FETCH_REQUEST, problem.code) is Reaction.RAISE:
            self._raise_later(states, problem)
        else:
            self._retry(states, problem.code, problem.sentence)

    def leaderless(self, state: PartitionState, problem: KafkaError) -> None:
        """Handle a partition without a leader in the metadata.

        If the error concerns the whole topic, `Refresher` logs it.
        """
        topic = self._cluster.metadata.topics.get(state.partition.topic)
        if reaction(Operation.METADATA, problem.code) is Reaction.RAISE:
            self._raise_later([state], problem)
        elif topic is None or topic.error is problem.code:
            self._back_off([state])
        else:
            self._retry([state], problem.code)

    def refused(self, codes: Mapping[PartitionState, tuple[ErrorCode, int]]) -> None:
        """Handle the error codes that the broker returned for partitions, with the fetch offset of each."""
        retried: Mapping[ErrorCode, list[PartitionState]] = defaultdict(list)
        for state, (code, offset) in codes.items():
            if not self._of_leaders([state], f"answered {code.name}: {code.sentence}"):
                continue
            match reaction(Operation.FETCH, code):
                case Reaction.RAISE:
                    detail = f"{state.partition} at offset {offset}: {explained(code)}"
                    self._raise_later([state], KafkaError(code, detail))
                case Reaction.RESET:
                    self._out_of_range(state, offset)
                case _:
                    retried[code].append(state)
        for code, states in retried.items():
            self._retry(states, code)

    def left_out(self, states: Collection[PartitionState]) -> None:
        """Handle partitions that were requested but are missing from the broker's response."""
        why = "the broker's answer lacks the partition"
        if states := self._of_leaders(states, why):
            self._retry(states, ErrorCode.UNKNOWN_SERVER_ERROR, why)

    def of_another_topic(self, state: PartitionState) -> None:
        """Handle a partition whose topic ID the metadata does not have: another topic has its name."""
        self._retry([state], ErrorCode.UNKNOWN_TOPIC_ID)

    def damaged(self, state: PartitionState, code: ErrorCode, what: str) -> None:
        """Handle fetched bytes that are not a valid batch."""
        self._raise_later([state], BatchError(code, f"{what}; seek past it to skip it"))

    def _of_leaders(self, states: Iterable[PartitionState], why: str) -> Collection[PartitionState]:
        """Return the partitions that were fetched from their leaders.

        The others return to their leaders, whose responses decide.
        """
        found = []
        for state in states:
            if self._replicas.give_up(state, why):
                self._back_off([state])
            else:
                found.append(state)
        return found

    def _out_of_range(self, state: PartitionState, offset: int) -> None:
        if self._policy is None:
            self._raise_later([state], OffsetOutOfRangeError(state.partition, offset))
        elif state.has_records:
            # The records fetched before are still valid; the position is lost only once they are
            # handed out.
            self._back_off([state])
        else:
            _log.warning("reset: partition=%s offset=%d is out of range", state.partition, offset)
            again = state.failures
            state.lose(self._policy)
            if again:  # the offset that the reset found was out of range, too
                self._back_off([state])
            state.failures += 1
            self._on_lost()

    def _retry(self, states: Collection[PartitionState], code: ErrorCode, sentence: str | None = None) -> None:
        self._back_off(states)
        self._cluster.want_metadata()
        self._failures.failed([state.partition for state in states], code, explained(code, sentence))

    def _raise_later(self, states: Collection[PartitionState], error: KohortError) -> None:
        self._pending_errors.add(states, error)
        self._on_news()

    def _back_off(self, states: Iterable[PartitionState]) -> None:
        for state in states:
            state.failures += 1
            state.retry_at = self._loop.time() + back_off(self._options, state.failures)
            self._later.by(state.retry_at)
