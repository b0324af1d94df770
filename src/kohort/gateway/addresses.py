"""Addresses of the gateway in place of those of the upstream brokers. Pure.

Each broker has its own address of the gateway, because a client knows a broker by its address: it
has one connection to each. Node IDs stay those of the brokers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from kohort.wire.codec import Message
from kohort.wire.messages.describe_cluster import DescribeClusterResponse
from kohort.wire.messages.find_coordinator import FindCoordinatorResponse
from kohort.wire.messages.metadata import MetadataResponse
from kohort.wire.messages.produce import ProduceResponse


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class _Place(Protocol):
    """Part of a response that names the address of a broker."""

    node_id: int
    host: str
    port: int


@dataclass(slots=True)
class Brokers:
    """Upstream address of each broker, by node ID, as the last response named it."""

    upstream: dict[int, Address] = field(default_factory=dict)
    learned: Callable[[int, Address | None, Address], None] | None = None
    """Is told when a broker has a new address: node ID, the former address if there was one, and the new one."""

    def learn(self, node_id: int, address: Address) -> None:
        """Remember the address of a broker."""
        known = self.upstream.get(node_id)
        if address != known:
            self.upstream[node_id] = address
            if self.learned is not None:
                self.learned(node_id, known, address)


@dataclass(slots=True)
class Addresses:
    """The gateway's addresses in place of the brokers', for the clients of one listener.

    `open_for(node_id)` returns the gateway's address for a broker, which listens from then on. It
    raises an error if there is none to be had.
    """

    open_for: Callable[[int], Address]
    brokers: Brokers = field(default_factory=Brokers)

    def rewrite(self, response: Message) -> None:
        """Replace the addresses in a response, and remember them. A response that names none is left as it is."""
        match response:
            case MetadataResponse():
                self._replace(response.brokers)
            case FindCoordinatorResponse():
                # Before version 4, the response itself has the fields of the one coordinator.
                self._replace(response.coordinators or [response])
            case ProduceResponse():
                self._replace(response.node_endpoints)
            case DescribeClusterResponse():
                if response.endpoint_type == _BROKERS:
                    for broker in response.brokers:
                        address = self._learn(broker.broker_id, broker.host, broker.port)
                        broker.host, broker.port = address.host, address.port

    def learn(self, response: Message) -> None:
        """Remember the addresses in a response that is left as it is."""
        match response:
            case MetadataResponse():
                for broker in response.brokers:
                    self.brokers.learn(broker.node_id, Address(broker.host, broker.port))
            case DescribeClusterResponse():
                if response.endpoint_type == _BROKERS:
                    for described in response.brokers:
                        self.brokers.learn(described.broker_id, Address(described.host, described.port))

    def replaced(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """Return host and port in place of a broker's."""
        if node_id < 0 or not host:
            return host, port
        address = self._learn(node_id, host, port)
        return address.host, address.port

    def _replace(self, places: Iterable[_Place]) -> None:
        for place in places:
            if place.node_id >= 0 and place.host:
                address = self._learn(place.node_id, place.host, place.port)
                place.host, place.port = address.host, address.port

    def _learn(self, node_id: int, host: str, port: int) -> Address:
        self.brokers.learn(node_id, Address(host, port))
        return self.open_for(node_id)


_BROKERS = 1
"""Endpoint type of DescribeCluster that asks for brokers, not for controllers."""
