"""FindCoordinator: the broker that leads the partition of a group, or of a transactional ID."""

import logging
from typing import Protocol

from kohort.broker.groups import GroupCoordinator
from kohort.broker.net import Call
from kohort.broker.transactions import TransactionCoordinator
from kohort.errors import ErrorCode, KafkaError
from kohort.log.cluster import Node
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator


log = logging.getLogger("kohort.broker")

_GROUP, _TRANSACTION = 0, 1


def handle(broker: Dependencies, call: Call, request: FindCoordinatorRequest) -> None:
    """Return the coordinator of each key; from v4, a request has several keys (KIP-699)."""
    listener = call.connection.listener
    if call.version >= 4:
        found = [_find(broker, key, request.key_type, listener) for key in request.coordinator_keys]
        call.reply(FindCoordinatorResponse(coordinators=found))
        return
    coordinator = _find(broker, request.key, request.key_type, listener)
    call.reply(
        FindCoordinatorResponse(
            error_code=coordinator.error_code,
            error_message=coordinator.error_message or ErrorCode.NONE.sentence,
            node_id=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )
    )


def _find(broker: Dependencies, key: str, key_type: int, listener: str) -> Coordinator:
    if key_type == _GROUP:
        coordinator = broker.groups.coordinator(key)
    elif key_type == _TRANSACTION:
        coordinator = _of_transactions(broker, key)
    else:
        return _none(key, ErrorCode.INVALID_REQUEST, f"Coordinators of type {key_type} are unknown here.")
    node = None if coordinator is None else coordinator.at(listener)
    if node is None:
        return _none(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE.sentence)
    return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message="")


def _of_transactions(broker: Dependencies, transactional_id: str) -> Node | None:
    try:
        return broker.transactions.coordinator(transactional_id)
    except (KafkaError, OSError) as error:
        log.warning("the topic of transactions cannot be created yet; producers try again: %s", error)
        return None


def _none(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
