"""Three brokers over one PostgreSQL, each through a wire of its own, and what goes wrong with them.

Brokers are killed, stopped, stand still past their leases and wake up again; wires break, or let nothing through for a
while; the server is stopped, or killed, and started again. A broker that ended is started anew.
"""

from __future__ import annotations

import contextlib
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kohort.log.cluster import ClusterImage
from kohort.log.postgres import BadDatabase
from kohort.log.postgres.cluster_state import read_image
from tests.chaos.faults import send_signal
from tests.chaos.history import History
from tests.cluster.postgres import PostgresServer, running_postgres
from tests.cluster.wire import Wire, wire_to
from tests.interop.kohort import kohort
from tests.interop.process import NotReady, ServerProcess, until

LEASE_MS = 1_500
_REPLACED_WITHIN_S = 30.0
_AGAIN_AFTER_S = 0.3


class SupervisedBroker:
    """A broker process through a wire, started again whenever it ends."""

    def __init__(self, node_id: int, wire: Wire, settings: Mapping[str, str], log: Path) -> None:
        self.node_id = node_id
        self.wire = wire
        self.address = ""
        named = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        self._arguments = ["--postgres", wire.dsn, "--node-id", str(node_id), *named]
        self._log = log
        self._over = threading.Event()
        self._process = self._start()
        self._watching = threading.Thread(target=self._watch, name=f"broker-{node_id}", daemon=True)
        self._watching.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        send_signal(self.pid, number)

    def stop(self) -> None:
        self._over.set()
        self._watching.join(60.0)
        self.signal(signal.SIGCONT)
        self._process.stop(30.0)

    def _start(self) -> ServerProcess:
        """Where it was before: clients know the address."""
        command = kohort("broker", "--listen", self.address or "127.0.0.1:0", *self._arguments)
        process = ServerProcess(["sh", "-c", 'exec "$@" 2>>"$0"', str(self._log), *command])
        with contextlib.suppress(NotReady):  # then it has ended, or will
            self.address = process.wait_for(r"^ready (\S+)$", timeout=60.0)[1]
        return process

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            if not self._process.alive:
                time.sleep(_AGAIN_AFTER_S)
                self._process = self._start()


class PostgresSite:
    """The brokers, their database, and one fault after the other."""

    def __init__(
        self, server: PostgresServer, dsn: str, brokers: list[SupervisedBroker], chance: random.Random, history: History
    ) -> None:
        self.failovers = 0
        """How often what a broker led was led by others."""
        self._server = server
        self._dsn = dsn
        self._brokers = brokers
        self._chance = chance
        self._history = history

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self._brokers)

    def inject_fault(self) -> None:
        """Do something to one broker or to the database, and wait until the others have taken over where they must."""
        if len(self._image().nodes) < 2:
            time.sleep(0.1)
            return
        broker = self._chance.choice(self._brokers)
        kinds: list[tuple[Callable[[SupervisedBroker], None], int]] = [
            (self._kill, 10),
            (self._terminate, 3),
            (self._stand_still, 3),
            (self._pause, 2),
            (self._cut, 3),
            (self._break, 4),
            (self._restart_server, 1),
            (self._kill_server, 1),
        ]
        (fault,) = self._chance.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])
        self._history.note("fault", what=fault.__name__.strip("_"), node=broker.node_id)
        fault(broker)

    def settle(self, brokers: int) -> None:
        """Wait until all brokers are there and lead their shares."""
        until(90.0, "the cluster settles", lambda: len(self._image().nodes) == brokers and self._image().settled)

    def _kill(self, broker: SupervisedBroker) -> None:
        with self._replaced(broker):
            broker.signal(signal.SIGKILL)

    def _terminate(self, broker: SupervisedBroker) -> None:
        with self._replaced(broker):
            broker.signal(signal.SIGTERM)

    def _stand_still(self, broker: SupervisedBroker) -> None:
        """It wakes when others lead what it led, and has to end by itself."""
        try:
            with self._replaced(broker):
                broker.signal(signal.SIGSTOP)
        finally:
            broker.signal(signal.SIGCONT)

    def _pause(self, broker: SupervisedBroker) -> None:
        broker.signal(signal.SIGSTOP)
        time.sleep(self._chance.uniform(0.05, 0.6))
        broker.signal(signal.SIGCONT)

    def _cut(self, broker: SupervisedBroker) -> None:
        """Nobody is told that nothing passes any more."""
        try:
            with self._replaced(broker):
                broker.wire.hold()
        finally:
            broker.wire.flow()

    def _break(self, broker: SupervisedBroker) -> None:
        """Cut the connection, perhaps during a commit, whose outcome is then unknown."""
        for _ in range(self._chance.randint(1, 5)):
            broker.wire.break_connections()
            time.sleep(self._chance.uniform(0.0, 0.1))

    def _restart_server(self, broker: SupervisedBroker) -> None:
        self._server.stop()
        self._server.start()

    def _kill_server(self, broker: SupervisedBroker) -> None:
        self._server.kill()
        self._server.start()

    @contextlib.contextmanager
    def _replaced(self, broker: SupervisedBroker) -> Iterator[None]:
        """Then others lead what it led, or it is another process that does."""
        before = self._led(broker.node_id)
        yield
        if not before:
            return  # it had been replaced already
        try:
            until(
                _REPLACED_WITHIN_S,
                f"the others lead what broker {broker.node_id} led",
                lambda: self._led(broker.node_id) != before,
            )
        except AssertionError as error:
            self._history.note("stuck", what=str(error))
        else:
            self.failovers += 1

    def _led(self, node_id: int) -> frozenset[tuple[object, int]]:
        """Return the partitions that a broker leads, with their epochs."""
        return frozenset((partition, leader.epoch) for partition, leader in self._image().led_by(node_id))

    def _image(self) -> ClusterImage:
        while True:
            with contextlib.suppress(BadDatabase):  # all connections are taken, or it has just come back
                return read_image(self._dsn)
            time.sleep(0.1)


@contextlib.contextmanager
def postgres_site(
    directory: Path, brokers: int, settings: Mapping[str, str], chance: random.Random, history: History
) -> Iterator[PostgresSite]:
    """Raises Unavailable."""
    # Loading fills a segment, and the judge reads every commit.
    settings = {**settings, "broker.lease.ms": str(LEASE_MS), "log.cleaner.enable": "false"}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(running_postgres())
        dsn = server.fresh_database()
        found = []
        for node_id in range(1, brokers + 1):
            sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="kohort-wire-"))
            wire = stack.enter_context(wire_to(Path(sockets), dsn))
            broker = SupervisedBroker(node_id, wire, settings, directory / f"broker-{node_id}.log")
            stack.callback(broker.stop)
            found.append(broker)
        site = PostgresSite(server, dsn, found, chance, history)
        site.settle(brokers)
        yield site
