"""Rules of the serializers and deserializers of each format: schemas, evolution, checks, and wrong data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kohort import ConfigError
from kohort.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaMismatchError,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from kohort.schema_registry.schemas import SchemaType
from tests.schema_registry.messages import Customer, Order
from tests.schema_registry.registry_server import Registry, Served, serve


def record(*fields: dict[str, Any], name: str = "Order") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "acme", "fields": list(fields)})


ID = {"name": "id", "type": "string"}
CENTS = {"name": "cents", "type": "long", "default": 0}
FIRST, SECOND = record(ID, {"name": "old", "type": "int"}), record(ID, CENTS)


def test_a_reader_schema_fills_new_fields_and_leaves_out_unknown_ones(registry: SchemaRegistryClient) -> None:
    data = AvroSerializer(registry, FIRST).serialize("orders", [], {"id": "a", "old": 1})
    assert AvroDeserializer(registry).deserialize("orders", [], data) == {"id": "a", "old": 1}
    assert AvroDeserializer(registry, SECOND).deserialize("orders", [], data) == {"id": "a", "cents": 0}
    AvroSerializer(registry, SECOND).serialize("orders", [], {"id": "b", "cents": 2})
    latest = AvroDeserializer(registry, use_latest_version=True)
    assert latest.deserialize("orders", [], data) == {"id": "a", "cents": 0}
    unlike = AvroDeserializer(registry, record({"name": "other", "type": "string"}))
    with pytest.raises(SchemaMismatchError, match=r"cannot be read with the Avro schema acme.Order \(ID 1\)"):
        unlike.deserialize("orders", [], data)


def test_the_latest_version_is_written_instead_of_an_own_schema(registry: SchemaRegistryClient) -> None:
    registry.register_schema("orders-value", Schema(FIRST))
    registry.register_schema("orders-value", Schema(SECOND))
    data = AvroSerializer(registry, use_latest_version=True).serialize("orders", [], {"id": "a", "cents": 2})
    assert data is not None and data[:5] == b"\0\0\0\0\2"


def test_without_auto_register_the_registry_must_have_the_schema(
    served: Served, registry: SchemaRegistryClient
) -> None:
    serializer = AvroSerializer(registry, FIRST, auto_register_schemas=False)
    with pytest.raises(SchemaRegistryError, match="40401"):
        serializer.serialize("orders", [], {"id": "a", "old": 1})
    registry.register_schema("orders-value", Schema(FIRST))
    assert serializer.serialize("orders", [], {"id": "a", "old": 1}) is not None


def test_a_registry_without_guids_cannot_name_a_schema_in_a_header() -> None:
    with serve(Registry(guids=False)) as served:
        serializer = AvroSerializer(SchemaRegistryClient(served.url), FIRST, schema_id_in="header")
        with pytest.raises(SchemaMismatchError, match=r"older than GUIDs. Leave schema_id_in out"):
            serializer.serialize("orders", [], {"id": "a", "old": 1})


def test_the_header_of_an_earlier_record_is_replaced(registry: SchemaRegistryClient) -> None:
    # It would be read before the prefix: a record that is sent on with its headers would be misread.
    headers: list[tuple[str, bytes | None]] = [("__value_schema_id", b"\1" + bytes(16)), ("trace", b"1")]
    data = AvroSerializer(registry, FIRST).serialize("orders", headers, {"id": "a", "old": 1})
    assert headers == [("trace", b"1")]
    AvroSerializer(registry, FIRST, schema_id_in="header").serialize("orders", headers, {"id": "a", "old": 1})
    assert [name for name, _ in headers] == ["trace", "__value_schema_id"]
    assert data is not None and AvroDeserializer(registry).deserialize("orders", [], data)["id"] == "a"


def test_objects_of_the_application(registry: SchemaRegistryClient) -> None:
    for serializer, deserializer in (
        (AvroSerializer(registry, FIRST, to_dict=vars), AvroDeserializer(registry, from_dict=lambda d: (d["id"],))),
        (
            JSONSerializer(registry, {"title": "Order"}, to_dict=vars),
            JSONDeserializer(registry, from_dict=lambda d: (d["id"],)),
        ),
    ):
        data = serializer.serialize("orders", [], Placed("a"))
        assert data is not None and deserializer.deserialize("orders", [], data) == ("a",)
        assert serializer.serialize("orders", [], None) is None


class Placed:
    def __init__(self, id: str) -> None:
        self.id = id
        self.old = 1


def test_an_own_strategy_names_the_subject(registry: SchemaRegistryClient) -> None:
    def of_team(topic: str, part: str, record_name: str | None) -> str:
        return f"team.{topic}.{part}.{record_name}"

    AvroSerializer(registry, FIRST, subject_name_strategy=of_team).serialize("orders", [], {"id": "a", "old": 1})
    assert registry.get_subjects() == ["team.orders.value.acme.Order"]
    with pytest.raises(SchemaMismatchError, match="the schema has no name"):
        AvroSerializer(registry, '"string"', subject_name_strategy="RECORD").serialize("orders", [], "x")


def test_json_is_checked_when_it_is_written_and_when_it_is_read(registry: SchemaRegistryClient) -> None:
    schema = {"title": "Order", "type": "object", "properties": {"lines": {"items": {"type": "integer"}}}}
    serializer, unchecked = JSONSerializer(registry, schema), JSONSerializer(registry, schema, validate=False)
    with pytest.raises(SchemaMismatchError, match=r"the value does not match the JSON Schema Order at \$.lines\[1\]"):
        serializer.serialize("orders", [], {"lines": [1, "x"]})
    wrong = unchecked.serialize("orders", [], {"lines": [1, "x"]})
    assert wrong is not None
    with pytest.raises(SchemaMismatchError, match=r"at \$.lines\[1\]: 'x' is not of type 'integer'"):
        JSONDeserializer(registry).deserialize("orders", [], wrong)
    assert JSONDeserializer(registry, validate=False).deserialize("orders", [], wrong) == {"lines": [1, "x"]}
    assert JSONDeserializer(registry, {}).deserialize("orders", [], wrong) == {"lines": [1, "x"]}
    with pytest.raises(SchemaMismatchError, match="the value is not JSON"):
        JSONDeserializer(registry).deserialize("orders", [], wrong[:-1])
    for data in ({"n": float("nan")}, {"n": {1}}):
        with pytest.raises(SchemaMismatchError, match="cannot be written as JSON"):
            unchecked.serialize("orders", [], data)


def test_a_json_schema_that_refers_to_an_unknown_one_requests_nothing(registry: SchemaRegistryClient) -> None:
    serializer = JSONSerializer(registry, {"title": "Order", "$ref": "http://127.0.0.1:9/other.json"})
    with pytest.raises(SchemaMismatchError, match="which is not one of its references"):
        serializer.serialize("orders", [], {})


def test_a_message_of_another_type_is_rejected(registry: SchemaRegistryClient) -> None:
    data = ProtobufSerializer(registry).serialize("orders", [], Customer(name="Ada"))
    assert data is not None
    with pytest.raises(SchemaMismatchError, match=r"is a acme.Customer \(ID \d\), but message_type is acme.Order"):
        ProtobufDeserializer(registry, Order).deserialize("orders", [], data)
    with pytest.raises(SchemaMismatchError, match=r"is no acme.Customer"):
        ProtobufDeserializer(registry, Customer).deserialize("orders", [], data + b"\xff")
    with pytest.raises(SchemaMismatchError, match="has no message at 9"):
        ProtobufDeserializer(registry).deserialize("orders", [], data[:5] + b"\2\x12" + data[6:])
    with pytest.raises(SchemaMismatchError, match="must be a Protobuf message"):
        ProtobufSerializer(registry).serialize("orders", [], {"name": "Ada"})


def test_a_registry_that_returns_source_needs_the_class(registry: SchemaRegistryClient) -> None:
    source = 'syntax = "proto3"; package acme; message Customer { string name = 1; }'
    found = registry.register_schema("orders-value", Schema(source, SchemaType.PROTOBUF))
    assert found.id == 1
    data = b"\0\0\0\0\1\0" + Customer(name="Ada").SerializeToString()
    assert ProtobufDeserializer(registry, Customer).deserialize("orders", [], data) == Customer(name="Ada")
    with pytest.raises(SchemaMismatchError, match=r"no descriptor .* set message_type"):
        ProtobufDeserializer(registry).deserialize("orders", [], data)


def test_data_of_another_format_is_rejected(registry: SchemaRegistryClient) -> None:
    data = AvroSerializer(registry, FIRST).serialize("orders", [], {"id": "a", "old": 1})
    assert data is not None
    for reader in (JSONDeserializer(registry), ProtobufDeserializer(registry, Order)):
        with pytest.raises(SchemaMismatchError, match=r"is of type AVRO, not (JSON|PROTOBUF)"):
            reader.deserialize("orders", [], data[:5] + b"\0" + data[5:])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "schema is missing"),
        ({"schema": "{"}, "the AVRO schema is not JSON"),
        ({"schema": FIRST, "subject_name_strategy": "topic"}, "must be a function or one of: TOPIC, RECORD"),
        ({"schema": FIRST, "schema_id_in": "body"}, "schema_id_in is 'body'"),
        ({"use_latest_version": True, "auto_register_schemas": True}, "exclude each other"),
        ({"schema": FIRST, "registry": "http://127.0.0.1:1"}, "must be a SchemaRegistryClient"),
    ],
)
def test_wrong_options_are_a_sentence(registry: SchemaRegistryClient, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        AvroSerializer(**{"registry": registry, **options})


def test_a_schema_that_is_not_avro_is_a_sentence(registry: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaMismatchError, match="the Avro schema is not valid"):
        AvroSerializer(registry, '{"type": "recrd"}').serialize("orders", [], {})
    missing = AvroSerializer(registry, FIRST, references=[SchemaReference("acme.Money", "money", 1)])
    with pytest.raises(SchemaRegistryError, match="40401"):
        missing.serialize("orders", [], {"id": "a", "old": 1})
