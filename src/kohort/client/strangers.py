"""Who answers, when it is no Kafka broker."""

from kohort.errors import ErrorCode, KafkaError

_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16


class NotKafkaError(KafkaError):
    """Something else listens at that address: asking again does not help."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, detail)

    @property
    def retriable(self) -> bool:
        return False


def stranger(address: str, first: bytes) -> NotKafkaError | None:
    """What the first bytes of an answer give away; None where they may be a broker's."""
    if len(first) >= 3 and first[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and first[1] == 3:
        return NotKafkaError(f"{address} expects TLS; give the port of a listener without it (PLAINTEXT).")
    if first[:5] == b"HTTP/":
        return NotKafkaError(f"{address} is a web server; bootstrap_servers wants a Kafka broker, usually port 9092.")
    return None


def garbled(address: str) -> NotKafkaError:
    """What is sent there is nothing that a broker would send."""
    return NotKafkaError(f"{address} does not speak Kafka's protocol; bootstrap_servers wants a Kafka broker.")


def copied(error: KafkaError) -> KafkaError:
    """Another that says the same, since raising one changes it: for each who waits, one."""
    return NotKafkaError(error.sentence) if isinstance(error, NotKafkaError) else KafkaError(error.code, error.sentence)
