"""Several broker processes over one directory or database: start them, report their addresses, stop them together."""

import asyncio
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kohort.broker.config import DEFAULT_NAME, address_text
from kohort.child_processes import starting_child
from kohort.errors import KohortError
from kohort.log.cluster import ClusterImage, Node, read_image
from kohort.properties import format_properties

log = logging.getLogger("kohort.cluster")

_READY_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.02
_STOP_WITHIN_S = 30.0
_AGAIN_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How the brokers are started: one per address, with node IDs from 1."""

    listen: Sequence[str]
    """Addresses of each broker, as [NAME://]HOST:PORT separated by commas; port 0 takes a free port."""
    data: Path
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)  # some are secrets
    """Settings of all brokers."""
    cluster_id: str | None = None
    """Cluster ID that the store must have; None accepts any."""
    racks: Sequence[str] = ()
    """Rack of each broker; as many as there are brokers, or none."""
    restart: bool = False
    """Restart brokers that exit."""
    postgres: str | None = field(default=None, repr=False)  # may contain a password
    """Connection string of a database that the brokers share instead of `data`."""
    advertise: Sequence[str] = ()
    """Advertised addresses of each broker, in the form of `listen`; if empty, the addresses on which they listen."""
    metrics: Sequence[str] = ()
    """Address of each broker's metrics; as many as there are brokers, or none."""
    metrics_sockets: Path | None = None
    """Directory with a socket for each broker's metrics; None for none."""


@dataclass(slots=True)
class _Broker:
    node_id: int
    listen: str
    process: Process | None = None
    address: str = ""
    watching: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class BrokerProcesses:
    """The processes of one cluster: `async with BrokerProcesses(options) as cluster: cluster.bootstrap`."""

    options: ClusterOptions
    brokers: list[_Broker] = field(init=False)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the last broker has exited and none is restarted."""
    _nodes: Mapping[int, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.brokers = [_Broker(number + 1, listen) for number, listen in enumerate(self.options.listen)]

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers: HOST:PORT,HOST:PORT,..."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def metrics_sockets(self) -> Mapping[int, Path]:
        """Paths of the sockets with the metrics of each broker, by node ID."""
        directory = self.options.metrics_sockets
        return {} if directory is None else {each.node_id: directory / str(each.node_id) for each in self.brokers}

    def addresses_at(self, listener: str) -> str:
        """Return the addresses of a listener on all brokers that have it: HOST:PORT,HOST:PORT,..."""
        found = [node.at(listener) for _, node in sorted(self._nodes.items())]
        return ",".join(address_text(each.host, each.port) for each in found if each is not None)

    async def __aenter__(self) -> "BrokerProcesses":
        await self.start()
        return self

    async def start(self) -> None:
        """Start all brokers, and wait until they answer. Raise KohortError after stopping those that were started."""
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                for broker in self.brokers:
                    await self._start(broker)
                await self._settle()
        except TimeoutError:
            await self.stop()
            raise KohortError(f"The cluster was not ready after {_READY_WITHIN_S:.0f} s; its log says why.") from None
        except BaseException:
            await self.stop()
            raise
        for broker in self.brokers:
            broker.watching = asyncio.create_task(self._watch(broker))

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Send SIGTERM to all at once: giving partitions to a broker that also stops would only take time."""
        watching = [broker.watching for broker in self.brokers if broker.watching is not None]
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await asyncio.gather(*(self._stop(broker) for broker in self.brokers))

    async def _stop(self, broker: _Broker) -> None:
        process = broker.process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await process.wait()
        except TimeoutError:
            log.error("broker %d did not end within %.0f s: it is killed", broker.node_id, _STOP_WITHIN_S)
            process.kill()
            await process.wait()

    async def _start(self, broker: _Broker) -> None:
        options = self.options
        command = ["-m", "kohort", "broker"]
        # A connection string may contain a password, too.
        environment = {**os.environ}
        if options.postgres is None:
            command += ["--shared", "--data", str(options.data)]
        else:
            environment["KOHORT_POSTGRES"] = options.postgres
        command += ["--listen", broker.listen, "--node-id", str(broker.node_id)]
        if options.cluster_id is not None:
            command += ["--cluster-id", options.cluster_id]
        if options.metrics:
            command += ["--metrics", options.metrics[broker.node_id - 1]]
        if options.metrics_sockets is not None:
            command += ["--metrics-socket", str(self.metrics_sockets[broker.node_id])]
        settings = dict(options.settings)
        if options.advertise:
            settings["advertised.listeners"] = options.advertise[broker.node_id - 1]
        if options.racks:
            settings["broker.rack"] = options.racks[broker.node_id - 1]
        # In a process group of its own, because this process passes Ctrl-C on.
        with starting_child(signal.SIGTERM) as prepare:
            broker.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                "--config",
                "/dev/stdin",
                stdin=PIPE,
                stdout=PIPE,
                env=environment,
                start_new_session=True,
                preexec_fn=prepare,
            )
        assert broker.process.stdin is not None and broker.process.stdout is not None
        # A pipe, because all users of the machine can read command lines, and the settings may contain secrets.
        with suppress(OSError):  # if the process has ended; then it is not ready
            broker.process.stdin.write(format_properties(settings).encode())
            await broker.process.stdin.drain()
        broker.process.stdin.close()
        line = (await broker.process.stdout.readline()).decode().split()
        if line[:1] != ["ready"]:
            raise KohortError(f"Broker {broker.node_id} did not start; its output above says why.")
        broker.address = line[1]

    async def _settle(self) -> None:
        """Wait until every partition is led by the broker that is to keep it."""
        while True:
            image = await asyncio.to_thread(self._image)
            if len(image.nodes) == len(self.brokers) and image.settled:
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        self._nodes = image.nodes
        if not self.options.advertise:  # then the image has the brokers' ports, which they keep when they restart
            for broker in self.brokers:
                broker.listen = _with_ports(broker.listen, image.nodes[broker.node_id])

    def _image(self) -> ClusterImage:
        if self.options.postgres is None:
            return read_image(self.options.data)
        from kohort.log.postgres import read_image as read_from_database

        return read_from_database(self.options.postgres)

    async def _watch(self, broker: _Broker) -> None:
        while True:
            assert broker.process is not None
            code = await broker.process.wait()
            log.warning("broker %d (%s) ended with code %d", broker.node_id, broker.address, code)
            if not self.options.restart:
                break
            await asyncio.sleep(_AGAIN_AFTER_S)
            try:
                await self._start(broker)
            except KohortError as problem:
                log.error("%s", problem)
        if all(broker.process is None or broker.process.returncode is not None for broker in self.brokers):
            self.over.set()


def _with_ports(listen: str, node: Node) -> str:
    """Return the addresses with the ports on which the broker listens."""
    addresses = []
    for entry in listen.split(","):
        listener = node.at(entry.rpartition("://")[0].strip().upper() or DEFAULT_NAME)
        assert listener is not None, entry
        addresses.append(f"{entry.rpartition(':')[0]}:{listener.port}")
    return ",".join(addresses)
