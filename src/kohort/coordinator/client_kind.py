"""Which client a member runs, as far as its connection says so (KIP-511), and what is known of it.

What a client does with a heartbeat that is held was read in its source and seen in traces; see decision 008.
"""

from enum import Enum


class ClientKind(Enum):
    """The value is how the clients' names for themselves begin."""

    UNKNOWN = ("?",)
    JAVA = ("apache-kafka-java",)
    LIBRDKAFKA = ("librdkafka", "confluent-kafka-", "node-rdkafka")
    KOHORT = ("kohort",)

    @classmethod
    def of(cls, software: str) -> "ClientKind":
        """By the name that the client gave in ApiVersions."""
        return next((kind for kind in cls if software.startswith(kind.value)), cls.UNKNOWN)

    @property
    def sleeps(self) -> bool:
        """Whether a member of a consumer group sleeps while its heartbeat is held beyond the interval that it was told.

        The Java client does not: its network thread waits for no time at all once the next heartbeat is due, and it
        may not send that one. A core of its machine is busy with it for as long as the hold lasts.
        """
        return self in (ClientKind.LIBRDKAFKA, ClientKind.KOHORT)
