"""The rules for replication factors and replica assignments, with Kafka's error codes."""

from collections.abc import Sequence
from typing import Protocol

from kohort.broker.config import BrokerConfig
from kohort.broker.logs import Leadership
from kohort.errors import ErrorCode, KafkaError


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    config: BrokerConfig
    leadership: Leadership


def checked_factor(broker: Dependencies, wanted: int) -> int:
    """Return the replication factor; -1 means `default.replication.factor`. Raise KafkaError."""
    if wanted < -1 or wanted == 0:
        detail = f"The replication factor is a number from 1 on, or -1 for the default, not {wanted}."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
    factor = broker.config.number("default.replication.factor") if wanted == -1 else wanted
    brokers = len(broker.leadership.registered)
    if factor > brokers:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, too_few_brokers(factor, brokers))
    return factor


def too_few_brokers(factor: int, brokers: int) -> str:
    """Return the error message for a replication factor above the number of brokers."""
    there = "only 1 broker is" if brokers == 1 else f"only {brokers} brokers are"
    return f"The replication factor {factor} cannot be reached: {there} registered."


def check_new_assignment(broker: Dependencies, replicas: Sequence[int], factor: int) -> None:
    """Raise KafkaError unless a new partition can have these replicas; as in Kafka, one of them must live."""
    check_assignment(broker, replicas, factor)
    if not any(broker.leadership.node(node_id) for node_id in replicas):
        detail = f"None of the brokers {', '.join(map(str, replicas))} is alive: assign at least one broker that is."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)


def check_assignment(broker: Dependencies, replicas: Sequence[int], factor: int | None = None) -> None:
    """Raise KafkaError unless all are registered and different, and their number is `factor` if that is given."""
    known = set(broker.leadership.registered)
    if not replicas:
        detail = "The replica list is empty."
    elif unknown := [node_id for node_id in replicas if node_id not in known]:
        detail = f"Broker {unknown[0]} is not registered; the brokers are {', '.join(map(str, sorted(known)))}."
    elif len(set(replicas)) < len(replicas):
        detail = f"The replica list {list(replicas)} names a broker more than once."
    elif factor is not None and len(replicas) != factor:
        detail = f"A partition has {len(replicas)} replicas here, and {factor} in the partitions before it."
    else:
        return
    raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)
