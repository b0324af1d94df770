"""Late requests of transaction version 1, on listeners whose producers have one connection at a time (decision 016)."""

import logging
from typing import Protocol

from kohort.broker.config import SINGLE_CONNECTION, Listener
from kohort.broker.net import Call
from kohort.coordinator.transactions import ConnectionOrder, LateRequest, Verdict, producer_of
from kohort.printable import printable
from kohort.wire.api import APIS

log = logging.getLogger("kohort.broker")

_LONGEST_ID = 200
"""Characters of a transactional ID that are logged."""


class Shard(Protocol):
    """The part of a shard of the coordinator that this module uses."""

    led_from: int


class Coordinator(Protocol):
    """The part of the transaction coordinator that this module uses."""

    def shard(self, transactional_id: str) -> Shard | None: ...


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    listeners: list[Listener]

    @property
    def transactions(self) -> Coordinator: ...


class LateRequests:
    """What one broker knows about the connections of transactional producers, if a listener has the setting."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._listeners = {one.name for one in broker.listeners if one.config.flag(SINGLE_CONNECTION)}
        self._order = ConnectionOrder()

    def refuses(self, call: Call, request: LateRequest) -> bool:
        """Return whether the request is late. Its connection is then closed, and it must not be carried out.

        No error code would do: PRODUCER_FENCED stops a producer, and others make it repeat the late request.
        """
        connection = call.connection
        if connection.listener not in self._listeners:
            return False
        producer = producer_of(request, call.version)
        if producer is None:
            return False
        name, transactional_id = APIS[call.route.api_key].name, printable(producer.transactional_id[:_LONGEST_ID])
        shard = self._broker.transactions.shard(producer.transactional_id)
        if shard is not None and connection.accepted_as <= shard.led_from:
            # The producer may have gone on with another coordinator meanwhile, so that this request is late. If it is
            # not, the client sends it again on a new connection.
            connection.refuse(
                f"a {name} of transactional ID {transactional_id}, whose coordinator was elsewhere before"
            )
            return True
        verdict = self._order.verdict(producer, connection.accepted_as)
        if verdict is Verdict.CURRENT:
            return False
        if verdict is Verdict.FIRST_LATE:
            log.warning(
                "producer %d of transactional ID %s, epoch %d, sent a %s on an older connection than its newest one: it"
                " arrived late, and is not carried out (%s). If this is logged for each new producer, its"
                " client or a proxy has several connections at a time: set %s=false for the listener %s.",
                *(producer.producer_id, transactional_id, producer.epoch, name),
                *(SINGLE_CONNECTION, SINGLE_CONNECTION, connection.listener),
            )
        connection.refuse(f"a late {name} of transactional ID {transactional_id}")
        return True
