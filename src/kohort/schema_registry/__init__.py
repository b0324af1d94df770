"""Serializers and deserializers for Avro, JSON Schema and Protobuf with a Confluent-compatible schema registry."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.schema_registry.avro import AvroDeserializer, AvroSerializer
    from kohort.schema_registry.client import SchemaRegistryClient
    from kohort.schema_registry.json_schema import JSONDeserializer, JSONSerializer
    from kohort.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
    from kohort.schema_registry.schemas import (
        RegisteredSchema,
        Schema,
        SchemaMismatchError,
        SchemaReference,
        SchemaRegistryError,
        SchemaType,
    )
    from kohort.schema_registry.subjects import SubjectNameStrategy
else:
    from kohort.on_demand import on_demand

    __getattr__ = on_demand(
        __name__,
        {
            "avro": ("AvroDeserializer", "AvroSerializer"),
            "client": ("SchemaRegistryClient",),
            "json_schema": ("JSONDeserializer", "JSONSerializer"),
            "protobuf": ("ProtobufDeserializer", "ProtobufSerializer"),
            "schemas": (
                "RegisteredSchema",
                "Schema",
                "SchemaMismatchError",
                "SchemaReference",
                "SchemaRegistryError",
                "SchemaType",
            ),
            "subjects": ("SubjectNameStrategy",),
        },
    )

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "JSONDeserializer",
    "JSONSerializer",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "RegisteredSchema",
    "Schema",
    "SchemaMismatchError",
    "SchemaReference",
    "SchemaRegistryClient",
    "SchemaRegistryError",
    "SchemaType",
    "SubjectNameStrategy",
]
