"""What replication factors and replica assignments a broker takes, with Kafka's error codes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from kohort.broker.server import Broker


def checked_factor(broker: "Broker", wanted: int) -> int:
    """The replication factor; -1 is `default.replication.factor`. Raises KafkaError."""
    if wanted < -1 or wanted == 0:
        detail = f"The replication factor is a number from 1 on, or -1 for the default, not {wanted}."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, detail)
    factor = broker.config.number("default.replication.factor") if wanted == -1 else wanted
    brokers = len(broker.leadership.nodes)
    if factor > brokers:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, too_few_brokers(factor, brokers))
    return factor


def too_few_brokers(factor: int, brokers: int) -> str:
    """The sentence for a replication factor that cannot be reached."""
    there = "only 1 broker is" if brokers == 1 else f"only {brokers} brokers are"
    return f"The replication factor {factor} cannot be reached: {there} registered."


def check_assignment(broker: "Broker", replicas: Sequence[int], factor: int | None = None) -> None:
    """Raise KafkaError unless these are brokers that live, each once; and `factor` many, where that is given."""
    known = {node.node_id for node in broker.leadership.nodes}
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
