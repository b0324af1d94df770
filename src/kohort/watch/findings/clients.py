"""Client software of members, and what each client calls a setting. Pure.

The log does not have the software; a client ID often betrays it, because the defaults of clients differ.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from kohort.group_events import MemberFacts


class Client(Enum):
    """Client whose settings are known."""

    JAVA = "Java"
    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"
    KOHORT = "Kohort"


class MemberTelemetry(Protocol):
    """What a member's client reported about itself (KIP-714)."""

    @property
    def client_software(self) -> str | None:
        """Name and version, such as `apache-kafka-java 4.3.1`; None if unknown."""
        ...

    @property
    def values(self) -> Mapping[str, float]:
        """Newest values by the metric's name, such as `org.apache.kafka.consumer.poll.idle.ratio.avg`."""
        ...


_BY_SOFTWARE = (
    ("apache-kafka-java", Client.JAVA),
    ("librdkafka", Client.LIBRDKAFKA),
    ("confluent-kafka", Client.LIBRDKAFKA),
    ("kafka-python", Client.KAFKA_PYTHON),
    ("aiokafka", Client.AIOKAFKA),
    ("kohort", Client.KOHORT),
)
_DEFAULT_IDS = (
    (re.compile(r"rdkafka(#|$)"), Client.LIBRDKAFKA),
    (re.compile(r"kafka-python-(\d|$)"), Client.KAFKA_PYTHON),
    (re.compile(r"aiokafka-(\d|$)"), Client.AIOKAFKA),
    (re.compile(r"kohort(-|$)"), Client.KOHORT),
    (re.compile(r"consumer-.+-\d+$"), Client.JAVA),
)
"""Default client IDs: Java's is consumer-GROUP-NUMBER."""

_JAVA_ASSIGNOR = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
_COOPERATIVE = {
    None: f"partition.assignment.strategy=cooperative-sticky (Java: {_JAVA_ASSIGNOR})",
    Client.JAVA: f"partition.assignment.strategy={_JAVA_ASSIGNOR}",
    Client.LIBRDKAFKA: "partition.assignment.strategy=cooperative-sticky",
    Client.KAFKA_PYTHON: "partition_assignment_strategy=[CooperativeStickyPartitionAssignor]",
    Client.KOHORT: "partition_assignment_strategy='cooperative-sticky'",
}
_UNDERSCORES = (Client.KAFKA_PYTHON, Client.AIOKAFKA, Client.KOHORT)
_CONSUMER_PROTOCOL = (None, Client.JAVA, Client.LIBRDKAFKA, Client.KOHORT)


def client_of(member: MemberFacts, telemetry: MemberTelemetry | None = None) -> Client | None:
    """Return the client of a member; None if nothing reveals it."""
    software = None if telemetry is None else telemetry.client_software
    if software is not None:
        if "rdkafka" in software:  # clients built on it have names of their own, with its name in the version
            return Client.LIBRDKAFKA
        return next((client for name, client in _BY_SOFTWARE if software.startswith(name)), None)
    return next((client for pattern, client in _DEFAULT_IDS if pattern.match(member.client_id)), None)


def common_client(clients: Iterable[Client | None]) -> Client | None:
    """Return the client that all members have; None if they differ or one is unknown."""
    found = set(clients)
    return found.pop() if len(found) == 1 else None


def setting(name: str, client: Client | None) -> str:
    """Return a setting, given by Java's name, as this client writes it."""
    return name.replace(".", "_") if client in _UNDERSCORES else name


def smaller_batches(client: Client | None) -> str:
    """Return how to process fewer records per poll."""
    if client is Client.LIBRDKAFKA:
        return "process fewer records between two calls of poll"
    return f"lower {setting('max.poll.records', client)}"


def cooperative(client: Client | None) -> str | None:
    """Return the setting for a cooperative assignor; None if the client has none."""
    return _COOPERATIVE.get(client)


def consumer_protocol(client: Client | None) -> str | None:
    """Return the setting for the consumer protocol (KIP-848); None if the client does not have it."""
    return f"{setting('group.protocol', client)}=consumer" if client in _CONSUMER_PROTOCOL else None
