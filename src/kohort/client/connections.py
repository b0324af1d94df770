"""A client's connections: one for each broker and purpose, opened when needed, after a pause when it broke."""

import asyncio
from collections.abc import Iterable
from typing import Any

from kohort.client.connection import Connection
from kohort.client.loops import check_loop
from kohort.client.metadata import Broker
from kohort.client.options import ClientOptions
from kohort.errors import ErrorCode, KafkaError

Key = tuple[int, str]
"""A connection's broker and what it is for."""

NO_NODE = -(2**31)
_BOOTSTRAP = "bootstrap"


def bootstrap_key(number: int) -> Key:
    """Of the connection to that bootstrap address, before anybody knows which broker it reaches."""
    return -1 - number, _BOOTSTRAP


class Connections:
    """Belongs to the event loop in which it was made."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._open: dict[Key, Connection] = {}
        self._opening: dict[Key, asyncio.Task[Connection]] = {}
        self._failures: dict[int, tuple[int, float]] = {}
        """Of each broker: how often in a row connecting failed, and when it last did."""
        self._closed = False

    @property
    def all(self) -> list[Connection]:
        """All that are open."""
        return list(self._open.values())

    def usable(self, key: Key) -> Connection | None:
        """The one of that key, if it is open."""
        connection = self._open.get(key)
        return connection if connection is not None and connection.open else None

    async def get(self, key: Key, host: str, port: int) -> Connection:
        """The one of that key, opened to that address if need be. Raises a retriable KafkaError."""
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
        """Keep a bootstrap connection as that of the broker which it turned out to reach, close the others."""
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
        """Close every one, and open no more."""
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._opening.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        connections = self.all
        self._open.clear()
        for connection in connections:
            await connection.close()
        if connections:
            await asyncio.sleep(0)  # the transports tell the loop in its next turn that they are gone

    async def _connect(self, key: Key, host: str, port: int) -> Connection:
        options = self._options
        count, failed_at = self._failures.get(key[0], (0, 0.0))
        if count:
            delay = min(options.reconnect_backoff_ms * 2 ** min(count - 1, 16), options.reconnect_backoff_max_ms)
            await asyncio.sleep(max(0.0, failed_at + delay / 1000 - self._loop.time()))
        try:
            connection = await Connection.connect(
                host,
                port,
                client_id=options.client_id,
                request_timeout_ms=options.request_timeout_ms,
                setup_timeout_ms=options.socket_connection_setup_timeout_ms,
            )
        except KafkaError:
            self._failures[key[0]] = (count + 1, self._loop.time())
            raise
        self._failures.pop(key[0], None)
        return connection

    def _connected(self, key: Key, task: "asyncio.Task[Connection]") -> None:
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

    def _keep(self, key: Key, connection: Connection) -> None:
        self._open[key] = connection
        connection.closed.add_done_callback(lambda _: self._disconnected(key, connection))

    def _disconnected(self, key: Key, connection: Connection) -> None:
        if self._open.get(key) is connection:
            del self._open[key]


def closed_error() -> KafkaError:
    """What is asked of a client that was closed."""
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the client is closed")
