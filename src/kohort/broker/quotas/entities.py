"""Entities that have quotas, and the quotas that each may have, by the rules of Apache Kafka 4.3. Pure."""

import math
from collections.abc import Mapping
from ipaddress import ip_address

from kohort.errors import ErrorCode, KafkaError

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = frozenset({USER, CLIENT_ID, IP})

Entity = tuple[tuple[str, str | None], ...]
"""An entity's parts as type and name, sorted by type. The name None is the default of all names without a quota."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"

_LARGEST_INT, _LARGEST_LONG = float(2**31 - 1), float(2**63)
_OF_CLIENTS: Mapping[str, float | None] = {
    PRODUCER_BYTE_RATE: _LARGEST_LONG,
    CONSUMER_BYTE_RATE: _LARGEST_LONG,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: Mapping[str, float | None] = {"connection_creation_rate": _LARGEST_INT}
"""Largest value of quotas that are whole numbers; None for those that may be fractions."""

_FRACTION = 1e-6
"""Largest fraction of a number that counts as whole."""


def check_entity(entity: Entity) -> None:
    """Raise KafkaError unless the entity is a user, a client ID, both, or an address."""
    if not entity:
        raise _invalid("The entity of a quota cannot be empty.")
    for kind, name in entity:
        if kind not in TYPES:
            raise _invalid(f"The entity type {kind!r} is unknown: use user, client-id or ip.")
        if name == "":
            raise _invalid(f"The name of an entity of type {kind} cannot be empty.")
    parts = dict(entity)
    if IP in parts:
        if len(parts) > 1:
            raise _invalid("An ip cannot be combined with a user or a client-id.")
        if not _is_address(parts[IP]):
            raise _invalid(f"{parts[IP]!r} is not an IP address.")


def check_quota(entity: Entity, name: str, value: float) -> None:
    """Raise KafkaError unless the entity, which is valid, may have the quota with that value."""
    known = _OF_ADDRESSES if IP in dict(entity) else _OF_CLIENTS
    if name not in known:
        raise _invalid(f"The quota {name!r} is unknown for this entity: use {', '.join(sorted(known))}.")
    if value <= 0 or math.isnan(value):
        raise _invalid(f"The quota {name} must be greater than 0.")
    largest = known[name]
    if largest is not None:
        if value > largest:
            raise _invalid(f"The quota {name} must be at most {largest:.0f}.")
        if math.fmod(value, 1) > _FRACTION:
            raise _invalid(f"The quota {name} must be a whole number.")


def _is_address(name: str | None) -> bool:
    if name is None:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _invalid(sentence: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, sentence)
