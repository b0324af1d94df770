"""Client software of a member, as far as its connection reveals it (KIP-511)."""

from enum import Enum


class ClientKind(Enum):
    """Clients whose behavior is known; the value is the prefix of the software name that the client sends.

    `prompt/client_timings.py` says what is known of each.
    """

    OTHER = "?"
    JAVA = "apache-kafka-java"
    LIBRDKAFKA = "librdkafka"
    KAFKA_PYTHON = "kafka-python"
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
