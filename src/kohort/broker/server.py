"""The broker: its parts, how it starts and stops, and the interface that its request handlers use.

Everything runs on one event loop; only the log's writer has a thread. A request is handled as soon as all of its bytes
have arrived. After that, its answer waits only for a sync, for records, or for its group.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from uuid import UUID, uuid4

from kohort.assignor.server import find_server_assignors
from kohort.broker.access import AccessControl
from kohort.broker.apis import SERVED, TELEMETRY, Dispatch
from kohort.broker.clock import Clock
from kohort.broker.cluster import new_leadership, open_store
from kohort.broker.config import (
    DEFAULT_NAME,
    WATCH_LISTENER,
    Address,
    BrokerConfig,
    DynamicConfig,
    Features,
    GroupConfigs,
    Source,
    Subscriptions,
    group_config,
    is_local_name,
    machine_name,
    read_inter_broker,
    read_listeners,
    store_defaults,
    warn_of_idle_settings,
    warn_of_unused_security,
)
from kohort.broker.fetch import FetchSessions, FollowerReads, NewPartitions, WaitingFetches
from kohort.broker.groups import BrokerJournal, GroupCoordinator, MemberConnections, PartitionLoads, Timers, TopicsImage
from kohort.broker.logs import DiskErrors, Leadership, TopicRules, Topics, Writer
from kohort.broker.maintenance import Cleaner, Retention
from kohort.broker.metrics import BrokerMetrics, RequestTrace
from kohort.broker.net import ClientConnection, Served, Sockets
from kohort.broker.quotas import ClientQuotas
from kohort.broker.security import ListenerSecurity, ScramCredentials
from kohort.broker.telemetry import TelemetryReceiver
from kohort.broker.transactions import LateRequests, TransactionCoordinator
from kohort.coordinator import GroupShard
from kohort.coordinator.transactions import TransactionConfig, TransactionShard
from kohort.errors import ErrorCode, KafkaError
from kohort.log import AllConfigs, LogStore, PartitionLog, Topic
from kohort.log.cluster import OFFSETS_TOPIC, ONE_REPLICA, Node, Placement

log = logging.getLogger("kohort.broker")

_BROKER_CONFIGS = "broker"
_PRODUCER_ID_BITS = 62  # positive as a signed 64-bit number; these bits of a random UUID are all random


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """Start options of one broker. With `data` None the log is kept in memory; port 0 takes a free port.

    An empty host listens on all interfaces.
    """

    host: str = "127.0.0.1"
    port: int = 9092
    data: Path | None = None
    node_id: int = 1
    shared: bool = False
    """Whether other brokers may use the same `data`."""
    postgres: str | None = field(default=None, repr=False)  # may contain a password
    """Connection string of a database that brokers share instead of `data`."""
    cluster_id: str | None = None
    """Cluster ID that the store must have; None accepts any."""
    settings: dict[str, str] = field(default_factory=dict, repr=False)  # some are secrets
    metrics: Address | None = None
    """Address on which the process serves the broker's metrics; None for none."""
    metrics_socket: Path | None = None
    """Path of a socket where it serves them to the page of its cluster; None for none."""
    trace: Path | None = None
    """File to which the process writes the requests of groups; None for none. It excludes metrics."""


class Broker:
    """One broker node on the running event loop: `async with Broker(options) as broker: broker.port`."""

    served: Served = SERVED
    """The requests that this broker announces. It serves no others. Change it only before `start`."""
    metrics: BrokerMetrics | None = None
    """Measures the broker if it is set before `start`."""
    trace: RequestTrace | None = None
    """Writes the requests of groups if it is set before `start`, instead of metrics."""
    # A test kit replaces these by types that also report what they do.
    sockets_type: type[Sockets] = Sockets
    coordinator_type: type[GroupCoordinator] = GroupCoordinator
    journal_type: type[BrokerJournal] = BrokerJournal

    def __init__(self, options: BrokerOptions, store: LogStore | None = None, clock: Clock | None = None) -> None:
        """Check the settings; raise ConfigError if one is invalid. Nothing is opened yet.

        If `store` is given, it replaces the store that `options.data` names, and the broker closes it when it stops.
        A `clock` replaces the machine's.
        """
        self._given_store = store
        self.clock = Clock() if clock is None else clock
        self.now, self.wall = self.clock.now, self.clock.wall
        """The time of the broker's timers, and real time; see `kohort.broker.clock`."""
        self.dynamic_config = DynamicConfig(options.settings)
        self._follow_config()
        if not self.config.flag("telemetry.receiver.enable"):
            self.served = [entry for entry in self.served if entry[0] not in TELEMETRY]
        self.node_id = options.node_id
        self._resource_names = {Source.ALL_BROKERS: "", Source.BROKER: str(options.node_id)}
        """The names under which the store keeps run-time changes: Kafka's names of these config resources."""
        self.listeners = read_listeners(self.config, options.host, options.port)
        # Other brokers have no use for the listener of --web, which has one user.
        shared = [listener for listener in self.listeners if listener.name != WATCH_LISTENER]
        self.inter_broker = read_inter_broker(self.config, shared)
        self.endpoints: dict[str, Address] = {}
        """The address that clients of each listener receive, by the listener's name."""
        self.rack = self.config.text("broker.rack") or None
        self.fetch_max_bytes = self.config.number("fetch.max.bytes")
        self._options = options
        self.fenced: Callable[[], bool] | None = None
        """Returns whether others may by now lead this broker's partitions; None if leadership cannot be lost."""
        self.over = asyncio.Event()
        """Set when the broker cannot go on and must be stopped."""
        self.log_directory = _location(options)
        """Location of the log, as tools print it."""
        self._group_config = group_config(self.config)
        self._assignors = find_server_assignors(self.config.names("group.consumer.assignors"))
        self.protocols = self.config.names("group.coordinator.rebalance.protocols")
        """The rebalance protocols that groups may use."""
        self.access_control = (
            AccessControl(self.config, self.inter_broker.listener)
            if self.config.text("authorizer.class.name")
            else None
        )
        """None: any client may do everything."""
        self._secured: list[ListenerSecurity] = []
        self._ports: dict[str, int] = {}
        """The port on which each listener listens."""
        self._stopped = False
        self.new_partitions = NewPartitions()
        self.disk_errors = DiskErrors(self.wall)

    # Start and stop

    async def start(self) -> None:
        """Open the store, listen, and begin to load the groups. Raise KohortError, with what to do about it."""
        loop = self._loop = asyncio.get_running_loop()
        self.store = self._given_store or self._open_store()
        self.cluster_id = self.store.cluster_id
        try:
            self._restore_config()
            self.store.change_defaults(store_defaults(self.config))
            if self.access_control is not None:
                self.access_control.open(self.store)
            self.scram_credentials = ScramCredentials(self.store)
            self.client_quotas = ClientQuotas(self.store, self.config, self.wall)
            self.group_configs = GroupConfigs(self.store, self.config)
            self.subscriptions = Subscriptions(self.store)
            self.features = Features(self.store, self.config)
            self.topics = Topics(self.store, self.config, self.fresh_id)
            if self.topics.named(OFFSETS_TOPIC) is None:
                self._create_offsets_topic({"segment.bytes": str(self.config.number("offsets.topic.segment.bytes"))})
            self.leadership = self._new_leadership()
            self.topics.leads = self.leadership.leads
            self.topics.make, self.topics.make_partitions = self.leadership.create, self.leadership.grow
            self.topics_image = TopicsImage(self, loop)
            self.topics.changed = self.topics_image.changed
            self.writer = Writer(self.store, loop, self._settled)
            self.timers = Timers(loop, self.clock)
            self.waiting_fetches = WaitingFetches(ends_early=self.config.number("group.heartbeat.hold.ms") > 0)
            self.fetch_sessions = FetchSessions(
                self.config.number("max.incremental.fetch.session.cache.slots"), self.waiting_fetches, self.fresh_id
            )
            self.follower_reads = FollowerReads(self)
            self.journal = self.journal_type(self)
            self.groups = self.coordinator_type(self)
            self.transactions = TransactionCoordinator(self)
            self.late_requests = LateRequests(self)
            if self.access_control is not None:
                self.access_control.on_change = self.groups.acls_changed
            self.member_connections = MemberConnections(self)
            self.client_telemetry = TelemetryReceiver(self)
            self.sockets = self.sockets_type(self, self.new_dispatch())
            await self._listen(loop)
        except BaseException:
            self._close_listeners()
            self.store.close()
            raise
        warn_of_idle_settings(self._options.settings)
        self.features.warn_of_other_settings(self._options.settings)
        authorizes = self.access_control is not None
        warn_of_unused_security(self._options.settings, self.listeners, authorizes=authorizes)
        await self.leadership.join()
        if self.inter_broker.problem and (self._options.shared or self._options.postgres is not None):
            log.warning(
                "%s Groups are assigned without the loads of other brokers, and transactions with partitions of others"
                " do not end.",
                self.inter_broker.problem,
            )
        self._log_addresses()  # not earlier: the cluster may refuse this broker
        self.groups.lead()
        self.transactions.lead()
        self.retention = Retention(self)
        self.loads = PartitionLoads(self)
        self.cleaner = Cleaner(self)
        if self.trace is not None:
            self.writer.synced = self.trace.synced
        elif self.metrics is not None:
            self.writer.synced = self.metrics.synced
            self.metrics.start(self)

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen, and determine the advertised addresses."""
        for listener in self.listeners:
            secured = ListenerSecurity(
                listener,
                credentials=lambda: self.scram_credentials,
                now=self.wall,
                time=loop.time,
                fresh_id=self.fresh_id,
                failed_delay_s=self.config.number("connection.failed.authentication.delay.ms") / 1000,
            )
            self._secured.append(secured)
            await secured.start()
            port = await self.sockets.listen(listener, secured)
            self._ports[listener.name] = port
            told = listener.advertised
            if told is not None:
                address = Address(told.host, told.port or port)  # as in Kafka, 0 means the port in use
            else:
                address = Address(listener.host or await loop.run_in_executor(None, machine_name), port)
            self.endpoints[listener.name] = address

    def _close_listeners(self) -> None:
        for secured in self._secured:
            secured.close()

    def _log_addresses(self) -> None:
        for listener in self.listeners:
            own, told = Address(listener.host or "*", self._ports[listener.name]), self.endpoints[listener.name]
            log.info("listening on %s with %s; clients connect to %s", own, listener.protocol, told)
            if is_local_name(told.host) and not is_local_name(listener.host):
                log.warning(
                    "clients on other machines cannot connect to %s: set advertised.listeners to an address for them",
                    told,
                )

    async def stop(self) -> None:
        """Answer or refuse all waiting requests, sync and close. A second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        if self.metrics is not None:
            self.metrics.close()
        self.sockets.stop_listening()
        self._close_listeners()
        self.retention.close()
        await self.loads.close()
        await self.transactions.close()
        await self.cleaner.close()
        self.journal.close()
        self.client_telemetry.close()
        self.waiting_fetches.expire_all()
        self.groups.resign()
        self.transactions.resign()
        await self.writer.drain()
        await self.leadership.leave()
        await self.writer.close()
        self.timers.close()
        await self.sockets.close()
        self.follower_reads.close()
        self.store.close()
        if self.trace is not None:
            self.trace.close()

    @property
    def host(self) -> str:
        """The advertised host of the first listener."""
        return self._first_address.host

    @property
    def port(self) -> int:
        """The advertised port of the first listener."""
        return self._first_address.port

    @property
    def address(self) -> str:
        """The advertised address of the first listener, as HOST:PORT."""
        return str(self._first_address)

    @property
    def _first_address(self) -> Address:
        first = self.listeners[0]
        return self.endpoints.get(first.name) or first.advertised or Address(first.host, first.port)

    @property
    def own_node(self) -> Node:
        """This broker as other brokers and clients see it."""
        endpoints = tuple((name, address.host, address.port) for name, address in self.endpoints.items())
        # 0.1 stores and reads no endpoints. It has only the listener PLAINTEXT.
        is_default = [name for name, _, _ in endpoints] == [DEFAULT_NAME]
        return Node(self.node_id, self.host, self.port, self.rack, () if is_default else endpoints)

    @property
    def stopping(self) -> bool:
        """Whether `stop` has been called."""
        return self._stopped

    @property
    def refuses_clients(self) -> bool:
        """Whether no client can connect and send requests: the broker stops, or its lease has expired."""
        return self._stopped or (self.fenced is not None and self.fenced())

    def end(self, why: str) -> None:
        """Log why the broker can no longer serve requests, and ask the process that runs it to stop it."""
        log.error("%s", why)
        self.over.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    def _create_offsets_topic(self, configs: Mapping[str, str]) -> None:
        try:
            self.topics.create(OFFSETS_TOPIC, self.config.number("offsets.topic.num.partitions"), configs)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise  # otherwise, another broker of the cluster started at the same time

    def _open_store(self) -> LogStore:
        options = self._options
        return open_store(
            options.data,
            postgres=options.postgres,
            shared=options.shared,
            node_id=options.node_id,
            cluster_id=options.cluster_id,
        )

    def _new_leadership(self) -> Leadership:
        return new_leadership(self, self.store)

    # Used by request handlers

    fresh_id: Callable[[], UUID] = staticmethod(uuid4)
    """Returns unguessable IDs. Clock, loop, store and this are all that a broker takes from outside."""

    def new_dispatch(self) -> Callable[[ClientConnection, bytes], None]:
        """Return the function that handles every received frame."""
        if self.trace is not None:
            return Dispatch(self, self.trace.new_call, self.trace.new_call).handle
        if self.metrics is None:
            return Dispatch(self).handle
        requests = self.metrics.requests
        return Dispatch(self, requests.new_call, requests.new_repeat).handle

    def new_group_shard(self, partition: int) -> GroupShard:
        """Return an empty shard for the partition, with this broker's settings."""
        shard = GroupShard(
            self._group_config,
            lambda: str(self.fresh_id()),
            assignors=self._assignors,
            settings=self.group_configs.settings,
            may_describe=None if self.access_control is None else self.access_control.may_describe,
        )
        shard.metadata_changed(self.topics_image.current, self.now())  # an empty shard reacts to nothing
        return shard

    def new_transaction_shard(self) -> TransactionShard:
        """Return an empty shard of the transaction coordinator, with this broker's settings."""
        config = TransactionConfig(
            max_timeout_ms=self.config.number("transaction.max.timeout.ms"),
            id_expiration_ms=self.config.number("transactional.id.expiration.ms"),
            id_expiration_check_interval_ms=self.config.number(
                "transaction.remove.expired.transaction.cleanup.interval.ms"
            ),
        )
        return TransactionShard(
            config,
            self.fresh_producer_id,
            self.groups.offsets_partition,
            version=lambda: self.features.transaction_version,
        )

    def fresh_producer_id(self) -> int:
        """Return a random producer ID.

        No ID is assigned twice, and there is no counter that a crash could set back.
        """
        return self.fresh_id().int & (1 << _PRODUCER_ID_BITS) - 1

    def partition(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the partition's log, by the topic's name."""
        found = self.topics.named(topic)
        return None if found is None else self.topics.log(found, partition)

    def no_log(self, topic: Topic | None, partition: int) -> ErrorCode:
        """Return the error code that says why `topics.log` found no log."""
        if topic is None or not 0 <= partition < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def grow_topic(self, topic: Topic, partitions: int, placement: Placement = ONE_REPLICA) -> None:
        """Add partitions to a topic, and make the clients that fetch from it refresh its metadata."""
        grown = self.topics.grow(topic, partitions, placement)
        if self.config.number("group.heartbeat.hold.ms"):
            self.new_partitions.grown(grown)
            self.waiting_fetches.check_all()

    def delete_topic(self, topic: Topic) -> None:
        """Remove a topic and the offsets that groups committed for it; answer the fetches that wait for its records."""
        self.topics.delete(topic)
        self.groups.topics_deleted([topic.name])
        self.writer.current()  # the writer frees the disk space later
        self.waiting_fetches.check_all()

    def change_config(self, source: Source, configs: Mapping[str, str]) -> None:
        """Replace all run-time changes of `source`, durably. Raise ConfigError or OSError; then nothing has changed."""
        self.dynamic_config.check(source, configs)
        before = self.dynamic_config.changed(source)
        self.store.keep_configs(_BROKER_CONFIGS, self._resource_names[source], configs)
        self.dynamic_config.change(source, configs)
        warn_of_idle_settings({name: text for name, text in configs.items() if text != before.get(name)})
        self._follow_config()
        self.group_configs.follow(self.config)
        self.store.change_defaults(store_defaults(self.config))

    def _restore_config(self) -> None:
        kept = self.store.configs(_BROKER_CONFIGS)
        for source, name in self._resource_names.items():
            self.dynamic_config.restore(source, kept.get(name, {}))
        self._follow_config()

    def configs_changed(self, before: AllConfigs, now: AllConfigs) -> None:
        """React to a change of the stored configs by another broker of the cluster."""
        if self.access_control is not None:
            self.access_control.follow()
        self.client_quotas.follow()
        if now.get(_BROKER_CONFIGS) != before.get(_BROKER_CONFIGS):
            self._restore_config()
            self.store.change_defaults(store_defaults(self.config))
        self.group_configs.follow(self.config)
        if self.subscriptions.changed(before, now):
            self.subscriptions.follow()
        if self.features.changed(before, now):
            self.features.follow()
        for group_id in self.group_configs.changed(before, now):
            self.groups.shard(group_id).settings_changed(group_id)

    def change_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Replace the group's configs with these, which have been checked. The change is durable on return."""
        self.group_configs.change(group_id, configs)
        self.groups.shard(group_id).settings_changed(group_id)

    def _follow_config(self) -> None:
        self.config: BrokerConfig = self.dynamic_config.current
        self.max_elements = self.config.number("max.request.elements")
        self.rules = TopicRules(self.config, self.wall)

    def throttle_if_full(self, connection: ClientConnection) -> None:
        """Stop reading from a producer until the log has caught up."""
        if self.store.queued_bytes > self.config.number("store.queued.max.bytes"):
            self.sockets.throttle(connection)

    @property
    def connections(self) -> int:
        """Number of open connections."""
        return len(self.sockets)

    def _settled(self, moved: Sequence[PartitionLog]) -> None:
        self.follower_reads.settled(moved)
        self.waiting_fetches.moved(moved)
        if self.sockets.throttled and self.store.queued_bytes <= self.config.number("store.queued.max.bytes") // 2:
            self.sockets.unthrottle()


def _location(options: BrokerOptions) -> str:
    if options.postgres is not None:
        return "postgres"
    return "memory" if options.data is None else str(options.data.absolute())
