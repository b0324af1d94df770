"""Fetch, with sessions (KIP-227): return record batches as stored, at once or when enough have arrived."""

from collections.abc import Iterable
from typing import Protocol, cast

from kohort.broker.access import CLUSTER, AccessControl
from kohort.broker.apis.current_leader import Dependencies as LeaderParts
from kohort.broker.apis.current_leader import current_leader, endpoints
from kohort.broker.fetch import (
    LEADER,
    TOPIC_IDS_FROM,
    FetchedPartition,
    FetchSession,
    FetchSessions,
    FollowerReads,
    LogWatch,
    NewPartitions,
    ReadLog,
    WaitingFetch,
    WaitingFetches,
    places_of,
)
from kohort.broker.groups import BrokerJournal
from kohort.broker.logs import DiskErrors, Topics
from kohort.broker.net import Call
from kohort.broker.quotas import ClientQuotas
from kohort.errors import ErrorCode
from kohort.log import CorruptBatch, OffsetOutOfRange, PartitionLog, Topic
from kohort.log.cluster import FollowerLog
from kohort.model import Millis
from kohort.security import Operation, ResourceType
from kohort.wire.codec import Buffer
from kohort.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)


class Dependencies(LeaderParts, Protocol):
    """The parts of the broker that this module uses."""

    access_control: AccessControl | None
    client_quotas: ClientQuotas
    disk_errors: DiskErrors
    fetch_max_bytes: int
    fetch_sessions: FetchSessions
    follower_reads: FollowerReads
    new_partitions: NewPartitions
    journal: BrokerJournal
    waiting_fetches: WaitingFetches
    topics: Topics

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode: ...

    def now(self) -> Millis: ...


def handle(broker: Dependencies, call: Call, request: FetchRequest) -> None:
    """Answer at once, also with an error, or wait until min_bytes are available or time is up."""
    if request.session_epoch in (_NO_SESSION, _NEW_SESSION):
        broker.fetch_sessions.close(request.session_id)
        places = list(places_of(request.topics, call.version))
        if request.session_epoch == _NEW_SESSION:
            _Fetch(broker, call, request, places, begins_session=True).begin()
        else:
            _Fetch(broker, call, request, places).begin()
        return
    session = broker.fetch_sessions.resume(request, call.version, broker.now())
    if isinstance(session, ErrorCode):
        call.reply(FetchResponse(error_code=session))
    elif session.places:
        _Fetch(broker, call, request, session.places.values(), session).begin()
    else:  # as in Kafka: a session without partitions ends
        broker.fetch_sessions.close(session.id)
        call.reply(FetchResponse())


_NO_SESSION, _NEW_SESSION = -1, 0
"""Session epochs of requests that do not continue a session."""

_READ_COMMITTED = 1
"""Isolation level of a client that reads no records of open and aborted transactions."""

_RACKS_FROM = 11
"""First version in which a consumer sends its rack (KIP-392)."""


class _Fetch:
    """One request, until it is answered."""

    def __init__(
        self,
        broker: Dependencies,
        call: Call,
        request: FetchRequest,
        places: Iterable[FetchedPartition],
        session: FetchSession | None = None,
        *,
        begins_session: bool = False,
    ) -> None:
        self._broker = broker
        self._call = call
        self._request = request
        self._places = places
        self._session = session
        self._epoch = session.epoch if session is not None else 0
        self._begins_session = begins_session
        self._room = min(request.max_bytes, broker.fetch_max_bytes)
        self._min_bytes = request.min_bytes
        self._has_quota = False
        if broker.client_quotas.fetch.enforced:  # also for a client that claims to be a replica: brokers do not fetch
            self._fit_quota()

    def begin(self) -> None:
        """Answer the request, or park it."""
        broker, request = self._broker, self._request
        gathered = self._gather()
        if broker.journal.watching:
            self._tell_journal()
        at_once = gathered.failed or gathered.redirected or request.max_wait_ms <= 0 or not self._places
        if at_once or gathered.size >= self._min_bytes:
            self._reply(gathered)
            return
        client = self._call.connection.who
        parked = WaitingFetch(self._watch(), self._check_again, client, wait_s=request.max_wait_ms / 1000)
        self._call.on_abandon = parked.cancel

    def _watch(self) -> LogWatch:
        if self._session is not None:
            return self._session.watch
        watch = LogWatch(self._broker.waiting_fetches)
        for place in self._places:
            assert place.log is not None, "what failed is answered at once"
            watch.add(place.log)
        return watch

    def _check_again(self, last: bool) -> bool:
        gathered = self._gather()
        at_once = last or gathered.failed or gathered.redirected
        if not (at_once or gathered.size >= self._min_bytes):
            return False
        self._reply(gathered)
        return True

    def _gather(self) -> "_Gathered":
        request = self._request
        gathered = _Gathered(self._broker, self._call, request, self._room)
        places = self._places if self._session is None else list(self._session.stirring.values())
        connection, new_partitions = self._call.connection, self._broker.new_partitions
        if connection.new_partitions_seen != new_partitions.count:
            gathered.grown = new_partitions.unannounced(connection, places)
        if self._session is None:
            for place in places:
                place.log = gathered.add(place)
            return gathered
        for place in places:
            self._session.looked(place, gathered.add(place))
        return gathered

    def _reply(self, gathered: "_Gathered") -> None:
        session, told = self._session, gathered.read
        if session is not None:
            if session.epoch != self._epoch:  # the client sent another fetch before it got this answer
                self._call.reply(FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session_id=session.id))
                return
            told = [(place, data) for place, data in gathered.read if place.has_changed(data)]
        if self._is_throttled(told):
            return
        if session is not None:
            for place, data in told:
                place.note_response(data)
                if data.records:
                    session.move_to_end(place)
        elif self._begins_session and self._call.open:
            for place, data in told:
                place.note_response(data)
            session = self._broker.fetch_sessions.open(self._places, self._call.version, self._broker.now())
        if session is not None:
            _mark_idle(session, gathered.read, committed_only=self._request.isolation_level == _READ_COMMITTED)
        session_id = 0 if session is None else session.id
        listener = self._call.connection.listener
        leaders = (data.current_leader for _, data in told)
        nodes = endpoints(self._broker, leaders, listener) if gathered.failed else []
        self._call.reply(FetchResponse(session_id=session_id, responses=_by_topic(told), node_endpoints=nodes))

    def _fit_quota(self) -> None:
        """Return no more bytes at once than the client's quota ever allows: it could never receive them."""
        room = self._broker.client_quotas.fetch.room(self._call.connection)
        if room is not None:
            self._has_quota = True
            self._room = int(min(self._room, room))
            self._min_bytes = min(self._min_bytes, self._room)

    def _is_throttled(self, told: list[tuple[FetchedPartition, PartitionData]]) -> bool:
        """Return whether the client must pause because of its quota. Then it gets an empty response, as from Kafka."""
        call = self._call
        if not self._has_quota or not call.open:
            return False
        size = call.response_size(FetchResponse(responses=_by_topic(told)))
        throttle_ms = self._broker.client_quotas.fetch.throttle_instead(call.connection, size)
        if throttle_ms:
            session_id = 0 if self._session is None else self._session.id
            call.reply(FetchResponse(throttle_time_ms=throttle_ms, session_id=session_id))
        return throttle_ms > 0

    def _tell_journal(self) -> None:
        """Report the fetch to the journal: it counts as a read when it arrives, not when it is answered.

        A fetch that was parked before a rebalance is answered after it, to a client that drops the answer. And an owner
        that waits for new records is not paused.
        """
        broker, connection = self._broker, self._call.connection
        for place in self._places:
            if place.log is not None:
                broker.journal.fetched(
                    connection.client_id, connection.host, place.topic, place.wanted.partition, broker.now()
                )


def _mark_idle(
    session: FetchSession, read: Iterable[tuple[FetchedPartition, PartitionData]], *, committed_only: bool
) -> None:
    """Skip partitions without an error and without more records until their logs move."""
    for place, data in read:
        end = data.last_stable_offset if committed_only else data.high_watermark
        if not data.error_code and place.wanted.fetch_offset >= end:
            session.rest(place)


def _by_topic(read: Iterable[tuple[FetchedPartition, PartitionData]]) -> list[FetchableTopicResponse]:
    """Group consecutive partitions of the same topic, as Kafka does."""
    topics: list[FetchableTopicResponse] = []
    before: object = None
    for place, data in read:
        if place.key[0] != before:
            before = place.key[0]
            topics.append(FetchableTopicResponse(topic=place.topic, topic_id=place.topic_id, partitions=[]))
        topics[-1].partitions.append(data)
    return topics


def _is_consumer(request: FetchRequest) -> bool:
    return (request.replica_id if request.replica_state is None else request.replica_state.replica_id) < 0


class _Gathered:
    """The result of reading the partitions of a fetch once."""

    def __init__(self, broker: Dependencies, call: Call, request: FetchRequest, room: int) -> None:
        version = call.version
        self._connection = call.connection
        self.read: list[tuple[FetchedPartition, PartitionData]] = []
        self.size = 0
        self.failed = False
        self.redirected = False
        """Whether the client should read a partition from another replica."""
        self.grown: FetchedPartition | None = None
        """The partition whose error tells the client that its topic has more partitions."""
        self._broker = broker
        self._by_id = version >= TOPIC_IDS_FROM
        self._room = room
        self._committed_only = request.isolation_level == _READ_COMMITTED
        """Whether the client reads only up to the last stable offset, and gets the aborted transactions."""
        # As in Kafka: a consumer that cannot be sent to another replica reads only from the leader.
        self._is_consumer = _is_consumer(request)
        self._may_read_from_followers = version >= _RACKS_FROM and self._is_consumer
        self._rack = request.rack_id if self._may_read_from_followers else ""

    def add(self, place: FetchedPartition) -> ReadLog | None:
        """Read one partition; return its log, or None if there is none to read."""
        data, log = self._data(place)
        self.read.append((place, data))
        return log

    def _data(self, place: FetchedPartition) -> tuple[PartitionData, ReadLog | None]:
        wanted = place.wanted
        topic, missing = self._topic(place)
        # Nothing is revealed of a topic by its name. An ID says nothing about a topic.
        if not self._may_read(place.topic if topic is None else topic.name):
            return self._failed(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED, []), None
        if topic is None:
            return self._failed(wanted, missing, None if missing is ErrorCode.INCONSISTENT_TOPIC_ID else []), None
        place.topic = topic.name
        if place is self.grown:
            return self._failed(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER, None), None
        led = self._broker.topics.log(topic, wanted.partition)
        log = self._followed(topic, wanted.partition) if led is None else led
        if log is None:
            return self._failed_elsewhere(topic, wanted), None
        if 0 <= wanted.current_leader_epoch < log.leader_epoch:
            return self._failed(wanted, ErrorCode.FENCED_LEADER_EPOCH, None), None
        if wanted.current_leader_epoch > log.leader_epoch:
            return self._failed(wanted, ErrorCode.UNKNOWN_LEADER_EPOCH, None), None
        preferred = LEADER if led is None else self._preferred(topic, led, wanted)
        self.redirected |= preferred != LEADER
        aborted: list[AbortedTransaction] = []
        try:
            records = self._records(log, led, wanted, aborted) if preferred == LEADER else []
        except OffsetOutOfRange:
            return self._failed(wanted, ErrorCode.OFFSET_OUT_OF_RANGE, None), None
        except OSError as error:
            self._broker.disk_errors.note(f"read {topic.name}-{wanted.partition}", error)
            is_damaged = isinstance(error, CorruptBatch)
            code = ErrorCode.CORRUPT_MESSAGE if is_damaged else ErrorCode.KAFKA_STORAGE_ERROR
            return self._failed(wanted, code, None), None
        data = PartitionData(
            partition_index=wanted.partition,
            high_watermark=log.stable_offset,
            last_stable_offset=log.stable_offset if led is None else led.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=aborted if self._committed_only else None,
            preferred_read_replica=preferred,
            records=records,
        )
        return data, log

    def _may_read(self, name: str) -> bool:
        control = self._broker.access_control
        if control is None:
            return True
        # As in Kafka, a replica needs ClusterAction. There it needs no more than that: here, no replica fetches.
        if not self._is_consumer and not control.may(self._connection, Operation.CLUSTER_ACTION, *CLUSTER):
            return False
        if not name:
            return True
        return control.may(self._connection, Operation.READ, ResourceType.TOPIC, name)

    def _followed(self, topic: Topic, partition: int) -> FollowerLog | None:
        found = self._broker.follower_reads.log(topic, partition) if self._may_read_from_followers else None
        if found is not None and self._committed_only and found.has_transactions:
            return None  # only the leader knows which are aborted
        return found

    def _preferred(self, topic: Topic, log: PartitionLog, wanted: FetchPartition) -> int:
        """Return the replica to read from; offsets that a follower cannot serve are the leader's to answer."""
        if not self._rack or not log.start_offset <= wanted.fetch_offset <= log.stable_offset:
            return LEADER
        if self._committed_only and log.has_transactions:
            return LEADER
        return self._broker.follower_reads.preferred(topic, wanted.partition, log, self._rack)

    def _failed_elsewhere(self, topic: Topic, wanted: FetchPartition) -> PartitionData:
        data = self._failed(wanted, self._broker.no_log(topic, wanted.partition), [])
        data.current_leader = current_leader(self._broker, topic, wanted.partition)
        return data

    def _topic(self, place: FetchedPartition) -> tuple[Topic | None, ErrorCode]:
        topics = self._broker.topics
        if not self._by_id:
            return topics.named(place.topic), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not place.topic:
            return topics.with_id(place.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        # As in Kafka, if the ID was found before: it is resolved once, and its name decides from then on.
        renewed = topics.named(place.topic) is not None
        missing = ErrorCode.INCONSISTENT_TOPIC_ID if renewed else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return topics.with_id(place.topic_id), missing

    def _records(
        self, log: ReadLog, led: PartitionLog | None, wanted: FetchPartition, aborted: list[AbortedTransaction]
    ) -> list[Buffer]:
        # KIP-74: the first batch of the answer is returned whole even if it exceeds the limit; otherwise it could never
        # be read.
        room = min(wanted.partition_max_bytes, self._room - self.size)
        if room <= 0 and self.size > 0:
            if not log.start_offset <= wanted.fetch_offset <= log.stable_offset:
                raise OffsetOutOfRange
            return []
        # The codec only takes a part's length and passes it on; the connection knows how to send it.
        if self._committed_only and led is not None:
            parts, ended = led.send_committed(wanted.fetch_offset, max(room, 1))
        else:
            parts, ended = log.send(wanted.fetch_offset, max(room, 1)), ()
        buffers = cast("list[Buffer]", parts)
        size = sum(map(len, buffers))
        if size > max(room, 1) and self.size > 0:
            return []
        self.size += size
        aborted += [AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset) for one in ended]
        return buffers

    def _failed(
        self, wanted: FetchPartition, code: ErrorCode, aborted: list[AbortedTransaction] | None
    ) -> PartitionData:
        """Return an error; as in Kafka, its aborted transactions are empty for an unknown partition, otherwise null."""
        self.failed = True
        return PartitionData(
            partition_index=wanted.partition,
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=aborted,
            records=[],
        )
