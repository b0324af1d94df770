"""Requests to the other brokers of the cluster, through the listener for brokers."""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from kohort.broker.config import InterBroker, address_text
from kohort.errors import ConfigError, ErrorCode, KafkaError
from kohort.log.cluster import Node
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kohort.wire.messages.write_txn_markers import WriteTxnMarkersResponse

if TYPE_CHECKING:
    from kohort.client import Cluster


class OtherBrokersParts(Protocol):
    """The parts of the broker that this module uses."""

    inter_broker: InterBroker


log = logging.getLogger("kohort.broker")

_M = TypeVar("_M", bound=Message)
_PATIENCE_MS: Millis = 5_000
"""Time limit for an answer from another broker."""


class OtherBrokers:
    """Client connections to the other brokers; created when one of them is first asked."""

    def __init__(self, broker: OtherBrokersParts) -> None:
        self._broker = broker
        self._cluster: Cluster | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent: set[int] = set()
        """Brokers that did not answer the last request."""
        self._denying: set[int] = set()
        """Brokers that did not allow the last request."""

    def ask(self, node: Node, request: Message, answer: type[_M], done: Callable[[_M | None], None]) -> None:
        """Send the request; call `done` with the response, or with None if there is none."""
        task = asyncio.get_running_loop().create_task(self._ask(node, request, answer, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop waiting for responses."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._forget()

    async def _ask(self, node: Node, request: Message, answer: type[_M], done: Callable[[_M | None], None]) -> None:
        response = None
        try:
            found = node.at(self._broker.inter_broker.listener)
            if found is not None:
                connection = await self._connected(found).connection_to((found.host, found.port), "transactions")
                response = await connection.request(request, answer)
            self._silent.discard(node.node_id)
            self._note_denial(node, denied=_is_denied(response))
        except (KafkaError, ConfigError) as error:
            if node.node_id not in self._silent:
                self._silent.add(node.node_id)
                log.warning("broker %d does not answer about transactions; trying again: %s", node.node_id, error)
            if not isinstance(error, KafkaError) or not error.retriable:
                await self._forget()  # the next connection reads renewed certificates
        except Exception:  # a bug must not let the producer wait forever
            log.exception("broker %d cannot be asked about transactions", node.node_id)
        done(response)

    def _note_denial(self, node: Node, *, denied: bool) -> None:
        if not denied:
            self._denying.discard(node.node_id)
        elif node.node_id not in self._denying:
            self._denying.add(node.node_id)
            log.warning(
                "broker %d does not let this broker take part in transactions, so that they stay open: the principal of"
                " the brokers needs ClusterAction on the cluster, or must be in super.users; trying again",
                node.node_id,
            )

    def _connected(self, node: Node) -> "Cluster":
        if self._cluster is None:
            # Imported here because most brokers never ask another broker.
            from kohort.client import ClientOptions, Cluster

            given = {
                "bootstrap_servers": address_text(node.host, node.port),
                "request_timeout_ms": _PATIENCE_MS,
                **self._broker.inter_broker.options,
            }
            self._cluster = Cluster(ClientOptions.read(given))
        return self._cluster

    async def _forget(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            await cluster.close()


def _is_denied(response: Message | None) -> bool:
    match response:
        case AddPartitionsToTxnResponse():
            codes = {response.error_code}
        case WriteTxnMarkersResponse():
            codes = {
                result.error_code
                for marker in response.markers
                for topic in marker.topics
                for result in topic.partitions
            }
        case _:
            return False
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes
