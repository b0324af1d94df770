"""The broker: sockets on one side, topics and groups on the other, and the dispatch between them.

Everything runs on one event loop; only the log's writer has a thread. A request is handled to its end when its bytes
are there, and waits afterwards only for a sync, for records, or for its group.
"""

import asyncio
import errno
import logging
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import UUID, uuid4

from kohort.assignor.server import find_server_assignors
from kohort.broker.apis import api_versions
from kohort.broker.call import Call, Route
from kohort.broker.cleaner import Cleaner
from kohort.broker.clock import now_ms
from kohort.broker.config import BrokerConfig
from kohort.broker.connection import BadFrame, Connection, FlushQueue
from kohort.broker.durability import Writer
from kohort.broker.fetch_sessions import FetchSessions
from kohort.broker.group_configs import GROUP_CONFIGS, GroupConfigs
from kohort.broker.groups import Groups
from kohort.broker.growths import Growths
from kohort.broker.journal import BrokerJournal
from kohort.broker.leadership import Alone, Leadership
from kohort.broker.live_config import LiveConfig, Source
from kohort.broker.loads import Loads
from kohort.broker.parked_fetches import ParkedFetches
from kohort.broker.presence import Presence
from kohort.broker.repeats import LARGEST, Repeat
from kohort.broker.retention import Retention
from kohort.broker.routes import SERVED, Served, route, routes
from kohort.broker.shared import Shared
from kohort.broker.timers import Timers
from kohort.broker.topic_config import store_defaults
from kohort.broker.topics import OFFSETS_TOPIC, Topics
from kohort.broker.topics_image import TopicsImage
from kohort.coordinator import Behind, GroupConfig, GroupShard, MigrationPolicy
from kohort.errors import ConfigError, ErrorCode, KafkaError, KohortError
from kohort.log import ClusterStore, FileStore, LogStore, MemoryStore, PartitionLog, Topic
from kohort.log.kept_configs import AllConfigs
from kohort.model import Millis
from kohort.wire.api_versions import ApiVersionsRequest
from kohort.wire.codec import Message
from kohort.wire.compression import Codec
from kohort.wire.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.wire.heartbeat import HeartbeatRequest
from kohort.wire.varint import skip_tags

log = logging.getLogger("kohort.broker")

_head = struct.Struct(">hhih").unpack_from
_API_VERSIONS = 18
_SWEEP_EVERY_S = 1.0
_BROKER_CONFIGS = "broker"
_CODECS = {"producer": None, "uncompressed": Codec.NONE} | {
    codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE
}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """How one broker is started. `data` None keeps the log in memory; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 9092
    data: Path | None = None
    node_id: int = 1
    shared: bool = False
    """Whether other brokers may lie over the same `data`."""
    postgres: str | None = None
    """The connection string of a database that brokers share instead of `data`."""
    cluster_id: str | None = None
    """The cluster that the store must be of; None takes any."""
    settings: dict[str, str] = field(default_factory=dict)


class Broker:
    """One broker node on the running event loop: `async with Broker(options) as broker: broker.port`."""

    served: Served = SERVED

    def __init__(self, options: BrokerOptions, store: LogStore | None = None) -> None:
        """Checks the settings; ConfigError for a bad one. Nothing is opened yet.

        A `store` given is used instead of the one that `options.data` says, and closed with the broker.
        """
        self._given_store = store
        self.live_config = LiveConfig(options.settings)
        self._follow_config()
        self.node_id = options.node_id
        self._kept_as = {Source.ALL_BROKERS: "", Source.BROKER: str(options.node_id)}
        """Under which name the store keeps what was changed at run time: Kafka's names of these resources."""
        self.host, self.port = options.host, options.port
        self.rack = self.config.text("broker.rack") or None
        self.fetch_max_bytes = self.config.number("fetch.max.bytes")
        self._advertised = _host_and_port(self.config.text("advertised.listeners"))
        self._options = options
        self.fenced: Callable[[], bool] | None = None
        """Whether others may lead by now what this broker leads; None where that cannot be."""
        self.over = asyncio.Event()
        """Set when the broker has to end by itself."""
        self.log_directory = "memory" if options.data is None else str(options.data.absolute())
        """Where the log lies, as tools print it."""
        self._group_config = _group_config(self.config)
        self._assignors = find_server_assignors(self.config.names("group.consumer.assignors"))
        self.protocols = self.config.names("group.coordinator.rebalance.protocols")
        """What groups may use."""
        self._connections: dict[Connection, None] = {}  # in their order, so that a simulated broker is always the same
        self._throttled: dict[Connection, None] = {}
        self._stopped = False
        self.growths = Growths()

    # Life

    async def start(self) -> None:
        """Open the store, listen, and begin to load the groups. Raises KohortError with what to do."""
        loop = self._loop = asyncio.get_running_loop()
        self.store = self._given_store or self._open_store()
        self.cluster_id = self.store.cluster_id
        try:
            self._restore_config()
            self.store.change_defaults(store_defaults(self.config))
            self.group_configs = GroupConfigs(self.store, self.config)
            self.topics = Topics(self.store, self.config, self.fresh_id)
            if self.topics.named(OFFSETS_TOPIC) is None:
                configs = {
                    "cleanup.policy": "compact",
                    "segment.bytes": str(self.config.number("offsets.topic.segment.bytes")),
                }
                self._create_offsets_topic(configs)
            self.leadership = self._new_leadership()
            self.topics.leads = self.leadership.leads
            self.topics_image = TopicsImage(self, loop)
            self.topics.changed = self.topics_image.changed
            self.writer = Writer(self.store, loop, self._settled)
            self.timers = Timers(loop, self.now)
            self.parked_fetches = ParkedFetches()
            self.fetch_sessions = FetchSessions(
                self.config.number("max.incremental.fetch.session.cache.slots"), self.parked_fetches, self.fresh_id
            )
            self.journal = BrokerJournal(self)
            self.groups = Groups(self)
            self.presence = Presence(self)
            await self._listen()
        except BaseException:
            self.store.close()
            raise
        await self.leadership.join()
        self.groups.lead()
        self._sweeper = loop.call_later(_SWEEP_EVERY_S, self._sweep)
        self._retention = Retention(self)
        self.loads = Loads(self)
        self.cleaner = Cleaner(self)

    async def stop(self) -> None:
        """Answer or refuse whoever waits, sync, close. Calling it again does nothing."""
        if self._stopped:
            return
        self._stopped = True
        self._server.close()
        self._sweeper.cancel()
        self._retention.close()
        self.loads.close()
        await self.cleaner.close()
        self.journal.close()
        self.parked_fetches.expire_all()
        self.groups.resign()
        await self.writer.drain()
        await self.leadership.leave()
        await self.writer.close()
        self.timers.close()
        self._flushes.run()
        for connection in list(self._connections):
            connection.close()
        await self._server.wait_closed()
        self.store.close()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def end(self, why: str) -> None:
        """The broker can do nothing for anybody any more: whoever runs it is to stop it."""
        log.error("%s", why)
        self.over.set()

    async def __aenter__(self) -> "Broker":
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def _create_offsets_topic(self, configs: Mapping[str, str]) -> None:
        try:
            self.topics.create(OFFSETS_TOPIC, self.config.number("offsets.topic.num.partitions"), configs)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise  # else another broker of the cluster started at the same time

    def _open_store(self) -> LogStore:
        data, cluster_id = self._options.data, self._options.cluster_id
        if self._options.postgres is not None:
            from kohort.broker.leased import open_store

            self.log_directory = "postgres"
            return open_store(self._options.postgres, self.node_id, cluster_id)
        if data is None:
            return MemoryStore(cluster_id=cluster_id)
        if self._options.shared:
            return ClusterStore(data, self.node_id, cluster_id)
        return FileStore(data, cluster_id=cluster_id)

    def _new_leadership(self) -> Leadership:
        if isinstance(self.store, ClusterStore):
            return Shared(self, self.store)
        if self._options.postgres is not None:
            from kohort.broker.leased import lease

            return lease(self, self.store)
        return Alone(self)

    async def _listen(self) -> None:
        self._flushes = FlushQueue(self._loop)
        host, port = self._options.host, self._options.port
        try:
            self._server = await self._loop.create_server(self._new_connection, host, port, backlog=1024)
        except OSError as error:
            raise KohortError(_listen_failure(host, port, error)) from error
        self.port = self._server.sockets[0].getsockname()[1]
        if self._advertised is not None:
            self.host, self.port = self._advertised

    # What handlers use

    now: Callable[[], Millis] = staticmethod(now_ms)
    fresh_id: Callable[[], UUID] = staticmethod(uuid4)
    """Ids that nobody can guess; with `now`, all that a broker takes from outside beside its loop and its store."""

    def new_group_shard(self) -> GroupShard:
        """An empty shard with this broker's settings."""
        shard = GroupShard(
            self._group_config,
            lambda: str(self.fresh_id()),
            assignors=self._assignors,
            settings=self.group_configs.settings,
        )
        shard.metadata_changed(self.topics_image.current, self.now())  # nothing follows from it before it is loaded
        return shard

    def partition(self, topic: str, partition: int) -> PartitionLog | None:
        """The partition's log, by the topic's name."""
        found = self.topics.named(topic)
        return None if found is None else self.topics.log(found, partition)

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode:
        """Why `topics.log` found none."""
        if topic is None or not 0 <= partition < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def max_batch_bytes(self, topic: Topic) -> int:
        """The largest batch that the topic takes."""
        own = topic.configs.get("max.message.bytes") if topic.configs else None
        return self._max_batch_bytes if own is None else int(own)

    def stamps(self, topic: Topic) -> bool:
        """Whether the topic's records have the time at which the broker appended them."""
        own = topic.configs.get("message.timestamp.type") if topic.configs else None
        return (self._timestamp_type if own is None else own) == "LogAppendTime"

    def times(self, topic: Topic) -> tuple[Millis, Millis]:
        """The first and the last time that a record of the topic may have now."""
        configs = topic.configs
        before = configs.get("message.timestamp.before.max.ms", self._time_before)
        after = configs.get("message.timestamp.after.max.ms", self._time_after)
        now = self.now()
        return now - int(before), now + int(after)

    def compacts(self, topic: Topic) -> bool:
        """Whether the topic keeps each key's newest record, so that every record must have a key."""
        own = topic.configs.get("cleanup.policy") if topic.configs else None
        return "compact" in (self._cleanup_policy if own is None else own)

    def codec(self, topic: Topic) -> Codec | None:
        """What the topic's batches are to be compressed with; None where they are kept as they come."""
        own = topic.configs.get("compression.type") if topic.configs else None
        return _CODECS[self._compression if own is None else own]

    def grow_topic(self, topic: Topic, partitions: int) -> None:
        """Give a topic more partitions, and have clients that read it look at it anew."""
        grown = self.topics.grow(topic, partitions)
        if self.config.number("group.heartbeat.hold.ms"):
            self.growths.grown(grown)
            self.parked_fetches.look_at_all()

    def delete_topic(self, topic: Topic) -> None:
        """Remove a topic with what groups committed for it, and wake whoever waits for its records."""
        self.topics.delete(topic)
        self.groups.topics_deleted([topic.name])
        self.writer.current()  # it frees the disk, in its own time
        self.parked_fetches.look_at_all()

    def change_config(self, source: Source, configs: Mapping[str, str]) -> None:
        """Have other settings from now on, after a restart too. Raises ConfigError or OSError: nothing is changed."""
        self.live_config.check(source, configs)
        self.store.keep_configs(_BROKER_CONFIGS, self._kept_as[source], configs)
        self.live_config.change(source, configs)
        self._follow_config()
        self.group_configs.follow(self.config)
        self.store.change_defaults(store_defaults(self.config))

    def _restore_config(self) -> None:
        kept = self.store.configs(_BROKER_CONFIGS)
        for source, name in self._kept_as.items():
            self.live_config.restore(source, kept.get(name, {}))
        self._follow_config()

    def configs_changed(self, before: AllConfigs, now: AllConfigs) -> None:
        """Another broker of the cluster changed configs that are kept."""
        if now.get(_BROKER_CONFIGS) != before.get(_BROKER_CONFIGS):
            self._restore_config()
            self.store.change_defaults(store_defaults(self.config))
        self.group_configs.follow(self.config)
        groups, were = now.get(GROUP_CONFIGS, {}), before.get(GROUP_CONFIGS, {})
        for group_id in sorted(groups.keys() | were.keys()):
            if groups.get(group_id) != were.get(group_id):
                self.groups.shard(group_id).settings_changed(group_id)

    def change_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Have the group follow these configs and no others from now on; they were checked. Durable when it returns."""
        self.group_configs.change(group_id, configs)
        self.groups.shard(group_id).settings_changed(group_id)

    def _follow_config(self) -> None:
        self.config: BrokerConfig = self.live_config.current
        self._max_batch_bytes = self.config.number("message.max.bytes")
        self._max_elements = self.config.number("max.request.elements")
        self._timestamp_type = self.config.text("log.message.timestamp.type")
        self._time_before = self.config.number("log.message.timestamp.before.max.ms")
        self._time_after = self.config.number("log.message.timestamp.after.max.ms")
        self._cleanup_policy = self.config.text("log.cleanup.policy")
        self._compression = self.config.text("compression.type")

    def throttle_if_full(self, connection: Connection) -> None:
        """Read no more from a producer until the log has caught up."""
        if self.store.queued_bytes > self.config.number("store.queued.max.bytes"):
            connection.throttle()
            self._throttled[connection] = None

    # Connections

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._connections)

    def _new_connection(self) -> Connection:
        return Connection(
            self._dispatch,
            self._opened,
            self._closed,
            self._flushes,
            max_frame=self.config.number("socket.request.max.bytes"),
            max_waiting=self.config.number("max.queued.requests.per.connection"),
        )

    def _opened(self, connection: Connection) -> None:
        self._connections[connection] = None
        connection.growths_seen = self.growths.count
        if self._stopped:
            connection.close()
        elif len(self._connections) > self.config.number("max.connections"):
            connection.refuse("there are max.connections connections already")

    def _closed(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if connection.members and not self._stopped:
            self.presence.lost(connection)
        self._throttled.pop(connection, None)

    def _sweep(self) -> None:
        idle_s = self.config.number("connections.max.idle.ms") / 1000
        frame_s = self.config.number("frame.read.timeout.ms") / 1000
        now = self._loop.time()
        for connection in list(self._connections):
            if connection.mid_frame_since is not None and now - connection.mid_frame_since > frame_s:
                connection.refuse("half a request and then nothing (frame.read.timeout.ms)")
            elif connection.is_idle(idle_s, now) and not connection.waiting:
                connection.expire()
        self._sweeper = self._loop.call_later(_SWEEP_EVERY_S, self._sweep)

    def _settled(self, moved: Sequence[PartitionLog]) -> None:
        self.parked_fetches.moved(moved)
        if self._throttled and self.store.queued_bytes <= self.config.number("store.queued.max.bytes") // 2:
            throttled, self._throttled = self._throttled, {}
            for connection in throttled:
                connection.unthrottle()

    # Dispatch

    def _dispatch(self, connection: Connection, frame: bytes) -> None:
        try:
            api_key, version, correlation_id, length = _head(frame)
        except struct.error:
            raise BadFrame("a request is too short for its header") from None
        found = routes.get((api_key, version)) or route(api_key, version)
        if found is None:
            self._unserved(connection, api_key, version, correlation_id)
            return
        if self.fenced is not None and self.fenced():
            raise BadFrame("this broker has no lease now")
        last = connection.last_heartbeat
        if last is not None and last.route is found and last.said == frame[8:]:
            request = last.request
        else:
            request = self._decode(connection, found, frame, length)
        call = Call(connection, correlation_id, found, request)
        try:
            if connection.may_wait is not None:
                self._release(connection, request)
            found.handler(self, call, request)
            connection.place(call)
        except Exception:  # our bug: it costs this connection, never another
            log.exception("request failed api=%d version=%d peer=%s", api_key, version, connection.peer)
            connection.refuse("the request met an error of the broker's own")

    def _decode(self, connection: Connection, found: Route, frame: bytes, length: int) -> Message:
        """What a frame says; `length` is that of its client id."""
        position = 10
        if length > 0:
            position += length
            if connection.client_id_bytes != (raw := frame[10:position]):
                connection.client_id_bytes = raw
                connection.client_id = raw.decode("utf-8", "surrogateescape")
                connection.last_heartbeat = None  # it said another
        if found.flexible_request:
            position = position + 1 if frame[position : position + 1] == b"\0" else skip_tags(frame, position)
        request: Message = found.decode(frame, position, self._max_elements)[0]
        if found.repeats and len(frame) <= LARGEST:
            connection.last_heartbeat = Repeat(found, frame[8:], request)
        return request

    def _release(self, connection: Connection, request: Message) -> None:
        """Answer a held heartbeat now: the answer to what comes after it could not leave before."""
        call, connection.may_wait = connection.may_wait, None
        if call is not None and call.open:
            held = cast("HeartbeatRequest | ConsumerGroupHeartbeatRequest", call.request)
            behind = Behind.REQUEST
            if type(request) is type(held):
                own = request.member_id == held.member_id
                behind = Behind.OWN_HEARTBEAT if own else Behind.OTHERS_HEARTBEAT
                connection.speaks_for_many |= not own
            self.groups.shard(held.group_id).release(call, behind)

    def _unserved(self, connection: Connection, api_key: int, version: int, correlation_id: int) -> None:
        if api_key != _API_VERSIONS:
            raise BadFrame(f"request {api_key} version {version} is not served")
        # KIP-511: answered in version 0, so that any client can read what it may ask for instead.
        found = route(_API_VERSIONS, 0)
        assert found is not None
        call = Call(connection, correlation_id, found, ApiVersionsRequest())
        call.reply(api_versions.served(self, ErrorCode.UNSUPPORTED_VERSION))
        connection.place(call)


def _group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.number("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.number("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.number("group.initial.rebalance.delay.ms"),
        max_size=config.number("group.max.size"),
        consumer_max_size=config.number("group.consumer.max.size"),
        consumer_migration_policy=MigrationPolicy(config.text("group.consumer.migration.policy")),
        consumer_regex_refresh_interval_ms=config.number("group.consumer.regex.refresh.interval.ms"),
        disconnect_grace_ms=config.number("group.disconnect.grace.ms"),
        heartbeat_hold_ms=config.number("group.heartbeat.hold.ms"),
        offset_metadata_max_bytes=config.number("offset.metadata.max.bytes"),
        offsets_retention_ms=config.number("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.number("offsets.retention.check.interval.ms"),
    )


def _host_and_port(listener: str) -> tuple[str, int] | None:
    if not listener:
        return None
    host, colon, port = listener.removeprefix("PLAINTEXT://").rpartition(":")
    if not colon or not host or not port.isdigit():
        raise ConfigError(f"advertised.listeners takes HOST:PORT, not {listener!r}.")
    return host, int(port)


def _listen_failure(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} of {host} is taken: choose another with --listen, or port 0 for a free one."
    return f"Cannot listen on {host}:{port}: {error.strerror or error}."
