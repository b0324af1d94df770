"""The types of resources that have configs."""

from enum import IntEnum

from kohort.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    """Resource types, with their numbers on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def check_broker_name(name: str, node_id: int) -> None:
    """Raise KafkaError if a named broker resource is not this broker."""
    try:
        number = int(name)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"A broker's name is its number, not {name!r}.") from None
    if number != node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"This is broker {node_id}, not {number}.")
