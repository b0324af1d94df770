"""Brokers for tests: `Broker` is one, `Cluster` are several, each kit in one thread with an event loop of its own.

    with kohort.testing.Broker(topics={"orders": 3}) as broker:
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, ...)

`async with` does the same. A client may block in the test's thread, or run on the test's event loop: neither is the
broker's. Every method may be called from any thread.

    bootstrap_servers               addresses for clients, as HOST:PORT,...
    host, port                      of the first broker
    start(), stop()                 what `with` does
    create_topic(name, partitions)  returns when clients can use it
    topic(name), group(id)          what a test does with them: produce, read, wait (`Topic`, `Group`)
    advance(ms), expire_member, ... control time, members, coordinators and topics; see `kohort.testing.controlled`
    violations, check(), allow()    what clients have broken of what must always hold; the `with` block raises it
    observe(observer)               call it with each event (`kohort.testing.Event`) from now on
    unobserve(observer)             no longer
    journal                         the rebalances that are complete, as `kohort rebalances` shows them
    fault(**selectors, action)      affect requests until they are counted: see `Selectors` for the arguments
    add_faults(rules)               the same with several rules (`Rule`), counted together
    faults, clear_faults()          those that were added (`FaultHandle`), and their removal

For other parts of the kit:

    nodes, node                     the brokers (`TappedBroker`); use them only inside `_run` and `_await`
    _run(function)                  call a function on the event loop and return its result
    _await(coroutine)               run a coroutine there and return its result

The first error of an observer, or of the event loop, is raised by the next of these calls, at the latest by `stop`.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, Unpack
from uuid import UUID

from kohort.broker import BrokerOptions
from kohort.errors import KohortError
from kohort.log import ClusterStore, LogStore
from kohort.log.cluster import Placement
from kohort.recorder import RebalanceRecord
from kohort.security import Secret
from kohort.security.sasl import MIN_ITERATIONS, ScramCredential, ScramMechanism
from kohort.testing.clock import ControlledClock
from kohort.testing.controlled import Controlled
from kohort.testing.controls import Controls
from kohort.testing.events import Observer
from kohort.testing.faults import Faults, FaultSet
from kohort.testing.group import Group
from kohort.testing.invariants import Invariant, Limits, Violation
from kohort.testing.loop_thread import LoopThread
from kohort.testing.rules import Rule, Selectors, rule_of
from kohort.testing.taps import TappedBroker
from kohort.testing.topic import Topic
from kohort.testing.verdict import Verdict, VerdictError
from kohort.testing.waiting import WaitTimeoutError, blocking_hint

_T = TypeVar("_T")

QUICK: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "connection.failed.authentication.delay.ms": "0",
}
"""Settings of every kit: groups do not wait for further members, and tests may choose short timeouts."""

_READY_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.002
_LINGER_S = 1.0
"""Time that clients have to take the last answers when the brokers stop."""
_SALT = b"of the users of kohort.testing"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class _Brokers(Controlled):
    """What `Broker` and `Cluster` have in common."""

    _linger_s = _LINGER_S

    def __init__(
        self,
        topics: Mapping[str, int] | None,
        settings: Mapping[str, str] | None,
        users: Mapping[str, str] | None,
        observers: Sequence[Observer],
        limits: Limits | None,
    ) -> None:
        self._first_topics = dict(topics or {})
        self._settings = {**QUICK, **(settings or {})}
        self._users = dict(users or {})
        self._observers = list(observers)
        self._faults = Faults()
        self._thread: LoopThread | None = None
        self._limits = limits
        self._verdict = Verdict(limits)
        self._clock = ControlledClock()
        self._topics: dict[str, Topic] = {}
        self._groups: dict[str, Group] = {}
        self.nodes: list[TappedBroker] = []
        """The brokers. They belong to the kit's event loop: use them inside `_run` and `_await` only."""

    def _new_nodes(self) -> list[TappedBroker]:
        raise NotImplementedError

    # Start and stop

    def start(self) -> Self:
        """Start the brokers. On return they answer clients, and have their topics."""
        thread = self._new_thread()
        try:
            thread.begin(self._begin()).result()
        except BaseException:
            self._end_thread()
            raise
        return self

    def stop(self) -> None:
        """Answer or refuse all waiting requests, and close all connections. A second call does nothing.

        Raise the first error of an observer or of the event loop that no other call has raised.
        """
        if self._thread is not None:
            try:
                self._thread.begin(self._end()).result()
            finally:
                self._end_thread()

    @property
    def is_running(self) -> bool:
        """Whether the brokers were started and not stopped."""
        return self._thread is not None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        with _unless_failed(exc):
            self.stop()
            self._raise_violations()

    async def __aenter__(self) -> Self:
        thread = self._new_thread()
        try:
            await asyncio.wrap_future(thread.begin(self._begin()))
        except BaseException:
            self._end_thread()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._thread is not None
        with _unless_failed(exc):
            try:
                await asyncio.wrap_future(self._thread.begin(self._end()))
            finally:
                self._end_thread()
            self._raise_violations()

    def _new_thread(self) -> LoopThread:
        if self._thread is not None:
            raise KohortError("The broker runs already.")
        self._thread = LoopThread("kohort-testing", self._end)
        return self._thread

    def _end_thread(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()
            self._raise_failure(thread)

    async def _begin(self) -> None:
        self._clock = ControlledClock()
        self._verdict = Verdict(self._limits)
        self._topics.clear()
        self._groups.clear()
        self.nodes = self._new_nodes()
        self._control = Controls(self.nodes, self._clock)
        for node in self.nodes:
            node.observers += [self._verdict.observe, *self._observers]
            node.faults = self._faults
        started: list[TappedBroker] = []
        try:
            for node in self.nodes:
                await node.start()
                started.append(node)
            self._add_users()
            await self._settle()
            for name, partitions in self._first_topics.items():
                await self._create_topic(name, partitions, {}, 1)
        except BaseException:
            for node in started:
                await node.stop()
            self._released()
            raise

    async def _end(self) -> None:
        self._verdict.finish(max(node.now() for node in self.nodes))
        self._controls.heal_disks()
        # All at once: to give partitions to a broker that also stops would only take time.
        results = await asyncio.gather(*(node.stop() for node in self.nodes), return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger_s):
                while any(node.connections for node in self.nodes):  # noqa: ASYNC110  # no event tells
                    await asyncio.sleep(_LOOK_EVERY_S)
        for node in self.nodes:
            for connection in list(node.sockets):
                connection.drop("the broker has stopped")
        self._faults.clear()
        self._released()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _released(self) -> None:
        """Remove what the brokers used."""

    async def _settle(self, topic: str | None = None) -> None:
        """Wait until all partitions have leaders and all groups are loaded, and until all brokers know the topic."""
        async with asyncio.timeout(_READY_WITHIN_S):
            while not self._is_settled(topic):  # noqa: ASYNC110  # other brokers write files
                await asyncio.sleep(_LOOK_EVERY_S)

    def _is_settled(self, topic: str | None) -> bool:
        return all(self._is_ready(node, topic) for node in self.nodes)

    def _is_ready(self, node: TappedBroker, topic: str | None) -> bool:
        if isinstance(node.store, ClusterStore):
            image = node.store.image
            if len(image.nodes) != len(self.nodes) or not image.settled:
                return False
        if not all(shard.ready for shard in node.groups):
            return False
        if topic is None:
            return True
        found = node.topics.named(topic)
        if found is None:
            return False
        leaders = [node.leadership.leader(found, index).node_id for index in range(found.partitions)]
        return all(
            node.topics.log(found, index) is not None for index, leader in enumerate(leaders) if leader == node.node_id
        )

    def _add_users(self) -> None:
        """Add the users' SCRAM credentials; those of PLAIN are in the settings."""
        for user, password in self._users.items():
            made = {
                mechanism: ScramCredential.from_password(mechanism, Secret(password), _SALT, MIN_ITERATIONS)
                for mechanism in ScramMechanism
            }
            self.nodes[0].scram_credentials.change(user, (), made)

    # For clients and tests

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, as clients take them: HOST:PORT,..."""
        return ",".join(self._run(lambda: [node.address for node in self.nodes]))

    @property
    def host(self) -> str:
        """The host of the first broker."""
        return self._run(lambda: self.nodes[0].host)

    @property
    def port(self) -> int:
        """The port of the first broker."""
        return self._run(lambda: self.nodes[0].port)

    def create_topic(
        self, name: str, partitions: int = 1, *, configs: Mapping[str, str] | None = None, replicas: int = 1
    ) -> UUID:
        """Create a topic and return its ID; clients can use it on return. Raise KafkaError."""
        return self._await(self._create_topic(name, partitions, configs or {}, replicas))

    async def _create_topic(self, name: str, partitions: int, configs: Mapping[str, str], replicas: int) -> UUID:
        topic = self.nodes[0].topics.create(name, partitions, configs, Placement(replicas))
        await self._settle(name)
        return topic.topic_id

    def topic(self, name: str) -> Topic:
        """Return the name with methods to write and read records, and to wait for them. It may not exist yet."""
        return self._topics.setdefault(name, Topic(name, self))  # one, because it counts

    def group(self, group_id: str) -> Group:
        """Return the group ID with methods to wait until the group is as expected. It may not exist yet."""
        return self._groups.setdefault(group_id, Group(group_id, self))  # one, because it counts

    def _forget(self, topics: Collection[str], groups: Collection[str]) -> None:
        """Keep no values of `topic` and `group` for names that are not used any more."""
        for topic in topics:
            self._topics.pop(topic, None)
        for group in groups:
            self._groups.pop(group, None)

    # What must always hold

    @property
    def violations(self) -> list[Violation]:
        """What clients or brokers have broken so far of what must always hold, and no `check` has raised."""
        return self._run(lambda: list(self._verdict.violations))

    def check(self) -> None:
        """Raise VerdictError if something was broken that must always hold. Leaving the `with` block does the same."""
        self._run(lambda: self._verdict.finish(max(node.now() for node in self.nodes)))
        self._raise_violations()

    def allow(self, invariant: Invariant, *groups: str) -> None:
        """Accept that these groups, or all without `groups`, break an invariant: a test may do it on purpose."""
        if not isinstance(invariant, Invariant):
            raise KohortError(f"Give an invariant such as Invariant.FORWARD_COMMITS, not {invariant!r}.")
        self._run(lambda: self._verdict.allow(invariant, *groups))

    def _allowed(self) -> Mapping[Invariant, Collection[str]]:
        return self._run(lambda: self._verdict.checks.allowed)

    def _allow_only(self, allowed: Mapping[Invariant, Collection[str]]) -> None:
        self._run(lambda: self._verdict.checks.allow_only(allowed))

    def _take_violations(self, concerns: Callable[[Violation], bool]) -> list[Violation]:
        return self._run(lambda: self._verdict.take(concerns))

    def _raise_violations(self) -> None:
        violations = self._verdict.take(lambda violation: True)
        if violations:
            raise VerdictError(violations)

    def observe(self, observer: Observer) -> None:
        """Call `observer` with each event of the brokers from now on, on their event loop."""

        def add() -> None:
            for node in self.nodes:
                node.observers.append(observer)

        self._run(add)
        self._observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """Call `observer` no longer."""

        def remove() -> None:
            for node in self.nodes:
                node.observers.remove(observer)

        self._run(remove)
        self._observers.remove(observer)

    @property
    def journal(self) -> list[RebalanceRecord]:
        """The rebalances that are complete, the earliest of each broker first."""
        return self._run(lambda: [record for node in self.nodes for record in node.rebalances])

    @property
    def rebalances(self) -> list[RebalanceRecord]:
        """The rebalances that are over, the earliest first; the last of a group may still lack some first reads."""

        def of_all() -> list[RebalanceRecord]:
            found = [record for node in self.nodes for record in (*node.rebalances, *node.journal.unfinished)]
            return sorted((record for record in found if record.is_rebalance), key=lambda record: record.ended_at)

        return self._run(of_all)

    # Faults

    def fault(self, **selectors: Unpack[Selectors]) -> "FaultHandle":
        """Let requests fail, or their answers be lost or late. `Selectors` describes the arguments.

            broker.fault(keys="OffsetFetch", error="STALE_MEMBER_EPOCH")
            broker.fault(keys="Heartbeat", group="g", hold=True, count=-1)
            broker.fault(keys="Produce", topic="orders", partitions=[0], error="REQUEST_TIMED_OUT", nth=3)

        One request is affected unless `count` says otherwise. Answers of a connection are sent in the order of its
        requests, so one that is dropped, delayed or held stops the later ones of its connection. Raise ConfigError.
        """
        return self.add_faults([rule_of(**selectors)])

    def add_faults(self, rules: Sequence[Rule]) -> "FaultHandle":
        """Add rules that are counted and removed together."""
        return FaultHandle(self, self._run(lambda: self._faults.add(rules)))

    @property
    def faults(self) -> "list[FaultHandle]":
        """The faults that were added and not removed, also if they are spent."""
        return [FaultHandle(self, each) for each in self._run(lambda: list(self._faults))]

    def clear_faults(self) -> int:
        """Remove all faults, and release what they hold. Return the number of calls that added them."""
        return self._run(self._faults.clear)

    # For other parts of the kit

    def _run(self, function: Callable[[], _T]) -> _T:
        """Call a function on the event loop of the brokers, and return its result."""
        thread = self._running
        self._raise_failure(thread)
        return thread.call(function)

    def _await(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the event loop of the brokers, and return its result."""
        try:
            thread = self._running
            self._raise_failure(thread)
        except BaseException:
            work.close()
            raise
        return thread.begin(work).result()

    async def _awaited(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the event loop of the brokers, and return its result to another event loop."""
        try:
            thread = self._running
            self._raise_failure(thread)
        except BaseException:
            work.close()
            raise
        return await asyncio.wrap_future(thread.begin(work))

    @property
    def _running(self) -> LoopThread:
        if self._thread is None:
            raise KohortError("The broker is not running: use it in a `with` block, or call `start` first.")
        return self._thread

    def _raise_failure(self, thread: LoopThread) -> None:
        failures = [failure for node in self.nodes for failure in node.failures]
        for node in self.nodes:
            node.failures.clear()
        failure = failures[0] if failures else thread.take_failure()
        if failure is not None:
            failure.add_note("It was raised on the event loop of kohort.testing.")
            raise failure


class FaultHandle:
    """Rules that were added together. Use it from any thread; as a context manager, it is removed at the end."""

    def __init__(self, kit: _Brokers, faults: FaultSet) -> None:
        self._kit = kit
        self._set = faults
        self.id = faults.id
        """Number of the fault, unique among those of its broker or cluster."""

    @property
    def rules(self) -> list[Rule]:
        """The rules."""
        return self._set.rules

    @property
    def hits(self) -> int:
        """Number of requests that were affected so far."""
        return self._set.hits

    @property
    def left(self) -> int:
        """Number of requests that may still be affected; -1 if that is not limited."""
        return self._set.left

    @property
    def held(self) -> int:
        """Number of requests and answers that are held now."""
        return self._set.held

    def wait(self, hits: int = 1, timeout_s: float = 30.0) -> int:
        """Wait until that many requests were affected, and return their number.

        Raise WaitTimeoutError, or KohortError if the fault is removed before.
        """
        try:
            return self._kit._await(self._set.wait(hits, timeout_s))
        except TimeoutError as error:
            raise WaitTimeoutError(f"{error}{blocking_hint()}") from None

    async def wait_async(self, hits: int = 1, timeout_s: float = 30.0) -> int:
        """Like `wait`, for tests with an event loop."""
        try:
            return await self._kit._awaited(self._set.wait(hits, timeout_s))
        except TimeoutError as error:
            raise WaitTimeoutError(str(error)) from None

    def release(self) -> None:
        """Let all requests that were hit so far go on, also if the broker still works at one whose answer is held."""
        self._kit._run(self._set.release)

    def remove(self) -> bool:
        """Affect no more requests, and release what is held. Return whether the fault was there.

        A broker that stops removes its faults.
        """
        return not self._set.removed and self._kit._run(lambda: self._kit._faults.remove(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<Fault {self.id}: {self._set}>"


class Broker(_Brokers):
    """One broker."""

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        node_id: int = 1,
        data: Path | None = None,
        store: LogStore | None = None,
        observers: Sequence[Observer] = (),
        limits: Limits | None = None,
    ) -> None:
        """`topics` has the partitions of each topic that the broker begins with; `settings` are Kafka's.

        With `users` (their passwords by name), clients must authenticate by SASL_PLAINTEXT, with PLAIN or SCRAM. Port 0
        takes a free port. The log is in memory unless a directory `data` or a `store` is given. `limits` are numbers of
        the checks of what must always hold.
        """
        super().__init__(topics, settings, users, observers, limits)
        self._options = BrokerOptions(
            host=host,
            port=port,
            data=data,
            node_id=node_id,
            settings={**_secured(self._users, host, port), **self._settings},
        )
        self._store = store

    @property
    def node(self) -> TappedBroker:
        """The broker. It belongs to the kit's event loop: use it inside `_run` and `_await` only."""
        return self.nodes[0]

    def _new_nodes(self) -> list[TappedBroker]:
        return [TappedBroker(self._options, self._store, self._clock)]


class Cluster(_Brokers):
    """Several brokers with node IDs from 1 on. They share a directory, which is temporary unless `data` is given."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        ports: Sequence[int] = (),
        racks: Sequence[str] = (),
        data: Path | None = None,
        observers: Sequence[Observer] = (),
        limits: Limits | None = None,
    ) -> None:
        """See `Broker`. `ports` and `racks`, if given, have one entry for each broker."""
        for name, given in (("ports", ports), ("racks", racks)):
            if given and len(given) != brokers:
                raise KohortError(f"Give {name} one entry for each of the {brokers} brokers, not {len(given)}.")
        super().__init__(topics, settings, users, observers, limits)
        self._data = data
        self._temporary: Path | None = None
        self._host = host
        self._ports = list(ports) or [0] * brokers
        self._racks = [{"broker.rack": rack} for rack in racks] or [{}] * brokers

    def _new_nodes(self) -> list[TappedBroker]:
        data = self._data
        if data is None:
            data = self._temporary = Path(tempfile.mkdtemp(prefix="kohort-testing-"))
        return [
            TappedBroker(
                BrokerOptions(
                    host=self._host,
                    port=port,
                    data=data,
                    shared=True,
                    node_id=number,
                    settings={**_secured(self._users, self._host, port), **self._settings, **rack},
                ),
                clock=self._clock,
            )
            for number, (port, rack) in enumerate(zip(self._ports, self._racks, strict=True), 1)
        ]

    def _released(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary)
            self._temporary = None


def _secured(users: Mapping[str, str], host: str, port: int) -> dict[str, str]:
    """Return the settings of a broker whose clients must authenticate as one of these users; none without users."""
    if not users:
        return {}
    first, password = next(iter(users.items()))  # as this one, brokers connect to each other
    options = {"username": first, "password": password, **{f"user_{name}": text for name, text in users.items()}}
    listed = " ".join(f'{name}="{_quoted(text)}"' for name, text in options.items())
    return {
        "listeners": f"SASL_PLAINTEXT://{host}:{port}",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": ",".join(["PLAIN", *(mechanism.value for mechanism in ScramMechanism)]),
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} required {listed};",
    }


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@contextlib.contextmanager
def _unless_failed(exc: Sequence[object]) -> Iterator[None]:
    """Suppress errors of the stop if the `with` block failed: its own error is the one that matters."""
    try:
        yield
    except Exception:
        if exc[0] is None:
            raise
