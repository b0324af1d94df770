"""Avro with a schema registry, by fastavro."""

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, Literal

from kohort.errors import ConfigError, install_extra
from kohort.loading import Part
from kohort.schema_registry.client import SchemaRegistryClient
from kohort.schema_registry.conversion import Decoder, Encoder, SchemaDeserializer, SchemaSerializer, registration
from kohort.schema_registry.schemas import Schema, SchemaMismatchError, SchemaReference, SchemaType, schema_of
from kohort.schema_registry.subjects import OwnStrategy, SubjectNameStrategy
from kohort.schema_registry.wire_format import SchemaName

try:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer
    from fastavro.schema import SchemaParseException
except ImportError:
    raise ConfigError(f"Avro needs fastavro: {install_extra('avro')}.") from None


class AvroSerializer(SchemaSerializer):
    """Serializer of dictionaries, or of any data of an Avro schema.

    Pass it as key_serializer or value_serializer. It registers `schema`, a text or parsed JSON,
    under the subject that `subject_name_strategy` gives. With `auto_register_schemas=False` the
    registry must have it already; with `use_latest_version` it writes with the latest version
    instead. `to_dict` converts the application's objects. `references` are the schemas whose types
    the schema uses by name. `schema_id_in="header"` puts the schema's GUID into a header of the
    record, instead of its ID before the data.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | dict[str, Any] | list[Any] | Schema | None = None,
        *,
        to_dict: Callable[[Any], Any] | None = None,
        references: Sequence[SchemaReference] = (),
        subject_name_strategy: SubjectNameStrategy | str | OwnStrategy = SubjectNameStrategy.TOPIC,
        auto_register_schemas: bool | None = None,
        normalize_schemas: bool = False,
        use_latest_version: bool = False,
        schema_id_in: Literal["prefix", "header"] = "prefix",
    ) -> None:
        self._schema = None if schema is None else schema_of(schema, SchemaType.AVRO, references)
        if self._schema is not None:
            parsed_json(self._schema)
        super().__init__(
            registration(
                registry,
                self._schema,
                subject_name_strategy=subject_name_strategy,
                auto_register_schemas=auto_register_schemas,
                normalize_schemas=normalize_schemas,
                use_latest_version=use_latest_version,
                schema_id_in=schema_id_in,
            )
        )
        self._to_dict = to_dict

    def _encoder(self, topic: str, part: Part, data: Any) -> Encoder:
        registry = self._options.registry
        name = None if self._schema is None else _name(compiled(self._schema, registry))
        found = self._options.of(topic, part, name, self._schema)
        avro, to_dict = compiled(found.schema, registry), self._to_dict
        raw, described = _is_bytes(avro), _described(avro)

        def encode(data: Any) -> bytes:
            if to_dict is not None:
                data = to_dict(data)
            if raw:
                return _raw(data)
            buffer = BytesIO()
            try:
                schemaless_writer(buffer, avro, data)
            except Exception as problem:
                raise SchemaMismatchError(f"the {part} does not match {described}: {_text(problem)}.") from problem
            return buffer.getvalue()

        return Encoder(self._options.prefix(found), encode)


class AvroDeserializer(SchemaDeserializer):
    """Deserializer of data that a serializer for Avro wrote, in any language.

    Pass it as key_deserializer or value_deserializer. Data is read with the schema that it was
    written with. If `schema` (the reader's) or `use_latest_version` is set, it is resolved to that
    schema, by Avro's rules: new fields get their defaults, and unknown fields are left out.
    `from_dict` converts the result to the application's objects.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | dict[str, Any] | list[Any] | Schema | None = None,
        *,
        from_dict: Callable[[Any], Any] | None = None,
        references: Sequence[SchemaReference] = (),
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy | str | OwnStrategy = SubjectNameStrategy.TOPIC,
    ) -> None:
        super().__init__(registry, use_latest_version=use_latest_version, subject_name_strategy=subject_name_strategy)
        if schema is not None and use_latest_version:
            raise ConfigError("schema and use_latest_version exclude each other: leave one of them out.")
        self._schema = None if schema is None else schema_of(schema, SchemaType.AVRO, references)
        if self._schema is not None:
            parsed_json(self._schema)
        self._from_dict = from_dict

    def _decoder(self, name: SchemaName, topic: str, part: Part) -> Decoder:
        writer = compiled(self._named(name, SchemaType.AVRO), self._registry)
        reader_schema = self._schema or self._latest(topic, part, _name(writer))
        reader = None if reader_schema is None else compiled(reader_schema, self._registry)
        raw, described, from_dict = _is_bytes(writer), f"{_described(writer)} ({name})", self._from_dict

        def decode(data: bytes) -> Any:
            if raw:
                found: Any = data
            else:
                try:
                    found = schemaless_reader(BytesIO(data), writer, reader)
                except Exception as problem:
                    raise SchemaMismatchError(f"the {part} cannot be read with {described}: {_text(problem)}.") from (
                        problem
                    )
            return found if from_dict is None else from_dict(found)

        return decode


def parsed_json(schema: Schema) -> Any:
    """Return the text of a schema as JSON. Raises ConfigError."""
    try:
        return json.loads(schema.text)
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"the {schema.type} schema is not JSON: {problem}.") from None


def compiled(schema: Schema, registry: SchemaRegistryClient) -> Any:
    """Return the schema as fastavro uses it, after those that it refers to. Blocks. Raises SchemaMismatchError."""
    return _compiled(schema, registry, {})


def _compiled(schema: Schema, registry: SchemaRegistryClient, names: dict[str, Any]) -> Any:
    for reference in schema.references:
        if reference.name not in names:
            _compiled(registry.get_version(reference.subject, reference.version).schema, registry, names)
    try:
        return parse_schema(parsed_json(schema), named_schemas=names)
    except (SchemaParseException, ValueError, TypeError, KeyError) as problem:
        raise SchemaMismatchError(f"the Avro schema is not valid: {_text(problem)}.") from problem


def _name(avro: Any) -> str | None:
    return avro.get("name") if isinstance(avro, dict) else None


def _described(avro: Any) -> str:
    name = _name(avro)
    return f"the Avro schema {name}" if name else "the Avro schema"


def _is_bytes(avro: Any) -> bool:
    """Whether the data is the bytes themselves, without Avro's length, as in Confluent's serializers."""
    return avro == "bytes" or (isinstance(avro, dict) and avro.get("type") == "bytes" and "logicalType" not in avro)


def _raw(data: Any) -> bytes:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SchemaMismatchError(f"the Avro schema is bytes, but the data is of type {type(data).__name__}.")
    return bytes(data)


def _text(problem: Exception) -> str:
    return str(problem).strip().removesuffix(".") or type(problem).__name__
