"""A client's connections, one per broker and purpose, opened on demand with a backoff after failures."""

import asyncio
from collections.abc import Iterable
from typing import Any

from kohort.client.loops import check_loop
from kohort.client.metrics import NetworkMetrics
from kohort.client.net.authentication import locks_accounts
from kohort.client.net.connection import BrokerConnection
from kohort.client.net.not_kafka import copied_error
from kohort.client.net.versions import FinalizedFeatures
from kohort.client.options import ClientOptions
from kohort.client.security import Credentials, tls_context
from kohort.errors import ErrorCode, KafkaError
from kohort.requests import Broker

Key = tuple[int, str]
"""Broker ID and purpose of a connection."""

NO_NODE = -(2**31)
_REFUSED_S = 1.0
"""Time for which no broker receives credentials that one has refused. It doubles with each refusal."""
_REFUSED_MAX_S = 60.0
_BOOTSTRAP = "bootstrap"


def bootstrap_key(number: int) -> Key:
    """Return the key of a connection to a bootstrap address whose broker is not known yet."""
    return -1 - number, _BOOTSTRAP


class Connections:
    """Connections of one client, bound to the event loop in which they were created."""

    def __init__(self, options: ClientOptions) -> None:
        self.metrics = NetworkMetrics(options.sampling)
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._open: dict[Key, BrokerConnection] = {}
        self._opening: dict[Key, asyncio.Task[BrokerConnection]] = {}
        self._failures: dict[int, tuple[int, float]] = {}
        """Consecutive connection failures and time of the last one, by broker."""
        self.features = FinalizedFeatures()
        """Finalized features of the latest epoch that any broker has reported."""
        self._closed = False
        self._tls = tls_context(options)
        self._credentials = Credentials.of(options, str(options.bootstrap_servers))
        self._refusal: KafkaError | None = None
        """Refusal of the credentials by the last broker that received them."""
        self._refusals = 0
        self._refused_until = 0.0

    @property
    def all(self) -> list[BrokerConnection]:
        """All open connections."""
        return list(self._open.values())

    def usable(self, key: Key) -> BrokerConnection | None:
        """Return the connection with this key if it is open."""
        connection = self._open.get(key)
        return connection if connection is not None and connection.open else None

    async def get(self, key: Key, host: str, port: int) -> BrokerConnection:
        """Return the connection with this key, opening it to the address if necessary.

        Raises a retriable KafkaError.
        """
        check_loop(self._loop, "client")
        if self._closed:
            raise closed_error()
        connection = self.usable(key)
        if connection is not None and connection.peer == (host, port):
            return connection
        task = self._opening.get(key)
        if task is None:
            task = self._loop.create_task(self._connect(key, host, port), name=f"kohort-connect {host}:{port}")
            self._opening[key] = task
            task.add_done_callback(lambda done: self._connected(key, done))
        return await asyncio.shield(task)

    async def settle_bootstrap(self, brokers: Iterable[Broker]) -> None:
        """Assign each bootstrap connection to the broker that it reached, and close the others."""
        by_peer = {(broker.host, broker.port): broker.node_id for broker in brokers}
        for key, connection in list(self._open.items()):
            if key[1] != _BOOTSTRAP or connection.in_flight:
                continue
            del self._open[key]
            node_id = by_peer.get(connection.peer)
            if connection.open and node_id is not None and (node_id, "") not in self._open:
                self._keep((node_id, ""), connection)
            elif by_peer:
                await connection.close()
            else:
                self._open[key] = connection

    async def close(self) -> None:
        """Close every connection and reject new ones."""
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections = self.all
        await asyncio.gather(*(connection.close() for connection in connections))
        if connections:
            await asyncio.sleep(0)  # the transports report their end to the loop in its next turn

    async def _connect(self, key: Key, host: str, port: int) -> BrokerConnection:
        options = self._options
        if self._refusal is not None and self._loop.time() < self._refused_until:
            # A wrong password must reach the application at once, and the brokers seldom: they may
            # lock the account.
            raise copied_error(self._refusal)
        count, failed_at = self._failures.get(key[0], (0, 0.0))
        if count:
            delay = min(options.reconnect_backoff_ms * 2 ** min(count - 1, 16), options.reconnect_backoff_max_ms)
            await asyncio.sleep(max(0.0, failed_at + delay / 1000 - self._loop.time()))
        try:
            connection = await BrokerConnection.connect(
                host,
                port,
                client_id=options.client_id,
                request_timeout_ms=options.request_timeout_ms,
                setup_timeout_ms=options.socket_connection_setup_timeout_ms,
                tls=self._tls,
                credentials=self._credentials,
                metrics=self.metrics.node(*key),
            )
        except KafkaError as problem:
            self._failures[key[0]] = (count + 1, self._loop.time())
            if locks_accounts(problem):
                self._note_refusal(problem)
            raise
        self._failures.pop(key[0], None)
        if connection.features.epoch >= self.features.epoch:
            self.features = connection.features
        self._refusal, self._refusals = None, 0
        return connection

    def _note_refusal(self, problem: KafkaError) -> None:
        self._refusal = problem
        delay = min(_REFUSED_S * 2 ** min(self._refusals, 16), _REFUSED_MAX_S)
        self._refusals += 1
        self._refused_until = self._loop.time() + delay

    def _connected(self, key: Key, task: "asyncio.Task[BrokerConnection]") -> None:
        self._opening.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        connection = task.result()
        old = self._open.pop(key, None)
        if old is not None:
            old.abort("the broker moved to another address")
        if self._closed:
            connection.abort("the client was closed")
        else:
            self._keep(key, connection)

    def _keep(self, key: Key, connection: BrokerConnection) -> None:
        self._open[key] = connection
        connection.metrics = self.metrics.node(*key)
        connection.closed.add_done_callback(lambda _: self._disconnected(key, connection))

    def _disconnected(self, key: Key, connection: BrokerConnection) -> None:
        if self._open.get(key) is connection:
            del self._open[key]


def closed_error() -> KafkaError:
    """Return the error for using a closed client."""
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the client is closed")
