"""Addresses of the gateway in place of those of the upstream brokers. Pure.

Each broker has its own address of the gateway, because a client knows a broker by its address: it
has one connection to each. Node IDs stay those of the brokers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from kohort.errors import ErrorCode
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


P = TypeVar("P", bound=_Place)


class _Coordinator(_Place, Protocol):
    """Part of a response that names a coordinator."""

    error_code: int


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

    `open_for(node_id)` returns the gateway's address for a broker, which listens from then on; None if
    there is none to be had. Clients then do not learn of this broker, and reach the others.
    """

    open_for: Callable[[int], Address | None]
    brokers: Brokers = field(default_factory=Brokers)

    def rewrite(self, response: Message) -> None:
        """Replace the addresses in a response, and remember them. A response that names none is left as it is."""
        match response:
            case MetadataResponse():
                named = len(response.brokers)
                response.brokers = self._with_addresses(response.brokers)
                if len(response.brokers) < named:
                    _without_leaders(response)
            case FindCoordinatorResponse():
                # Before version 4, the response itself has the fields of the one coordinator.
                coordinators: Iterable[_Coordinator] = response.coordinators or [response]
                for coordinator in coordinators:
                    if not self._replace(coordinator):
                        coordinator.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
                        coordinator.node_id, coordinator.host, coordinator.port = -1, "", -1
            case ProduceResponse():
                response.node_endpoints = self._with_addresses(response.node_endpoints)
            case DescribeClusterResponse():
                if response.endpoint_type == _BROKERS:
                    kept = []
                    for broker in response.brokers:
                        address = self._learn(broker.broker_id, broker.host, broker.port)
                        if address is not None:
                            broker.host, broker.port = address.host, address.port
                            kept.append(broker)
                    response.brokers = kept

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

    def replaced(self, node_id: int, host: str, port: int) -> tuple[str, int] | None:
        """Return host and port in place of a broker's; None if there are none to be had."""
        if node_id < 0 or not host:
            return host, port
        address = self._learn(node_id, host, port)
        return None if address is None else (address.host, address.port)

    def _with_addresses(self, places: Iterable[P]) -> list[P]:
        return [place for place in places if self._replace(place)]

    def _replace(self, place: _Place) -> bool:
        """Return whether the broker has an address, if the place names one."""
        if place.node_id >= 0 and place.host:
            address = self._learn(place.node_id, place.host, place.port)
            if address is None:
                return False
            place.host, place.port = address.host, address.port
        return True

    def _learn(self, node_id: int, host: str, port: int) -> Address | None:
        self.brokers.learn(node_id, Address(host, port))
        return self.open_for(node_id)


def _without_leaders(response: MetadataResponse) -> None:
    """Let no partition be led by a broker that the response does not name, as Apache Kafka does."""
    named = {broker.node_id for broker in response.brokers}
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.leader_id >= 0 and partition.leader_id not in named:
                partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE


_BROKERS = 1
"""Endpoint type of DescribeCluster that asks for brokers, not for controllers."""
