"""Conversion of a response's error code to an exception."""

from kohort.errors import ErrorCode, KafkaError, error_code


def check(number: int, what: str = "", message: str | None = None) -> None:
    """Raise KafkaError for an error code of a response; `what` names its subject."""
    if number == ErrorCode.NONE:
        return
    code = error_code(number)
    sentence = message or code.sentence
    raise KafkaError(code, f"{what}: {sentence}" if what else sentence)
