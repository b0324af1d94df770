"""Prefetching of assigned partitions from each broker, within the configured size limits."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TypeVar

from kohort.client.consume.acceleration import Unpacker
from kohort.client.consume.consumer_record import ConsumerRecord
from kohort.client.consume.fetch_errors import FetchErrors
from kohort.client.consume.fetch_metrics import FetchMetrics
from kohort.client.consume.fetch_session import FetchSession
from kohort.client.consume.open_transactions import OpenTransactionWaits
from kohort.client.consume.partition import FetchSlot, PartitionState
from kohort.client.consume.partition_batch import PartitionBatch, PartitionValues
from kohort.client.consume.read_replicas import ReadReplicas
from kohort.client.metrics import Report
from kohort.client.net import BrokerConnection, Cluster, EarliestTimer, leader_epoch
from kohort.client.options import ConsumerOptions
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import NO_TOPIC_ID, UUID, Millis, TopicPartition
from kohort.requests import ClusterMetadata, FetchRequestPartition
from kohort.wire.batches import BatchError
from kohort.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

_SLOTS = 2
"""Maximum number of concurrent fetches per broker.

With only one, a partition that was just assigned or just drained would wait until a fetch of the
idle partitions returns empty after fetch_max_wait_ms.
"""

_LONGEST_WAIT_MS: Millis = 4_000
"""Longest time that a broker is asked to hold a fetch of idle partitions.

The time doubles with each fetch that returns empty, because each costs the client and the broker as
much as a poll of the application.
"""


@dataclass(frozen=True, slots=True)
class _RequestedPartition:
    """Partition in a Fetch request, and the slot of the request."""

    state: PartitionState
    slot: FetchSlot
    offset: int
    leader_epoch: int
    """Epoch of the leader known to have the records fetched so far.

    A later leader must be checked first (KIP-320).
    """

    @property
    def current(self) -> bool:
        """Whether the result counts: no seek followed, and no other fetch has the partition since."""
        return self.state.slot == self.slot


class Fetcher:
    """Fetcher of one consumer's partitions.

    Call `fetch_more` whenever something changes; it never waits. `on_news` is called when `take` has
    records or errors. `on_lost` is called when a partition loses its position or its position must
    be checked. `on_renewed` is called when a topic was replaced by another one of the same name, so
    that records read from the old one no longer count.
    """

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        on_news: Callable[[], None],
        on_lost: Callable[[], None],
        on_renewed: Callable[[TopicPartition], None],
    ) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self.metrics = FetchMetrics(options.sampling)
        self._cluster = cluster
        self._options = options
        self._on_news = on_news
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self._loop = asyncio.get_running_loop()
        self._fetches: dict[FetchSlot, asyncio.Task[None]] = {}
        self._sessions: dict[FetchSlot, FetchSession] = {}
        self._idle: dict[FetchSlot, dict[TopicPartition, _RequestedPartition]] = {}
        """Fetches that returned empty and are repeated as they are."""
        self._later = EarliestTimer(self._start_fetches)
        self._unpacker = Unpacker(check_crc=options.check_crcs)
        self._read_committed = options.isolation_level == "read_committed"
        self._replicas = ReadReplicas(cluster, self._loop.time)
        self._errors = FetchErrors(cluster, options, self._replicas, self._later, on_news, on_lost)
        self._open_transactions = OpenTransactionWaits(self._loop.time)
        self._closed = False
        self._damaged_batch: tuple[PartitionState, int, BatchError] | None = None
        """State and turn of a damaged batch that followed records of other partitions, with its error."""
        self._changes = 0
        """Counter of events that may change what to fetch.

        While it is unchanged, an empty fetch is repeated as is.
        """

    def add(
        self, partitions: Iterable[TopicPartition], granted: Callable[[str], UUID | None] = lambda topic: None
    ) -> list[PartitionState]:
        """Add partitions, which have no position yet, and return their states.

        `granted` returns the ID of the topic that the coordinator assigned, if it assigns IDs.
        """
        added = [PartitionState(partition, granted(partition.topic)) for partition in sorted(partitions)]
        self.states.update((state.partition, state) for state in added)
        # A topic known only by its ID (the broker resolves the pattern) also has leaders that
        # change.
        self._keep_metadata()
        return added

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions and drop their fetched records."""
        self._changes += 1
        for partition in partitions:
            state = self.states.pop(partition, None)
            if state is not None:
                state.lose(None)
                self._replicas.forget(state)
                self._errors.forget([partition])
                self._open_transactions.forget([partition])
                self.metrics.forget([partition])
        self._keep_metadata()

    def _keep_metadata(self) -> None:
        self._cluster.keep_metadata(self, {partition.topic for partition in self.states})

    async def close(self) -> None:
        """Stop fetching."""
        self._closed = True
        self.remove(list(self.states))
        self._later.cancel()
        tasks = list(self._fetches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- handing out records

    def take(self, most: int) -> list[ConsumerRecord]:
        """Return up to `most` records, one partition after another.

        Raises BatchError for bytes that are not valid records, KafkaError for an error that a
        broker returned for a partition.
        """
        self._unpacker.values_only = False
        return self._take(most, PartitionState.take, len)

    def take_runs(self, most: int) -> list[list[ConsumerRecord]]:
        """Return up to `most` records as lists of one partition each."""
        self._unpacker.values_only = False

        def run(state: PartitionState, left: int) -> list[list[ConsumerRecord]]:
            records = state.take(left)
            return [records] if records else []

        return self._take(most, run, lambda some: sum(map(len, some)))

    def take_columns(self, most: int) -> list[PartitionBatch]:
        """Return up to `most` records as Arrow batches."""
        self._unpacker.values_only = False

        def named(state: PartitionState, left: int) -> list[PartitionBatch]:
            return [PartitionBatch(state.partition, batch) for batch in state.take_columns(left)]

        return self._take(most, named, lambda some: sum(batch.records.num_rows for batch in some))

    def take_values(self, most: int) -> list[PartitionValues]:
        """Return only the values of up to `most` records."""
        self._unpacker.values_only = True

        def named(state: PartitionState, left: int) -> list[PartitionValues]:
            values = state.take_values(left)
            return [PartitionValues(state.partition, values)] if values else []

        return self._take(most, named, lambda some: sum(len(run.values) for run in some))

    def _take(
        self, most: int, of: Callable[[PartitionState, int], list[_T]], count: Callable[[list[_T]], int]
    ) -> list[_T]:
        self._errors.raise_error()
        self._raise_damaged_batch()
        taken: list[_T] = []
        left, freed = most, False
        for state in list(self.states.values()):
            if state.paused or not state.has_records:
                continue
            buffered = state.buffered
            try:
                some = of(state, left)
            except BatchError as problem:
                # Move the damaged partition to the end, so that it does not block those behind it.
                self.states[state.partition] = self.states.pop(state.partition)
                if not taken:
                    raise
                self._damaged_batch = state, state.turn, problem  # raised by the next call, after these records
                break
            taken = taken + some if taken else some
            drained = state.buffered < buffered
            freed |= drained
            number = count(some)
            left -= number
            state.uncounted += number
            if drained or state.unmeasured:
                state.unmeasured = False
                self.metrics.consumed(state, buffered - state.buffered, self._loop.time())
            # Move a partition behind the others once one of its fetches is handed out. Otherwise a
            # partition whose next fetch arrives in time would keep the others waiting until its
            # backlog is gone.
            if drained:
                self.states[state.partition] = self.states.pop(state.partition)
            if left <= 0:
                break
        if freed:  # checking a thousand partitions for every few records would cost more than the records do
            self._start_fetches()
        if not taken:
            self._errors.raise_error()
        return taken

    def _raise_damaged_batch(self) -> None:
        damage, self._damaged_batch = self._damaged_batch, None
        if damage is not None:
            state, turn, error = damage
            if state.turn == turn and not state.paused:  # else a seek or a removal made it obsolete
                raise error

    def report(self, report: Report) -> None:
        """Add the metrics of the fetches."""
        self.metrics.report(report, self._cluster.metrics, self.states.values(), self._replicas.follower)

    # -- fetching

    def pause(self, state: PartitionState) -> None:
        """Stop fetching the partition; a fetch in flight still completes."""
        self._changes += 1
        state.paused = True
        self._open_transactions.forget([state.partition])

    def fetch_more(self) -> None:
        """Fetch what may be fetched now, after something has changed."""
        self._changes += 1
        self._start_fetches()

    def _start_fetches(self) -> None:
        if self._closed:
            return
        now = self._loop.time()
        wanted: dict[int, list[PartitionState]] = defaultdict(list)
        unchecked = False
        room = self._options.fetch_max_bytes - sum(state.buffered for state in self.states.values())
        for state in self.states.values():
            if (
                state.slot is not None
                or state.paused
                or state.position is None
                or self._errors.has_pending_error(state)
            ):
                continue
            if state.retry_at <= now and self.is_of_another_topic(state):
                self._errors.of_another_topic(state)
                continue
            if self._was_renewed(state):
                unchecked = True
                continue
            if state.buffered and (room <= 0 or state.buffered >= self._options.max_partition_fetch_bytes):
                continue
            if state.retry_at > now:
                self._later.by(state.retry_at)
                continue
            if self.must_check(state):
                unchecked = True
                continue
            try:
                wanted[self._replicas.source(state)].append(state)
            except KafkaError as problem:
                self._errors.leaderless(state, problem)
        for node, states in wanted.items():
            slot = next(((node, n) for n in range(_SLOTS) if (node, n) not in self._fetches), None)
            if slot is not None:
                self._start(slot, states)
            else:  # end a fetch that only repeats an empty one, to free its slot
                self._changes += 1
        self._replicas.log_changes()
        if unchecked:
            self._on_lost()

    def must_check(self, state: PartitionState) -> bool:
        """Return whether the leader's log must be checked before more is fetched (KIP-320)."""
        # A leader is asked by the topic's name, and would answer for the topic that has the name now.
        return state.must_check(self._epoch(state)) and not self._is_renewed(state)

    def is_of_another_topic(self, state: PartitionState) -> bool:
        """Return whether another topic has the name of the one that the coordinator assigned.

        The topic was deleted and created again, and the coordinator will assign the new one, perhaps
        to another member. Or the metadata is outdated. Until both agree, nothing is requested by the
        topic's name.
        """
        return state.granted is not None and self._is_renewed(state)

    def _is_renewed(self, state: PartitionState) -> bool:
        known = self._cluster.metadata.topic_id(state.partition.topic)
        return known is not None and state.topic_id not in (None, known)

    def _was_renewed(self, state: PartitionState) -> bool:
        """Return whether the topic was deleted and created again; if so, reset the position."""
        if state.granted is not None or not self._is_renewed(state):
            return False
        _log.warning("reset: partition=%s position=%s is of a topic that was deleted", state.partition, state.position)
        state.lose(None)
        self._on_renewed(state.partition)
        return True

    def _epoch(self, state: PartitionState) -> int | None:
        leader = self._cluster.metadata.leader(state.partition)
        return None if leader is None else leader.epoch

    def _start(self, slot: FetchSlot, states: list[PartitionState]) -> None:
        for state in states:
            state.slot = slot
        asked = self._asked(slot, states)
        # Pass the current counter, so that a seek before the task starts is not missed.
        fetch = self._fetch(slot, asked, self._changes, self._cluster.metadata)
        task = self._loop.create_task(fetch, name=f"kohort-fetch {slot}")
        self._fetches[slot] = task

    def _asked(self, slot: FetchSlot, states: list[PartitionState]) -> dict[TopicPartition, _RequestedPartition]:
        return {
            state.partition: _RequestedPartition(
                state, slot, state.fetch_at, leader_epoch(self._cluster, state.partition)
            )
            for state in states
        }

    async def _fetch(
        self, slot: FetchSlot, asked: dict[TopicPartition, _RequestedPartition], changes: int, metadata: ClusterMetadata
    ) -> None:
        node, number = slot
        session = self._sessions.setdefault(slot, FetchSession(self._options))
        try:
            connection = await self._cluster.connection(node, f"fetch {number}")
            states = [requested.state for requested in asked.values()]
            rack = self._options.client_rack
            rack_id = self._replicas.rack_id(states, rack)
            request = session.request(
                {partition: self._wanted(requested) for partition, requested in asked.items()}, rack_id
            )
            # While no data arrives and nothing changes, only the session's epoch advances.
            while await self._fetched_nothing(connection, session, request, asked):
                if self._changes != changes or self._cluster.metadata is not metadata:
                    break
                if rack_id != rack and rack_id != self._replicas.rack_id(states, rack):
                    break  # the leader may choose a follower again
                if self._takes_over(slot):
                    break  # fetch the partitions of both together
                self._idle[slot] = asked
                request = session.again(self._wait_ms(slot, request.max_wait_ms))
        except KafkaError as problem:
            session.failed()
            self._errors.unreachable([requested.state for requested in asked.values() if requested.current], problem)
        except asyncio.CancelledError:
            session.failed()
            raise
        finally:
            self._idle.pop(slot, None)
            _release(asked)
            del self._fetches[slot]
        self._start_fetches()

    def _takes_over(self, slot: FetchSlot) -> bool:
        """Release the partitions of another idle fetch at the same broker, if there is one.

        Otherwise the partitions of a broker would remain in as many fetches as they were drained by.
        """
        for other, asked in list(self._idle.items()):
            if other != slot and other[0] == slot[0]:
                del self._idle[other]
                _release(asked)
                self._changes += 1  # the other fetch ends with its response, which nothing needs
                return True
        return False

    def _wait_ms(self, slot: FetchSlot, last_ms: Millis) -> Millis:
        """Return how long the broker may hold the next fetch after one that was held for `last_ms` in vain."""
        usual_ms = self._options.fetch_max_wait_ms
        # The other slot must be free. Otherwise a change would wait for a fetch to return.
        alone = all(other == slot or other[0] != slot[0] for other in self._fetches)
        if not alone or self._options.fetch_min_bytes > 1:
            return usual_ms
        return max(usual_ms, min(2 * last_ms, _LONGEST_WAIT_MS))

    async def _fetched_nothing(
        self,
        connection: BrokerConnection,
        session: FetchSession,
        request: FetchRequest,
        asked: dict[TopicPartition, _RequestedPartition],
    ) -> bool:
        """Fetch once. Return whether the response, in the requested session, brought nothing."""
        timeout = self._options.request_timeout_ms + request.max_wait_ms
        response = await connection.request(request, FetchResponse, timeout)
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            if not session.refused(code):
                raise KafkaError(code)
            return False
        session.succeeded(response.session_id)
        self._open_transactions.log_long()
        if response.throttle_time_ms > 0 and not response.responses:
            return True  # the client exceeds a quota: the broker opens no session, and sends records later
        missing = self._missing(asked, response) if request.session_epoch == 0 else frozenset()
        if missing:
            session.failed()  # this session would not request them again
            left_out = [asked[partition] for partition in missing]
            self._errors.left_out([requested.state for requested in left_out if requested.current])
            asked = {partition: requested for partition, requested in asked.items() if partition not in missing}
        news = self._store_response(asked, response) or bool(missing)
        if news:
            self._on_news()
        return not news

    def _missing(
        self, asked: Mapping[TopicPartition, _RequestedPartition], response: FetchResponse
    ) -> Set[TopicPartition]:
        """Return the partitions missing from a response that must contain all of them.

        A full request, in a new session or without one, requires an entry for every partition.
        """
        if sum(len(topic.partitions) for topic in response.responses) >= len(asked):
            return frozenset()
        answered = ((self._name_of(topic, asked), topic.partitions) for topic in response.responses)
        there = {TopicPartition(name, data.partition_index) for name, some in answered for data in some}
        return asked.keys() - there

    def _wanted(self, requested: _RequestedPartition) -> FetchRequestPartition:
        state, metadata = requested.state, self._cluster.metadata
        if state.topic_id is None:
            state.topic_id = metadata.topic_id(state.partition.topic)
        limit = self._options.max_partition_fetch_bytes
        return FetchRequestPartition(state.topic_id or NO_TOPIC_ID, requested.offset, limit, requested.leader_epoch)

    def _store_response(self, asked: dict[TopicPartition, _RequestedPartition], response: FetchResponse) -> bool:
        """Store the results of a fetch. Return whether they contain more than new log end offsets."""
        news = False
        sizes: dict[str, int] = {}
        codes: dict[PartitionState, tuple[ErrorCode, int]] = {}
        for topic in response.responses:
            name = self._name_of(topic, asked)
            for data in topic.partitions:
                requested = asked.get(TopicPartition(name, data.partition_index))
                if requested is None or not requested.current:
                    continue
                if data.error_code != ErrorCode.NONE:
                    codes[requested.state] = error_code(data.error_code), requested.offset
                else:
                    news |= self._store_records(requested, data)
                    if data.records:
                        sizes[name] = sizes.get(name, 0) + len(data.records)
        self._errors.succeeded(partition for partition, requested in asked.items() if requested.state not in codes)
        if sizes:
            self.metrics.fetched(sizes, self._loop.time())
        if codes:
            self._errors.refused(codes)
        return news or bool(codes)

    def _name_of(self, topic: FetchableTopicResponse, asked: Mapping[TopicPartition, _RequestedPartition]) -> str:
        """Return the topic's name.

        Since version 13 the response has IDs, which metadata may have dropped meanwhile.
        """
        name = topic.topic or self._cluster.metadata.names.get(topic.topic_id)
        if name is None:
            of_id = (
                partition.topic for partition, requested in asked.items() if requested.state.topic_id == topic.topic_id
            )
            name = next(of_id, "")
        return name

    def _store_records(self, requested: _RequestedPartition, data: PartitionData) -> bool:
        state = requested.state
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.stable = data.last_stable_offset
        state.end = data.last_stable_offset if self._read_committed else data.high_watermark
        if data.log_start_offset >= 0:
            state.start = data.log_start_offset
        if data.preferred_read_replica >= 0:
            self._replicas.prefer(state, data.preferred_read_replica)
        if self._read_committed:
            self._log_open_transaction(requested, data)
        if not data.records:
            return data.preferred_read_replica >= 0
        assert not isinstance(data.records, list)
        state.unmeasured = True
        aborted = (data.aborted_transactions or ()) if self._read_committed else ()
        where = f"{state.partition} at offset {requested.offset}"
        try:
            state.add(self._unpacker.chunk(state.partition, data.records, aborted))
        except BatchError as problem:
            self._errors.damaged(state, problem.code, f"{where}: {problem.sentence}")
            return True
        if state.fetch_at == requested.offset:  # the next fetch would return the same bytes
            detail = f"{where}: the broker sent {len(data.records)} bytes without a whole batch behind it"
            self._errors.damaged(state, ErrorCode.CORRUPT_MESSAGE, detail)
        return True

    def _log_open_transaction(self, requested: _RequestedPartition, data: PartitionData) -> None:
        here, waits = requested.state.partition, self._open_transactions
        if data.records:
            waits.continued(here)
        else:
            waits.empty(here, requested.offset, data.last_stable_offset, data.high_watermark)


def _release(asked: Mapping[TopicPartition, _RequestedPartition]) -> None:
    """Let other fetches request the partitions."""
    for requested in asked.values():
        if requested.current:
            requested.state.slot = None
