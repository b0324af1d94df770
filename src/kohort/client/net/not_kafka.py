"""Detection of peers that are not Kafka brokers."""

from kohort.client.security import AuthenticationError
from kohort.errors import ErrorCode, KafkaError

_TLS_ALERT, _TLS_HANDSHAKE = 0x15, 0x16


class NotKafkaError(KafkaError):
    """Error for an address with a different kind of server. Retrying does not help."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, detail)

    @property
    def retriable(self) -> bool:
        return False


def other_protocol_error(address: str, first: bytes) -> NotKafkaError | None:
    """Return an error if the first bytes of a response identify another protocol, otherwise None."""
    if len(first) >= 3 and first[0] in (_TLS_ALERT, _TLS_HANDSHAKE) and first[1] == 3:
        return NotKafkaError(
            f"{address} expects TLS: set security_protocol to SSL or SASL_SSL, or give the port of a listener without"
            " TLS (PLAINTEXT)."
        )
    if first[:5] == b"HTTP/":
        return NotKafkaError(
            f"{address} is a web server; bootstrap_servers must name a Kafka broker, usually port 9092."
        )
    return None


def malformed_answer_error(address: str) -> NotKafkaError:
    """Return the error for bytes that no broker would send."""
    return NotKafkaError(f"{address} does not speak Kafka's protocol; bootstrap_servers must name a Kafka broker.")


def copied_error(error: KafkaError) -> KafkaError:
    """Return a copy of the error for another waiter, because raising an exception modifies it."""
    if isinstance(error, AuthenticationError):
        return AuthenticationError(error.sentence, error.code)
    return NotKafkaError(error.sentence) if isinstance(error, NotKafkaError) else KafkaError(error.code, error.sentence)
