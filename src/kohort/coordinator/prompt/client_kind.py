"""Client software of a member, as far as its connection reveals it (KIP-511), and its known behaviour.

How clients treat held heartbeats was determined from their source and from traces; see decision 008.
"""

from enum import Enum

from kohort.model import Millis


class ClientKind(Enum):
    """Clients that get special treatment; the value is the prefix of the software name that the client sends."""

    OTHER = "?"
    JAVA = "apache-kafka-java"
    LIBRDKAFKA = "librdkafka"
    KOHORT = "kohort"

    @classmethod
    def of(cls, software: str, version: str = "") -> "ClientKind":
        """Return the kind for the software name and version that the client sent in ApiVersions.

        Clients built on librdkafka have names of their own, with librdkafka's name in the version, as
        KIP-511 prescribes.
        """
        if "rdkafka" in version or software.startswith("confluent-kafka-"):
            return cls.LIBRDKAFKA
        return next((kind for kind in cls if software.startswith(kind.value)), cls.OTHER)

    @property
    def sleeps(self) -> bool:
        """Whether a consumer group's member sleeps while its heartbeat is held beyond the interval.

        Other clients do not. The Java client's network thread polls without a timeout once the next
        heartbeat is due, which it may not send yet: it keeps a core of its machine busy until the hold
        ends. librdkafka considers the answer lost about a second after the interval, and closes the
        connection.
        """
        return self is ClientKind.KOHORT

    @property
    def refusals(self) -> int:
        """Maximum number of consecutive classic heartbeats to refuse with an error that makes the client resend soon.

        The Java client resends without a limit, librdkafka resends each request twice.
        """
        return {ClientKind.JAVA: 1_000, ClientKind.LIBRDKAFKA: 2}.get(self, 0)

    @property
    def keeps_its_clock(self) -> bool:
        """Whether a heartbeat that is resent after an error leaves the time of the next one unchanged."""
        return self is ClientKind.LIBRDKAFKA

    @property
    def joins_every_ms(self) -> Millis:
        """Minimum time between two JoinGroups of a classic member, in milliseconds.

        librdkafka waits for it, after it has given up its partitions.
        """
        return 1_000 if self is ClientKind.LIBRDKAFKA else 0
