"""Which client a member runs, as far as its connection says so (KIP-511), and what is known of it.

What clients do with a heartbeat that is held was read in their source and seen in traces; see decision 008.
"""

from enum import Enum


class ClientKind(Enum):
    """Those that are treated otherwise than the rest; the value is how the client's name for itself begins."""

    OTHER = "?"
    JAVA = "apache-kafka-java"
    KOHORT = "kohort"

    @classmethod
    def of(cls, software: str) -> "ClientKind":
        """By the name that the client gave in ApiVersions."""
        return next((kind for kind in cls if software.startswith(kind.value)), cls.OTHER)

    @property
    def sleeps(self) -> bool:
        """Whether a member of a consumer group waits in peace while its heartbeat is held beyond the interval.

        Others do not. The Java client's network thread waits for no time at all once the next heartbeat is due, and it
        may not send that one: a core of its machine is busy for as long as the hold lasts. librdkafka takes the answer
        for lost about a second after the interval, and leaves the connection.
        """
        return self is ClientKind.KOHORT
