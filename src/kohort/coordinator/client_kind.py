"""Which client a member runs, as far as its connection says so (KIP-511), and what is known of it.

What clients do with a heartbeat that is held was read in their source and seen in traces; see decision 008.
"""

from enum import Enum

from kohort.model import Millis


class ClientKind(Enum):
    """Those that are treated otherwise than the rest; the value is how the client's name for itself begins."""

    OTHER = "?"
    JAVA = "apache-kafka-java"
    LIBRDKAFKA = "librdkafka"
    KOHORT = "kohort"

    @classmethod
    def of(cls, software: str, version: str = "") -> "ClientKind":
        """By the name and version that the client gave in ApiVersions.

        What is built on librdkafka has a name of its own, and librdkafka's in its version, as KIP-511 has it.
        """
        if "rdkafka" in version or software.startswith("confluent-kafka-"):
            return cls.LIBRDKAFKA
        return next((kind for kind in cls if software.startswith(kind.value)), cls.OTHER)

    @property
    def sleeps(self) -> bool:
        """Whether a member of a consumer group waits in peace while its heartbeat is held beyond the interval.

        Others do not. The Java client's network thread waits for no time at all once the next heartbeat is due, and it
        may not send that one: a core of its machine is busy for as long as the hold lasts. librdkafka takes the answer
        for lost about a second after the interval, and leaves the connection.
        """
        return self is ClientKind.KOHORT

    @property
    def refusals(self) -> int:
        """How many classic heartbeats in a row may be refused with an error after which the client soon sends another.

        The Java client repeats them without an end, librdkafka each request twice.
        """
        return {ClientKind.JAVA: 1_000, ClientKind.LIBRDKAFKA: 2}.get(self, 0)

    @property
    def keeps_its_clock(self) -> bool:
        """Whether a heartbeat that is repeated after an error does not put off the next one."""
        return self is ClientKind.LIBRDKAFKA

    @property
    def joins_every_ms(self) -> Millis:
        """The least time between two JoinGroups of a classic member: librdkafka waits for it, and has given up by then
        what it had."""
        return 1_000 if self is ClientKind.LIBRDKAFKA else 0
