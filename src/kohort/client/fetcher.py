"""Fetches ahead of the application: for every broker what it leads of the assigned partitions, within bounds."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kohort.client.acceleration import Unpacker
from kohort.client.alarm import Alarm
from kohort.client.cluster import Cluster
from kohort.client.connection import Connection
from kohort.client.consumer_record import ConsumerRecord
from kohort.client.fetch_errors import FetchErrors
from kohort.client.fetch_session import FetchSession, Wanted
from kohort.client.leaders import leader_epoch
from kohort.client.metadata import ClusterMetadata
from kohort.client.options import ConsumerOptions
from kohort.client.partition import PartitionState
from kohort.client.partition_batch import PartitionBatch
from kohort.client.read_replicas import ReadReplicas
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.model import NO_TOPIC_ID, TopicPartition
from kohort.wire.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kohort.wire.records import BatchError

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

_SLOTS = 2
"""Fetches under way at one broker. With one alone, a partition that was just won, or just drained, would wait until a
fetch of the quiet ones comes back empty after fetch_max_wait_ms."""

_Slot = tuple[int, int]
"""A broker and the number of its fetch connection."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A partition in a fetch, and as of which turn: if that changed meanwhile, the answer is to nobody."""

    state: PartitionState
    turn: int
    offset: int
    leader_epoch: int
    """That of the leader which has what was fetched before: another one must be checked first (KIP-320)."""


class Fetcher:
    """Call `go_on` whenever something changed; it never waits. `on_news` is called when `take` has news,
    `on_lost` when a partition lost its position, or has one that must be checked, `on_renewed` when its topic is
    another one of the same name: nothing that was read of it counts any more."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        on_news: Callable[[], None],
        on_lost: Callable[[], None],
        on_renewed: Callable[[TopicPartition], None],
    ) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}
        self._cluster = cluster
        self._options = options
        self._on_news = on_news
        self._on_lost = on_lost
        self._on_renewed = on_renewed
        self._loop = asyncio.get_running_loop()
        self._fetches: dict[_Slot, asyncio.Task[None]] = {}
        self._sessions: dict[_Slot, FetchSession] = {}
        self._later = Alarm(self._fill)
        self._unpacker = Unpacker(check_crc=options.check_crcs)
        self._isolation = 1 if options.isolation_level == "read_committed" else 0
        self._replicas = ReadReplicas(cluster, self._loop.time)
        self._errors = FetchErrors(cluster, options, self._replicas, self._later, on_news, on_lost)
        self._closed = False
        self._damage: tuple[PartitionState, int, BatchError] | None = None
        """Of a damaged batch that was met behind records of other partitions, and as of which turn."""
        self._changes = 0
        """Counts what may change what is to be fetched: while it stays, an empty fetch is repeated as it was."""

    def add(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        """Consume these too; they have no position yet."""
        added = [PartitionState(partition) for partition in sorted(partitions)]
        self.states.update((state.partition, state) for state in added)
        # A topic that is known by its id alone (the broker looks after the pattern) has leaders that change, too.
        self._keep_metadata()
        return added

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these no longer; what was fetched of them is dropped."""
        self._changes += 1
        for partition in partitions:
            state = self.states.pop(partition, None)
            if state is not None:
                state.lose(None)
                self._replicas.forget(state)
                self._errors.forget([partition])
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

    # -- out

    def take(self, most: int) -> list[ConsumerRecord]:
        """Up to `most` records, partition after partition.

        Raises BatchError for bytes that are no records, KafkaError for what a broker says of a partition.
        """
        return self._take(most, PartitionState.take, len)

    def take_columns(self, most: int) -> list[PartitionBatch]:
        """As `take`, as columns."""

        def named(state: PartitionState, left: int) -> list[PartitionBatch]:
            return [PartitionBatch(state.partition, batch) for batch in state.take_columns(left)]

        return self._take(most, named, lambda some: sum(one.records.num_rows for one in some))

    def _take(
        self, most: int, of: Callable[[PartitionState, int], list[_T]], count: Callable[[list[_T]], int]
    ) -> list[_T]:
        self._errors.raise_error()
        self._raise_damage()
        taken: list[_T] = []
        left, freed = most, False
        for state in list(self.states.values()):
            if state.paused or not state.has_records:
                continue
            buffered = state.buffered
            try:
                some = of(state, left)
            except BatchError as problem:
                # The damaged partition goes to the end, or it would keep those behind it from being read.
                self.states[state.partition] = self.states.pop(state.partition)
                if not taken:
                    raise
                self._damage = state, state.turn, problem  # raised next, when the application has what came before
                break
            taken = taken + some if taken else some
            drained = state.buffered < buffered
            freed |= drained
            left -= count(some)
            # A partition of which one fetch was handed out goes behind the others: more of it may be fetched by the
            # time that the next one is empty, and they would wait for as long as its backlog lasts.
            if drained or left > 0:
                self.states[state.partition] = self.states.pop(state.partition)
            if left <= 0:
                break
        if freed:  # looking after a thousand partitions for each few records would cost more than those do
            self._fill()
        if not taken:
            self._errors.raise_error()
        return taken

    def _raise_damage(self) -> None:
        damage, self._damage = self._damage, None
        if damage is not None:
            state, turn, error = damage
            if state.turn == turn and not state.paused:  # else somebody sought, or gave the partition up
                raise error

    # -- in

    def pause(self, state: PartitionState) -> None:
        """Fetch no more of it than what is on its way."""
        self._changes += 1
        state.paused = True

    def go_on(self) -> None:
        """Something changed: fetch whatever may be fetched now."""
        self._changes += 1
        self._fill()

    def _fill(self) -> None:
        if self._closed:
            return
        now = self._loop.time()
        wanted: dict[int, list[PartitionState]] = defaultdict(list)
        unchecked = False
        room = self._options.fetch_max_bytes - sum(state.buffered for state in self.states.values())
        for state in self.states.values():
            if state.in_fetch or state.paused or state.position is None or self._errors.waits_to_be_told(state):
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
            else:  # whoever only repeats an empty fetch is to make room
                self._changes += 1
        if unchecked:
            self._on_lost()

    def must_check(self, state: PartitionState) -> bool:
        """Whether it is not fetched until its leader is known to have what was fetched before."""
        return state.must_check(self._epoch(state))

    def _was_renewed(self, state: PartitionState) -> bool:
        """Whether the topic was deleted and made again: then the position says nothing, and begins anew."""
        known = self._cluster.metadata.topic_id(state.partition.topic)
        if known is None or state.topic_id in (None, known):
            return False
        _log.warning("reset: partition=%s position=%s is of a topic that was deleted", state.partition, state.position)
        state.lose(None)
        self._on_renewed(state.partition)
        return True

    def _epoch(self, state: PartitionState) -> int | None:
        leader = self._cluster.metadata.leader(state.partition)
        return None if leader is None else leader.epoch

    def _start(self, slot: _Slot, states: list[PartitionState]) -> None:
        for state in states:
            state.in_fetch = True
        asked = self._asked(states)
        # As of now: whoever seeks before the task begins is not to wait until something else changes.
        fetch = self._fetch(slot, asked, self._changes, self._cluster.metadata)
        task = self._loop.create_task(fetch, name=f"kohort-fetch {slot}")
        self._fetches[slot] = task

    def _asked(self, states: list[PartitionState]) -> dict[TopicPartition, _Asked]:
        return {
            state.partition: _Asked(state, state.turn, state.fetch_at, leader_epoch(self._cluster, state.partition))
            for state in states
        }

    async def _fetch(
        self, slot: _Slot, asked: dict[TopicPartition, _Asked], changes: int, metadata: ClusterMetadata
    ) -> None:
        node, number = slot
        session = self._sessions.setdefault(slot, FetchSession(self._options))
        try:
            connection = await self._cluster.connection(node, f"fetch {number}")
            states = [one.state for one in asked.values()]
            rack_id = self._replicas.rack_id(states, self._options.client_rack)
            request = session.request({partition: self._wanted(one) for partition, one in asked.items()}, rack_id)
            # While nothing comes and nothing changes, all that moves is the session's epoch.
            while await self._brings_nothing(connection, session, request, asked):
                if self._changes != changes or self._cluster.metadata is not metadata:
                    break
                request = session.again()
        except KafkaError as problem:
            session.failed()
            self._cluster.want_metadata()
            self._errors.unreachable([one.state for one in asked.values() if one.turn == one.state.turn], problem)
        except asyncio.CancelledError:
            session.failed()
            raise
        finally:
            for one in asked.values():
                one.state.in_fetch = False
            del self._fetches[slot]
        self._fill()

    async def _brings_nothing(
        self, connection: Connection, session: FetchSession, request: FetchRequest, asked: dict[TopicPartition, _Asked]
    ) -> bool:
        """Fetch once. Whether nothing came, and in the session that was asked for."""
        timeout = self._options.request_timeout_ms + self._options.fetch_max_wait_ms
        response = await connection.request(request, FetchResponse, timeout)
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            if not session.refused(code):
                raise KafkaError(code)
            return False
        session.succeeded(response.session_id)
        if self._arrived(asked, response):
            self._on_news()
            return False
        return True

    def _wanted(self, one: _Asked) -> Wanted:
        state, metadata = one.state, self._cluster.metadata
        if state.topic_id is None:
            state.topic_id = metadata.topic_id(state.partition.topic)
        return Wanted(state.topic_id or NO_TOPIC_ID, one.offset, one.leader_epoch)

    def _arrived(self, asked: dict[TopicPartition, _Asked], response: FetchResponse) -> bool:
        """Take what a fetch brought. Whether that was anything but new ends of logs."""
        news = False
        codes: dict[PartitionState, tuple[ErrorCode, int]] = {}
        for topic in response.responses:
            name = self._name_of(topic, asked)
            for data in topic.partitions:
                one = asked.get(TopicPartition(name, data.partition_index))
                if one is None or one.turn != one.state.turn:
                    continue
                if data.error_code != ErrorCode.NONE:
                    codes[one.state] = error_code(data.error_code), one.offset
                else:
                    news |= self._take_in(one, data)
        self._errors.succeeded(partition for partition, one in asked.items() if one.state not in codes)
        if codes:
            self._errors.refused(codes)
        return news or bool(codes)

    def _name_of(self, topic: FetchableTopicResponse, asked: Mapping[TopicPartition, _Asked]) -> str:
        """The topic's name; from version 13 on there are ids, which metadata may have forgotten since the request."""
        name = topic.topic or self._cluster.metadata.names.get(topic.topic_id)
        if name is None:
            of_id = (partition.topic for partition, one in asked.items() if one.state.topic_id == topic.topic_id)
            name = next(of_id, "")
        return name

    def _take_in(self, one: _Asked, data: PartitionData) -> bool:
        state = one.state
        state.failures = 0
        state.end = data.high_watermark if self._isolation == 0 else data.last_stable_offset
        if data.log_start_offset >= 0:
            state.start = data.log_start_offset
        if data.preferred_read_replica >= 0:
            self._replicas.prefer(state, data.preferred_read_replica)
            return True
        if not data.records:
            return False
        assert not isinstance(data.records, list)
        aborted = (data.aborted_transactions or ()) if self._isolation else ()
        where = f"{state.partition} at offset {one.offset}"
        try:
            state.add(self._unpacker.chunk(state.partition, data.records, aborted))
        except BatchError as problem:
            self._errors.damaged(state, problem.code, f"{where}: {problem.sentence}")
            return True
        if state.fetch_at == one.offset:  # the next fetch would bring the same
            detail = f"{where}: the broker sent {len(data.records)} bytes without a whole batch behind it"
            self._errors.damaged(state, ErrorCode.CORRUPT_MESSAGE, detail)
        return True
