"""Bytes of confluent-kafka's serializers, read here, and ours, read there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry import SchemaReference as ConfluentReference
from confluent_kafka.schema_registry import SchemaRegistryClient as ConfluentClient
from confluent_kafka.schema_registry import header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer as ConfluentJSONDeserializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer as ConfluentJSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as ConfluentProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as ConfluentProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from kohort.loading import Part
from kohort.schema_registry import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaReference,
    SchemaRegistryClient,
)
from tests.schema_registry.messages import Customer, Line, Money, Order

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "acme",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "cents", "type": ["null", "long"], "default": None},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        ],
    }
)
ORDER_JSON = json.dumps(
    {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "string"}, "cents": {"type": "integer"}},
        "required": ["id"],
    }
)
AN_ORDER = {"id": "ö-1", "cents": 250, "tags": ["new", ""]}
JSON_ORDER = {"id": "ö-1", "cents": 250}

Confluent = Callable[[ConfluentClient, dict[str, Any]], Any]
Ours = Callable[..., Any]


def context(part: Part = "value", headers: list[Any] | None = None) -> SerializationContext:
    return SerializationContext("orders", MessageField(part), [] if headers is None else headers)


def message() -> Any:
    made = Order(id="ö-1", price=Money(cents=250))
    made.at.FromSeconds(1_700_000_000)
    return made


PROTOBUF = (
    Customer(name="Ada"),  # index 0, which is one byte
    message(),  # index 1
    Line(article="bolt"),  # indexes 1, 1
)


def protobuf_case(data: Any) -> tuple[Any, Confluent, Confluent, Ours, Ours]:
    kind = type(data)
    return (
        data,
        lambda client, conf: ConfluentProtobufSerializer(kind, client, conf=conf),
        lambda client, conf: ConfluentProtobufDeserializer(kind, conf, client),
        ProtobufSerializer,
        lambda client: ProtobufDeserializer(client, kind),
    )


CASES: dict[str, tuple[Any, Confluent, Confluent, Ours, Ours]] = {
    "avro": (
        AN_ORDER,
        lambda client, conf: ConfluentAvroSerializer(client, ORDER, conf=conf),
        lambda client, conf: ConfluentAvroDeserializer(client, conf=conf),
        lambda client, **options: AvroSerializer(client, ORDER, **options),
        AvroDeserializer,
    ),
    "avro-string": (
        "ö-1 and more",  # confluent-kafka rejects Avro data of up to five bytes
        lambda client, conf: ConfluentAvroSerializer(client, '{"type": "string"}', conf=conf),
        lambda client, conf: ConfluentAvroDeserializer(client, conf=conf),
        lambda client, **options: AvroSerializer(client, '{"type": "string"}', **options),
        AvroDeserializer,
    ),
    "avro-bytes": (
        b"\0\1raw bytes",
        lambda client, conf: ConfluentAvroSerializer(client, '{"type": "bytes"}', conf=conf),
        lambda client, conf: ConfluentAvroDeserializer(client, conf=conf),
        lambda client, **options: AvroSerializer(client, '{"type": "bytes"}', **options),
        AvroDeserializer,
    ),
    "json": (
        JSON_ORDER,
        lambda client, conf: ConfluentJSONSerializer(ORDER_JSON, client, conf=conf),
        lambda client, conf: ConfluentJSONDeserializer(None, schema_registry_client=client, conf=conf),
        lambda client, **options: JSONSerializer(client, ORDER_JSON, **options),
        JSONDeserializer,
    ),
    **{f"protobuf-{type(data).__name__}": protobuf_case(data) for data in PROTOBUF},
}


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("place", ["prefix", "header"])
@pytest.mark.parametrize("case", CASES)
def test_both_libraries_write_the_same_and_read_each_other(
    case: str, place: str, part: Part, registry: SchemaRegistryClient, confluent: ConfluentClient
) -> None:
    data, their_serializer, their_deserializer, serializer, deserializer = CASES[case]
    conf = {"schema.id.serializer": header_schema_id_serializer} if place == "header" else {}
    their_headers: list[tuple[str, bytes]] = []
    theirs = their_serializer(confluent, conf)(data, context(part, their_headers))
    headers: list[tuple[str, bytes | None]] = []
    ours = serializer(registry, schema_id_in=place).serialize("orders", headers, data, part=part)
    assert headers == their_headers and len(headers) == (place == "header")
    if case == "json":  # whose white space no reader sees
        start = 0 if place == "header" else 5
        assert (ours[:start], json.loads(ours[start:])) == (theirs[:start], json.loads(theirs[start:]))
    else:
        assert ours == theirs

    reader = deserializer(registry)
    assert reader.deserialize("orders", their_headers, theirs, part=part) == data
    assert their_deserializer(confluent, {})(ours, context(part, headers)) == data


def test_a_message_without_a_class_is_read_by_the_schema_of_the_registry(
    registry: SchemaRegistryClient, confluent: ConfluentClient
) -> None:
    for data in PROTOBUF:
        theirs = ConfluentProtobufSerializer(type(data), confluent)(data, context())
        assert theirs is not None
        found = ProtobufDeserializer(registry).deserialize("orders", [], theirs)
        assert found.DESCRIPTOR.full_name == data.DESCRIPTOR.full_name
        assert found.SerializeToString() == data.SerializeToString()


MONEY = '{"type": "record", "name": "Money", "namespace": "acme", "fields": [{"name": "cents", "type": "long"}]}'
PRICED = json.dumps(
    {
        "type": "record",
        "name": "Priced",
        "namespace": "acme",
        "fields": [{"name": "price", "type": "acme.Money"}],
    }
)


def test_avro_references_are_resolved_by_both(registry: SchemaRegistryClient, confluent: ConfluentClient) -> None:
    confluent.register_schema("money", ConfluentSchema(MONEY, "AVRO"))
    data = {"price": {"cents": 7}}
    schema = ConfluentSchema(PRICED, "AVRO", [ConfluentReference("acme.Money", "money", 1)])
    theirs = ConfluentAvroSerializer(confluent, schema)(data, context())
    serializer = AvroSerializer(registry, PRICED, references=[SchemaReference("acme.Money", "money", 1)])
    ours = serializer.serialize("orders", [], data)
    assert ours == theirs
    assert AvroDeserializer(registry).deserialize("orders", [], theirs) == data
    assert ConfluentAvroDeserializer(confluent)(ours, context()) == data


def test_json_references_are_resolved_by_both(registry: SchemaRegistryClient, confluent: ConfluentClient) -> None:
    money = '{"title": "Money", "type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}'
    priced = '{"title": "Priced", "type": "object", "properties": {"price": {"$ref": "money.json"}}}'
    confluent.register_schema("money", ConfluentSchema(money, "JSON"))
    serializer = JSONSerializer(registry, priced, references=[SchemaReference("money.json", "money", 1)])
    ours = serializer.serialize("orders", [], {"price": {"cents": 7}})
    reader = ConfluentJSONDeserializer(None, schema_registry_client=confluent)
    assert reader(ours, context()) == {"price": {"cents": 7}}
    assert JSONDeserializer(registry).deserialize("orders", [], ours) == {"price": {"cents": 7}}


@pytest.mark.parametrize("strategy", ["TOPIC", "RECORD", "TOPIC_RECORD"])
@pytest.mark.parametrize("case", ["avro", "json", "protobuf-Line"])
def test_subjects_have_the_names_of_confluent_kafka(
    case: str, strategy: str, registry: SchemaRegistryClient, confluent: ConfluentClient
) -> None:
    data, their_serializer, _, serializer, _ = CASES[case]
    their_serializer(confluent, {"subject.name.strategy.type": strategy})(data, context())
    theirs = registry.get_subjects()
    serializer(registry, subject_name_strategy=strategy).serialize("orders", [], data)
    assert registry.get_subjects() == theirs == confluent.get_subjects()
