"""kio as a second opinion on bytes: our messages as instances of its classes, one class per version."""

import dataclasses
import datetime
import io
from pkgutil import resolve_name
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kohort.model import UUID
from kohort.wire.codec import Message, Struct
from tests.wire.messages import OUR_TAGS

_RENAMED = {"enable2_pc": "enable_2pc"}


def kio_class(kind: type[Message], version: int) -> Any:
    """kio's class for that message and version; None where it has none."""
    found = schema_name_map[api_key_map[kind.KEY]].get(version)
    if found is None:
        return None
    is_request = kind.__name__.endswith("Request")
    return resolve_name(found[EntityType.request] if is_request else found[EntityType.response])


def as_kio(value: Struct, kind: Any, version: int) -> Any:
    """The message as kio's; fails unless both have the same fields in the same order, but for those of our own."""
    ours = [field for field in value.FIELDS if field.exists(version) and (field.tag or 0) < OUR_TAGS]
    theirs = dataclasses.fields(kind)
    assert [field.name for field in ours] == [_our_name(field) for field in theirs]
    assert [field.tag for field in ours] == [field.metadata.get("tag") for field in theirs]
    return kind(
        **{
            field.name: _convert(getattr(value, our.name), field, version)
            for our, field in zip(ours, theirs, strict=True)
        }
    )


def _our_name(field: Any) -> str:
    name: str = field.name
    in_time = str(field.metadata.get("kafka_type", "")).startswith(("timedelta", "datetime"))
    return _RENAMED.get(name, name) + ("_ms" if in_time else "")


def _convert(value: Any, field: Any, version: int) -> Any:
    match field.metadata.get("kafka_type"):
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else datetime.datetime.fromtimestamp(value / 1000, datetime.UTC)
        case "uuid" if isinstance(value, UUID):
            return value if value.int else None
    if value is None and field.metadata.get("tag") is not None and field.default is not dataclasses.MISSING:
        return field.default
    if isinstance(value, list):
        return tuple(as_kio(item, _inner(field.type), version) if isinstance(item, Struct) else item for item in value)
    if isinstance(value, Struct):
        return as_kio(value, _inner(field.type), version)
    return value


def _inner(annotation: Any) -> Any:
    """The class of nested structs in an annotation such as `tuple[X, ...] | None`."""
    if dataclasses.is_dataclass(annotation):
        return annotation
    found = [_inner(arg) for arg in getattr(annotation, "__args__", ()) if arg not in (None, type(None), ...)]
    return next((inner for inner in found if inner is not None), None)


def kio_bytes(value: Any) -> bytes:
    """Return the bytes that kio writes."""
    buffer = io.BytesIO()
    entity_writer(type(value))(buffer, value)
    return buffer.getvalue()


def kio_reads(kind: Any, data: bytes) -> Any:
    """Return the message that kio reads."""
    value, size = entity_reader(kind)(data, 0)
    assert size == len(data)
    return value
