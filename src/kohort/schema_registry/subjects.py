"""Subjects: the names under which a registry keeps the versions of a schema."""

from collections.abc import Callable
from enum import StrEnum

from kohort.errors import ConfigError
from kohort.loading import Part
from kohort.schema_registry.schemas import SchemaMismatchError


class SubjectNameStrategy(StrEnum):
    """Rule for the subject of a schema, with the names of confluent-kafka's `subject.name.strategy.type`."""

    TOPIC = "TOPIC"
    """`<topic>-key` or `<topic>-value`."""
    RECORD = "RECORD"
    """Full name of the record type: topics share the schema."""
    TOPIC_RECORD = "TOPIC_RECORD"
    """`<topic>-<full name of the record type>`."""


OwnStrategy = Callable[[str, Part, str | None], str]
"""Function of the topic, the part of the record, and the name of the record type, if it has one."""


def subject_rule(given: SubjectNameStrategy | str | OwnStrategy) -> OwnStrategy:
    """Return the function of this name, or the given function. Raises ConfigError."""
    if callable(given) and not isinstance(given, str):
        return given
    if given in _RULES:
        return _RULES[SubjectNameStrategy(given)]
    names = ", ".join(SubjectNameStrategy)
    raise ConfigError(f"subject_name_strategy is {given!r}, but must be a function or one of: {names}.")


def _topic(topic: str, part: Part, record_name: str | None) -> str:
    return f"{topic}-{part}"


def _record(topic: str, part: Part, record_name: str | None) -> str:
    if record_name is None:
        raise SchemaMismatchError(
            "the schema has no name, which the subject name strategies RECORD and TOPIC_RECORD need: name the record"
            " type (Avro: name, JSON Schema: title), or use TOPIC."
        )
    return record_name


def _topic_record(topic: str, part: Part, record_name: str | None) -> str:
    return f"{topic}-{_record(topic, part, record_name)}"


_RULES = {
    SubjectNameStrategy.TOPIC: _topic,
    SubjectNameStrategy.RECORD: _record,
    SubjectNameStrategy.TOPIC_RECORD: _topic_record,
}
