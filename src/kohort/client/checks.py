"""From an answer's error code to an exception."""

from kohort.errors import ErrorCode, KafkaError, error_code


def check(number: int, what: str = "", message: str | None = None) -> None:
    """Raise what the broker said of `what`, unless it said that all is well."""
    if number == ErrorCode.NONE:
        return
    code = error_code(number)
    sentence = message or code.sentence
    raise KafkaError(code, f"{what}: {sentence}" if what else sentence)
