"""What becomes of the partitions of a fetch that failed, by the table of errors."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from kohort.client.alarm import Alarm
from kohort.client.backoff import back_off
from kohort.client.cluster import Cluster
from kohort.client.error_table import Operation, Reaction, explained, reaction
from kohort.client.failure_log import FailureLog
from kohort.client.options import ConsumerOptions
from kohort.client.partition import PartitionState
from kohort.client.read_replicas import ReadReplicas
from kohort.client.reset import reset_policy
from kohort.client.untold_errors import UntoldErrors
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition
from kohort.wire.records import BatchError

_log = logging.getLogger(__name__)


class FetchErrors:
    """Of one consumer. `later` is rung when a partition may be fetched again; `on_news` says that there is an error to
    raise, `on_lost` that a position is to be found."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        replicas: ReadReplicas,
        later: Alarm,
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
        self._untold = UntoldErrors()
        self._failures = FailureLog(_log, self._loop.time, "not fetched", "fetched again")

    # -- what its owner asks

    def waits_to_be_told(self, state: PartitionState) -> bool:
        """Whether nothing is fetched of it until its error was raised."""
        return self._untold.holds(state)

    def raise_error(self) -> None:
        """Raise the error of a partition of which everything was handed out. It is fetched again after a pause."""
        states, error = self._untold.take(lambda state: not state.paused and not state.has_records)
        if error is not None:
            self._back_off(states)
            raise error

    def succeeded(self, partitions: Iterable[TopicPartition]) -> None:
        """These were fetched."""
        self._failures.succeeded(partitions)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are fetched no longer."""
        self._failures.forget(partitions)

    # -- what went wrong

    def unreachable(self, states: Collection[PartitionState], problem: KafkaError) -> None:
        """The broker did not answer, or refused the whole request."""
        for state in states:
            self._replicas.give_up(state, f"failed: {problem.sentence}")
        if reaction(Operation.FETCH_REQUEST, problem.code) is Reaction.RAISE:
            self._raise_later(states, problem)
        else:
            self._retry(states, problem.code, problem.sentence)

    def leaderless(self, state: PartitionState, problem: KafkaError) -> None:
        """Metadata has no leader for it; `Refresher` logs why, where that is so of the whole topic."""
        topic = self._cluster.metadata.topics.get(state.partition.topic)
        if reaction(Operation.METADATA, problem.code) is Reaction.RAISE:
            self._raise_later([state], problem)
        elif topic is None or topic.error is problem.code:
            self._back_off([state])
        else:
            self._retry([state], problem.code)

    def refused(self, codes: Mapping[PartitionState, tuple[ErrorCode, int]]) -> None:
        """The broker answered these codes, for fetches from these offsets."""
        retried: Mapping[ErrorCode, list[PartitionState]] = defaultdict(list)
        for state, (code, offset) in codes.items():
            if self._replicas.give_up(state, f"answered {code.name}: {code.sentence}"):
                self._back_off([state])  # what its leader says counts
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

    def damaged(self, state: PartitionState, code: ErrorCode, what: str) -> None:
        """What was fetched of it is no sound batch."""
        self._raise_later([state], BatchError(code, f"{what}; seek past it to go on without it"))

    def _out_of_range(self, state: PartitionState, offset: int) -> None:
        code = ErrorCode.OFFSET_OUT_OF_RANGE
        if self._policy is None:
            detail = f"{state.partition}: offset {offset} is outside what the partition holds; seek, or reset"
            self._raise_later([state], KafkaError(code, detail))
        elif state.has_records:
            # What was fetched before is still good; the position is lost only when that is handed out.
            self._back_off([state])
        else:
            _log.warning("reset: partition=%s offset=%d is out of range", state.partition, offset)
            again = state.failures
            state.lose(self._policy)
            if again:  # the offset that a reset found was out of range, too
                self._back_off([state])
            state.failures += 1
            self._on_lost()

    def _retry(self, states: Collection[PartitionState], code: ErrorCode, sentence: str | None = None) -> None:
        self._back_off(states)
        self._cluster.want_metadata()
        self._failures.failed([state.partition for state in states], code, explained(code, sentence))

    def _raise_later(self, states: Collection[PartitionState], error: KohortError) -> None:
        self._untold.add(states, error)
        self._on_news()

    def _back_off(self, states: Iterable[PartitionState]) -> None:
        for state in states:
            state.failures += 1
            state.retry_at = self._loop.time() + back_off(self._options, state.failures)
            self._later.by(state.retry_at)
