"""The order of a producer's connections, which tells late requests of transaction version 1 from those of the next one.

A producer that gives a connection up repeats its request on a newer one. A request that still arrives on the older
one is late. This is proof only for a producer that has one connection at a time to its coordinator (decision 016).
"""

from collections import OrderedDict
from enum import Enum
from typing import NamedTuple

from kohort.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kohort.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kohort.wire.messages.end_txn import EndTxnRequest

LateRequest = AddOffsetsToTxnRequest | AddPartitionsToTxnRequest | EndTxnRequest
"""The requests to a coordinator that can be late. EndTxn outdates an AddPartitionsToTxn: they are one family."""

OF_BROKERS_FROM = 4
"""First version of AddPartitionsToTxn that brokers send, with several transactions; older ones are from clients."""
_OF_VERSION_2_FROM = 5
"""First version of EndTxn that belongs to transaction version 2, where the epoch refuses late requests."""
MOST_PRODUCERS = 10_000
"""Number of producers whose newest connection is remembered: 4 MB. Those that were quiet the longest are forgotten."""


class Producer(NamedTuple):
    """One epoch of a producer. Its transactional ID is a part of it, because permissions are for these IDs."""

    transactional_id: str
    producer_id: int
    epoch: int


class Verdict(Enum):
    """What a connection's place in the order says about its request."""

    CURRENT = "current"
    FIRST_LATE = "first late"
    """The first late request of this epoch of the producer."""
    LATE = "late"


def producer_of(request: LateRequest, version: int) -> Producer | None:
    """Return the producer that sends the request; None if the order of connections says nothing about it."""
    match request:
        case AddPartitionsToTxnRequest():
            if version >= OF_BROKERS_FROM:
                return None
            return Producer(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
            )
        case EndTxnRequest() if version >= _OF_VERSION_2_FROM:
            return None
    return Producer(request.transactional_id, request.producer_id, request.producer_epoch)


class ConnectionOrder:
    """Newest connection of each producer to one broker.

    It knows nothing of what a producer said to other brokers. When the broker begins to coordinate a producer, its
    older connections are late whatever the order says. A restart of the broker closes all connections, and may forget
    the order.
    """

    def __init__(self, most: int = MOST_PRODUCERS) -> None:
        self._most = most
        self._newest: OrderedDict[Producer, int] = OrderedDict()
        self._warned: set[Producer] = set()

    def __len__(self) -> int:
        return len(self._newest)

    def verdict(self, producer: Producer, connection: int) -> Verdict:
        """Judge a request before it is carried out; a late one must not be.

        `connection` is the number of its connection, in the order in which the broker accepted them.
        """
        newest = self._newest.get(producer, connection)
        self._newest[producer] = max(newest, connection)
        self._newest.move_to_end(producer)
        if connection < newest:
            is_first = producer not in self._warned
            self._warned.add(producer)
            return Verdict.FIRST_LATE if is_first else Verdict.LATE
        if len(self._newest) > self._most:
            forgotten, _ = self._newest.popitem(last=False)
            self._warned.discard(forgotten)
        return Verdict.CURRENT
