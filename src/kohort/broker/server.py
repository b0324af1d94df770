"""The broker: what it consists of, how it begins and ends, and what its handlers ask of it.

Everything runs on one event loop; only the log's writer has a thread. A request is handled to its end when its bytes
are there, and waits afterwards only for a sync, for records, or for its group.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

from kohort.assignor.server import find_server_assignors
from kohort.broker.advertising import address_text, check_listener, is_local_name, machine_name, parse_advertised
from kohort.broker.cleaner import Cleaner
from kohort.broker.clock import now_ms
from kohort.broker.config import BrokerConfig
from kohort.broker.connection import Connection
from kohort.broker.disk_troubles import DiskTroubles
from kohort.broker.dispatch import Dispatch
from kohort.broker.durability import Writer
from kohort.broker.fetch_sessions import FetchSessions
from kohort.broker.follower_reads import FollowerReads
from kohort.broker.group_configs import GROUP_CONFIGS, GroupConfigs, group_config
from kohort.broker.groups import Groups
from kohort.broker.growths import Growths
from kohort.broker.idle_settings import IDLE
from kohort.broker.journal import BrokerJournal
from kohort.broker.leadership import Alone, Leadership
from kohort.broker.live_config import LiveConfig, Source
from kohort.broker.loads import Loads
from kohort.broker.parked_fetches import ParkedFetches
from kohort.broker.presence import Presence
from kohort.broker.retention import Retention
from kohort.broker.routes import SERVED, Served
from kohort.broker.shared import Shared
from kohort.broker.sockets import Sockets
from kohort.broker.timers import Timers
from kohort.broker.topic_config import store_defaults
from kohort.broker.topic_rules import TopicRules
from kohort.broker.topics import OFFSETS_TOPIC, Topics
from kohort.broker.topics_image import TopicsImage
from kohort.coordinator import GroupShard
from kohort.errors import ErrorCode, KafkaError
from kohort.log import ClusterStore, FileStore, LogStore, MemoryStore, PartitionLog, Topic
from kohort.log.cluster import ONE_REPLICA, Placement
from kohort.log.kept_configs import AllConfigs
from kohort.model import Millis

log = logging.getLogger("kohort.broker")

_BROKER_CONFIGS = "broker"


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """How one broker is started. `data` None keeps the log in memory; port 0 takes a free one.

    An empty host listens on all interfaces.
    """

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
        self._advertised = parse_advertised(self.config.text("advertised.listeners"))
        if self._advertised is None:
            check_listener(options.host, options.port, "--set advertised.listeners")
        self._options = options
        self.fenced: Callable[[], bool] | None = None
        """Whether others may lead by now what this broker leads; None where that cannot be."""
        self.over = asyncio.Event()
        """Set when the broker has to end by itself."""
        self.log_directory = "memory" if options.data is None else str(options.data.absolute())
        """Where the log lies, as tools print it."""
        self._group_config = group_config(self.config)
        self._assignors = find_server_assignors(self.config.names("group.consumer.assignors"))
        self.protocols = self.config.names("group.coordinator.rebalance.protocols")
        """What groups may use."""
        self._stopped = False
        self.growths = Growths()
        self.disk_troubles = DiskTroubles(lambda: self.now())

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
                self._create_offsets_topic({"segment.bytes": str(self.config.number("offsets.topic.segment.bytes"))})
            self.leadership = self._new_leadership()
            self.topics.leads = self.leadership.leads
            self.topics.make, self.topics.make_partitions = self.leadership.create, self.leadership.grow
            self.topics_image = TopicsImage(self, loop)
            self.topics.changed = self.topics_image.changed
            self.writer = Writer(self.store, loop, self._settled)
            self.timers = Timers(loop, self.now)
            self.parked_fetches = ParkedFetches(ends_early=self.config.number("group.heartbeat.hold.ms") > 0)
            self.fetch_sessions = FetchSessions(
                self.config.number("max.incremental.fetch.session.cache.slots"), self.parked_fetches, self.fresh_id
            )
            self.follower_reads = FollowerReads(self)
            self.journal = BrokerJournal(self)
            self.groups = Groups(self)
            self.presence = Presence(self)
            self.sockets = Sockets(self, self.new_dispatch())
            await self.sockets.listen(self._options.host, self._options.port)
            await self._advertise()
        except BaseException:
            self.store.close()
            raise
        await self.leadership.join()
        self._log_address()  # not earlier: the cluster may refuse this broker
        self.groups.lead()
        self._retention = Retention(self)
        self.loads = Loads(self)
        self.cleaner = Cleaner(self)

    async def _advertise(self) -> None:
        """Settle what clients are told to connect to."""
        if self._advertised is not None:
            self.host, self.port = self._advertised
        else:
            self.host = self._options.host or await self._loop.run_in_executor(None, machine_name)
            self.port = self.sockets.port

    def _log_address(self) -> None:
        listens, port = self._options.host, self.sockets.port
        log.info("listening on %s; clients are told %s", address_text(listens or "*", port), self.address)
        if is_local_name(self.host) and not is_local_name(listens):
            log.warning(
                "clients on other machines cannot connect to %s: name one that they know with advertised.listeners",
                self.address,
            )

    async def stop(self) -> None:
        """Answer or refuse whoever waits, sync, close. Calling it again does nothing."""
        if self._stopped:
            return
        self._stopped = True
        self.sockets.stop_listening()
        self._retention.close()
        await self.loads.close()
        await self.cleaner.close()
        self.journal.close()
        self.parked_fetches.expire_all()
        self.groups.resign()
        await self.writer.drain()
        await self.leadership.leave()
        await self.writer.close()
        self.timers.close()
        await self.sockets.close()
        self.follower_reads.close()
        self.store.close()

    @property
    def address(self) -> str:
        """What clients are told to connect to, as HOST:PORT."""
        return address_text(self.host, self.port)

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

    # What handlers use

    now: Callable[[], Millis] = staticmethod(now_ms)
    fresh_id: Callable[[], UUID] = staticmethod(uuid4)
    """Ids that nobody can guess; with `now`, all that a broker takes from outside beside its loop and its store."""

    def new_dispatch(self) -> Callable[[Connection, bytes], None]:
        """What takes every frame that comes."""
        return Dispatch(self).handle

    def new_group_shard(self, partition: int) -> GroupShard:
        """An empty shard of that partition with this broker's settings."""
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

    def grow_topic(self, topic: Topic, partitions: int, placement: Placement = ONE_REPLICA) -> None:
        """Give a topic more partitions, and have clients that read it look at it anew."""
        grown = self.topics.grow(topic, partitions, placement)
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
        before = self.live_config.changed(source)
        self.store.keep_configs(_BROKER_CONFIGS, self._kept_as[source], configs)
        self.live_config.change(source, configs)
        for name in sorted(IDLE.keys() & configs.keys()):
            if configs[name] != before.get(name):
                log.warning("%s is set to %s %s", name, configs[name] or "nothing", IDLE[name].doc)
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
        self.max_elements = self.config.number("max.request.elements")
        self.rules = TopicRules(self.config, lambda: self.now())

    def throttle_if_full(self, connection: Connection) -> None:
        """Read no more from a producer until the log has caught up."""
        if self.store.queued_bytes > self.config.number("store.queued.max.bytes"):
            self.sockets.throttle(connection)

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self.sockets)

    def _settled(self, moved: Sequence[PartitionLog]) -> None:
        self.follower_reads.settled(moved)
        self.parked_fetches.moved(moved)
        if self.sockets.throttled and self.store.queued_bytes <= self.config.number("store.queued.max.bytes") // 2:
            self.sockets.unthrottle()
