"""FindCoordinator: the broker that leads the group's partition of `__consumer_offsets`."""

from typing import Protocol

from kohort.broker.groups import GroupCoordinator
from kohort.broker.net import Call
from kohort.errors import ErrorCode
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    groups: GroupCoordinator


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
        node = None if coordinator is None else coordinator.at(listener)
        if node is None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=code.sentence)
        return Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port, error_message="")
    if key_type == _TRANSACTION:
        # There are no transactions, and no client must wait for them: librdkafka retries other codes until its timeout.
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        message = "This broker has no transactions: leave transactional.id unset."
    else:
        code, message = ErrorCode.INVALID_REQUEST, f"Coordinators of type {key_type} are unknown here."
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message)
