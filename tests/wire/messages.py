"""Values for any message, derived from its declaration."""

from typing import Any

from hypothesis import strategies as st

from kohort.model import NO_TOPIC_ID, UUID
from kohort.wire.api import APIS
from kohort.wire.codec import Message, Struct
from kohort.wire.codec.schema import ArrayOf, Blob, Field, Fixed, Nested, Text, UuidType, WireType

REQUESTS_AND_RESPONSES = [kind for api in APIS.values() for kind in (api.request, api.response)]

# The long one needs a varint of two bytes for its length.
proper = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.just("näme" * 40)
"""Strings that are UTF-8 on the wire."""

any_bytes = st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
"""Strings of which only the bytes are known."""


def messages(kind: type[Message], texts: st.SearchStrategy[str] = proper) -> st.SearchStrategy[Any]:
    """Messages of that kind with all fields of all versions set; `fit` makes them ready for one."""
    return _structs(kind, texts)


def _structs(kind: type[Struct], texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: _field(field, texts) for field in kind.FIELDS})


def _field(field: Field, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    if field.name == "error_code" or field.name.endswith("_error_code"):
        return st.integers(-1, 129)
    if field.name == "transaction_start_time_ms":  # kio makes a datetime of it
        return st.integers(0, 2**41)
    if field.name == "log_append_time_ms":  # kio makes a datetime of it
        return st.just(-1) | st.integers(0, 2**41)
    if field.name in ("retention_time_ms", "session_lifetime_ms"):  # kio makes a timedelta of it, by way of a float
        return st.integers(-(2**41), 2**41)
    values = _values(field.type, texts)
    optional = field.nullable <= 100 or field.default is None
    # The default often enough: it decides whether a tagged field is there at all.
    usual = st.just(field.default) if isinstance(field.default, int | str) else st.nothing()
    return values | usual | (st.none() if optional else st.nothing())


def _values(wire_type: WireType, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    match wire_type:
        case Fixed("?"):
            return st.booleans()
        case Fixed("d"):
            return st.floats(allow_nan=False)
        case Fixed(form, size):
            unsigned = form.isupper()
            bits = size * 8
            return st.integers(0, 2**bits - 1) if unsigned else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        case UuidType():
            return st.just(NO_TOPIC_ID) | st.binary(min_size=16, max_size=16).map(lambda raw: UUID(bytes=raw))
        case Text():
            return texts
        case Blob():
            return st.binary(max_size=6) | st.just(b"b" * 20_000)
        case ArrayOf(Fixed() as element):
            return st.lists(_values(element, texts), max_size=3) | st.just([7] * 130)
        case ArrayOf(element):
            return st.lists(_values(element, texts), max_size=2)
        case Nested(kind):
            return _structs(kind, texts)


def fit(value: Any, version: int) -> Any:
    """A copy of the message with only what that version can carry: what decoding its bytes must give."""
    copy = type(value)()
    for field in value.FIELDS:
        if field.exists(version):
            setattr(copy, field.name, _fit_field(field, getattr(value, field.name), version))
    return copy


OUR_TAGS = 10_000
"""Tagged fields from here on are Kohort's own: other peers skip them (KIP-482)."""


def as_kafka_has_it(value: Any) -> Any:
    """A copy of the message without fields of our own."""
    copy = type(value)()
    for field in value.FIELDS:
        if field.tag is None or field.tag < OUR_TAGS:
            found = getattr(value, field.name)
            if isinstance(found, list):
                found = [as_kafka_has_it(item) if isinstance(item, Struct) else item for item in found]
            setattr(copy, field.name, as_kafka_has_it(found) if isinstance(found, Struct) else found)
    return copy


def _fit_field(field: Field, value: Any, version: int) -> Any:
    if value is None:
        null_is_fine = field.may_be_null(version) or (field.tag is not None and field.default is None)
        return None if null_is_fine else _zero(field)
    if isinstance(value, list):
        return [fit(item, version) if isinstance(item, Struct) else item for item in value]
    if isinstance(value, Struct):
        fitted = fit(value, version)
        absent = field.tag is not None and not field.may_be_null(version) and fitted == type(fitted)()
        return None if absent else fitted
    return value


def _zero(field: Field) -> Any:
    match field.type:
        case Text():
            return ""
        case ArrayOf():
            return []
        case Nested(kind):
            return kind()
        case Blob():
            return b""
        case _:
            return 0
