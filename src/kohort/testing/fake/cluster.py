"""The cluster of `kohort fake`: brokers in this process that can be added and removed while clients are connected.

Node IDs begin at 0, as those of kfake do. All brokers share one directory, so that any of them can take over from
another; it is temporary unless the user gives one.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from kohort.broker import BrokerOptions
from kohort.broker.config import STANDARD_AUTHORIZER
from kohort.errors import KohortError
from kohort.log import ClusterStore, LogStore
from kohort.log.cluster import ClusterImage, PartitionId
from kohort.security import Secret, user_principal
from kohort.security.sasl import MIN_ITERATIONS, ScramCredential, ScramMechanism
from kohort.testing.broker import Cluster
from kohort.testing.releases import served_by, settings_of
from kohort.testing.taps import TappedBroker

HOST = "127.0.0.1"
DEFAULT_PORTS = (9092, 9093, 9094)
_MOST_DEFAULT_PARTITIONS = 3
_FOLLOW_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.002
_SALT = b"of the users of kohort fake"


class Mechanism(StrEnum):
    """A SASL mechanism that users may have."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class User:
    """A user that may do everything."""

    mechanism: Mechanism
    name: str
    password: Secret


@dataclass(frozen=True, slots=True)
class FakeOptions:
    """What a cluster begins with."""

    ports: Sequence[int] = DEFAULT_PORTS
    """Port of each broker; 0 takes a free one."""
    memory: bool = False
    """Whether the log of the only broker is in memory. Then it has snapshots, and no broker can be added."""
    data: Path | None = None
    sync: bool = False
    """Whether the log is synced to the disk before a request is answered."""
    release: str | None = None
    """Release of Apache Kafka that the brokers pretend to be."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    topics: Mapping[str, int] = field(default_factory=dict)
    """Partitions of each topic; -1 means num.partitions."""
    creates_topics: bool = False
    """Whether clients create topics by using them."""
    users: Sequence[User] = ()
    acls: bool = False


class _Node(TappedBroker):
    syncs = True
    """Whether the log is synced to the disk before a request is answered."""

    def _open_store(self) -> LogStore:
        if self._options.data is None:
            return super()._open_store()
        return ClusterStore(self._options.data, self.node_id, durable=self.syncs)


class FakeCluster(Cluster):
    """A cluster that grows and shrinks."""

    _linger_s = 0.2

    def __init__(self, options: FakeOptions) -> None:
        super().__init__(len(options.ports), topics=options.topics, settings=_settings(options), data=options.data)
        self._fake = options

    def _new_nodes(self) -> list[TappedBroker]:
        if self._data is None and not self._fake.memory:
            self._temporary = Path(tempfile.mkdtemp(prefix="kohort-fake-"))
        return [self._new_node(node_id, port) for node_id, port in enumerate(self._fake.ports)]

    def _new_node(self, node_id: int, port: int) -> TappedBroker:
        settings = dict(self._settings)
        if self._fake.users:
            settings["listeners"] = f"SASL_PLAINTEXT://{HOST}:{port}"
        options = BrokerOptions(host=HOST, port=port, node_id=node_id, settings=settings)
        if not self._fake.memory:
            options = replace(options, data=self._data or self._temporary, shared=True)
        node = _Node(options, clock=self._clock)
        node.syncs = self._fake.sync
        if self._fake.release is not None:
            node.served = served_by(self._fake.release)
        return node

    def _released(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)  # a broker that failed may still write
            self._temporary = None

    def _add_users(self) -> None:
        for user in self._fake.users:
            if user.mechanism is not Mechanism.PLAIN:
                mechanism = next(each for each in ScramMechanism if each.value == user.mechanism.value)
                made = ScramCredential.from_password(mechanism, user.password, _SALT, MIN_ITERATIONS)
                self.nodes[0].scram_credentials.change(user.name, (), {mechanism: made})

    @property
    def addresses(self) -> list[str]:
        """The address of each broker, as HOST:PORT."""
        return self._run(lambda: [node.address for node in self.nodes])

    # Brokers that come and go

    def add_node(self, node_id: int | None = None, port: int = 0) -> tuple[int, int]:
        """Start another broker, and return its ID and port once clients can use it. Raise KohortError."""
        return self._await(self._add_node(node_id, port))

    async def _add_node(self, node_id: int | None, port: int) -> tuple[int, int]:
        if self._fake.memory:
            raise KohortError("a broker in memory shares nothing that another one could lead")
        ids = [node.node_id for node in self.nodes]
        if node_id is None:
            node_id = max(ids) + 1
        elif node_id in ids:
            raise KohortError(f"node {node_id} already exists")
        node = self._new_node(node_id, port)
        node.observers += [self._verdict.observe, *self._observers]
        node.faults = self._faults
        try:
            await node.start()
        except OSError as error:
            raise KohortError(f"node {node_id} cannot listen on port {port}: {error.strerror or error}") from error
        self.nodes.append(node)
        await self._settle()
        return node_id, node.port

    def remove_node(self, node_id: int) -> None:
        """Stop a broker; the others lead its partitions on return. Raise KohortError."""
        self._await(self._remove_node(node_id))

    async def _remove_node(self, node_id: int) -> None:
        node = self.node_with(node_id)
        if len(self.nodes) == 1:
            raise KohortError("cannot remove all brokers")
        self.nodes.remove(node)
        await node.stop()
        for connection in list(node.sockets):
            connection.drop("the broker was removed")
        assert self._control is not None
        self._control.removed(node_id)
        await self._settle()

    def node_with(self, node_id: int) -> TappedBroker:
        """Return the broker with that ID, on the event loop. Raise KohortError."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise KohortError(f"node {node_id} not found")

    def _is_settled(self, topic: str | None) -> bool:
        versions = {node.store.image.version for node in self.nodes if isinstance(node.store, ClusterStore)}
        return len(versions) <= 1 and super()._is_settled(topic)

    # Changes that take a moment, on the event loop

    async def settle(self) -> None:
        """Wait until all partitions have leaders that keep them, and all groups are loaded."""
        await self._settle()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until all brokers have followed a change. Raise TimeoutError after a long time."""
        async with asyncio.timeout(_FOLLOW_WITHIN_S):
            while not condition():  # noqa: ASYNC110  # the brokers follow each other through files
                await asyncio.sleep(_LOOK_EVERY_S)

    async def move_leaders(self, leaders: Mapping[PartitionId, int]) -> None:
        """Let these brokers lead these partitions; the brokers have followed on return. Raise OSError."""
        store = self.nodes[0].store
        if not isinstance(store, ClusterStore):
            return  # the only broker leads them all

        def move(image: ClusterImage) -> ClusterImage:
            moved = {
                one: leader._replace(following=wanted)
                for one, wanted in leaders.items()
                if one.topic_id in image.leaders and (leader := image.leader(one)).node_id != wanted
            }
            return image.led(moved)

        store.follow(store.home.change(move))
        await self._settle()


def _settings(options: FakeOptions) -> dict[str, str]:
    settings = {
        "num.partitions": str(min(len(options.ports), _MOST_DEFAULT_PARTITIONS)),
        "auto.create.topics.enable": str(options.creates_topics).lower(),
        **({} if options.release is None else settings_of(options.release)),
    }
    if options.acls:
        settings["authorizer.class.name"] = STANDARD_AUTHORIZER
    if options.users:
        settings |= _secured(options.users)
    return {**settings, **options.settings}


def _secured(users: Sequence[User]) -> dict[str, str]:
    """Return the settings of brokers whose clients must authenticate as one of these users."""
    own = users[0]  # as this one, the brokers connect to each other
    logins: dict[Mechanism, dict[str, str]] = {
        own.mechanism: {"username": own.name, "password": own.password.reveal()},
    }
    for user in users:
        if user.mechanism is Mechanism.PLAIN:
            logins.setdefault(user.mechanism, {})[f"user_{user.name}"] = user.password.reveal()
    return {
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": own.mechanism.value,
        "sasl.enabled.mechanisms": ",".join(dict.fromkeys(user.mechanism.value for user in users)),
        "super.users": ";".join(dict.fromkeys(user_principal(user.name) for user in users)),
        **{
            f"listener.name.sasl_plaintext.{mechanism.value.lower()}.sasl.jaas.config": _login(mechanism, options)
            for mechanism, options in logins.items()
        },
    }


def _login(mechanism: Mechanism, options: Mapping[str, str]) -> str:
    kind = "plain.Plain" if mechanism is Mechanism.PLAIN else "scram.Scram"
    escaped = {name: text.replace("\\", "\\\\").replace('"', '\\"') for name, text in options.items()}
    words = " ".join(f'{name}="{text}"' for name, text in escaped.items())
    return f"org.apache.kafka.common.security.{kind}LoginModule required {words};"
