"""Lookup of start positions: the group's committed offset, or else auto_offset_reset or a seek.

When a partition's leader changes, it also checks that the new leader's log still has the records
that were read (KIP-320). Partitions are looked up independently: one that fails, or whose broker
does not answer, does not delay the others.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from kohort.client.consume.fetcher import Fetcher
from kohort.client.consume.partition import PartitionState
from kohort.client.consume.pending_errors import PendingErrors
from kohort.client.consume.position_lookups import Errors, PositionLookups, Turns
from kohort.client.error_table import Operation, Reaction, explained, reaction
from kohort.client.net import Cluster, EarliestTimer, FailureLog, back_off
from kohort.client.options import ConsumerOptions
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)


class Positioner:
    """Position lookups for a consumer's partitions.

    Call `find_positions` whenever a partition loses its position. Background tasks find it, however long
    that takes. If `poll` did this, a short timeout could cut it off every time, and the partition
    would never get a position.
    """

    def __init__(
        self, cluster: Cluster, options: ConsumerOptions, fetcher: Fetcher, on_news: Callable[[], None]
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._fetcher = fetcher
        self._on_news = on_news
        self._loop = asyncio.get_running_loop()
        self._lookups = PositionLookups(cluster, options)
        self._later = EarliestTimer(self.find_positions)
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[PartitionState] = set()
        self._pending_errors = PendingErrors()
        self._failures = FailureLog(_log, self._loop.time, "no position yet", "position found")
        self._closed = False

    def find_positions(self) -> None:
        """Look up every partition that needs a position, each as soon as its backoff allows."""
        if self._closed:
            return
        now = self._loop.time()
        leaderless: list[PartitionState] = []
        requests: dict[tuple[Operation, int], list[PartitionState]] = defaultdict(list)
        for state in self._fetcher.states.values():
            if state in self._asked or self._pending_errors.holds(state) or (lookup := self._needed(state)) is None:
                continue
            if state.retry_at > now:
                self._later.by(state.retry_at)
            elif self._fetcher.is_of_another_topic(state):
                self._failed(lookup, [state], KafkaError(ErrorCode.UNKNOWN_TOPIC_ID))
                self._later.by(state.retry_at)
            elif lookup is Operation.LIST_OFFSETS and (error := self._lookups.resets(state)) is not None:
                self._failed(lookup, [state], error)
            elif lookup is Operation.OFFSET_FETCH:
                requests[lookup, -1].append(state)
            elif (node := self._leader(state)) is None:
                leaderless.append(state)
            else:
                requests[lookup, node].append(state)
        for (lookup, node), states in requests.items():
            self._start(states, partial(self._look_up, lookup, node, _turns(states)))
        if leaderless:
            self._start(leaderless, partial(self._find_leaders, leaderless))

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Discard the failures of partitions that no longer need a position."""
        self._failures.forget(partitions)

    async def progress(self) -> None:
        """Wait until a request is answered, at most retry_backoff_ms."""
        self.find_positions()
        pause = self._options.retry_backoff_ms / 1000
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(pause)

    def raise_error(self) -> None:
        """Raise an error that has not been raised yet. Its partition is looked up again after a backoff."""
        _, error = self._pending_errors.take(lambda state: True)
        if error is not None:
            self.find_positions()
            raise error

    async def close(self) -> None:
        """Cancel all lookups."""
        self._closed = True
        self._later.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _needed(self, state: PartitionState) -> Operation | None:
        """Return the request that the partition needs before it can be fetched; None if it needs none."""
        if state.position is not None:
            return Operation.EPOCH_END if self._fetcher.must_check(state) else None
        if state.reset is None and self._options.group_id:
            return Operation.OFFSET_FETCH
        return Operation.LIST_OFFSETS

    def _leader(self, state: PartitionState) -> int | None:
        try:
            return self._cluster.leader_of(state.partition)
        except KafkaError:
            return None

    # -- one request

    def _start(self, states: list[PartitionState], work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await work()
            finally:
                self._asked.difference_update(states)
            self._fetcher.fetch_more()
            self.find_positions()

        self._asked.update(states)
        task = self._loop.create_task(run(), name="kohort-positions")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(self, lookup: Operation, node: int, turns: Turns) -> None:
        """Send one request. Partitions without a position in the response are requested again after a backoff."""
        # Skip partitions that were moved or removed between scheduling and the start of this task.
        turns = {partition: (state, turn) for partition, (state, turn) in turns.items() if state.turn == turn}
        if not turns:
            return
        try:
            match lookup:
                case Operation.OFFSET_FETCH:
                    errors = await self._lookups.ask_committed(turns)
                case Operation.LIST_OFFSETS:
                    errors = await self._lookups.ask_offsets(node, turns)
                case _:
                    assert lookup is Operation.EPOCH_END
                    errors = await self._lookups.ask_epochs(node, turns)
        except KafkaError as problem:
            errors = dict.fromkeys(turns, problem)
        self._failures.succeeded(turns.keys() - errors.keys())
        self._all_failed(lookup, turns, errors)

    def _all_failed(self, lookup: Operation, turns: Turns, errors: Errors) -> None:
        alike: Mapping[object, list[PartitionState]] = defaultdict(list)
        for partition, error in errors.items():
            state, turn = turns[partition]
            if state.turn == turn:
                alike[error.code if isinstance(error, KafkaError) else partition].append(state)
        for states in alike.values():
            self._failed(lookup, states, errors[states[0].partition])

    async def _find_leaders(self, states: list[PartitionState]) -> None:
        turns = _turns(states)
        try:
            await self._cluster.refresh({state.partition.topic for state in states})
        except KafkaError as problem:
            self._all_failed(Operation.METADATA, turns, dict.fromkeys(turns, problem))
            return
        errors: Errors = {}
        for state in states:
            try:
                self._cluster.leader_of(state.partition)
            except KafkaError as problem:
                errors[state.partition] = problem
        self._all_failed(Operation.METADATA, turns, errors)

    # -- errors

    def _failed(self, lookup: Operation, states: list[PartitionState], error: KohortError) -> None:
        """Set the time of the next attempt, and log or raise the error according to the error table."""
        for state in states:
            state.failures += 1
        # They are looked up together again: each time of their own would be another request.
        retry_at = self._loop.time() + back_off(self._options, min(state.failures for state in states))
        for state in states:
            state.retry_at = retry_at
        if not isinstance(error, KafkaError) or reaction(lookup, error.code) is Reaction.RAISE:
            self._pending_errors.add(states, error)
            self._on_news()
            return
        self._cluster.want_metadata()
        if not self._is_logged(states, error.code):
            self._failures.failed([state.partition for state in states], error.code, explained(error.code))

    def _is_logged(self, states: Iterable[PartitionState], code: ErrorCode) -> bool:
        """Return whether `Refresher` logs this error, because it concerns whole topics or the cluster."""
        topics, problem = self._cluster.metadata.topics, self._cluster.problem
        if problem is not None and problem.code is code:
            return True
        known = [topics.get(state.partition.topic) for state in states]
        return all(topic is not None and topic.error is code for topic in known)


def _turns(states: Iterable[PartitionState]) -> dict[TopicPartition, tuple[PartitionState, int]]:
    return {state.partition: (state, state.turn) for state in states}
