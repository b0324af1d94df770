"""Errors of TLS and SASL."""

from kohort.errors import ErrorCode, KafkaError


class AuthenticationError(KafkaError):
    """A broker and this client do not accept each other's TLS certificate or SASL credentials.

    Retrying does not help, and with a wrong password it may lock the account.
    """

    def __init__(self, detail: str, code: ErrorCode = ErrorCode.SASL_AUTHENTICATION_FAILED) -> None:
        super().__init__(code, detail)

    @property
    def retriable(self) -> bool:
        return False
