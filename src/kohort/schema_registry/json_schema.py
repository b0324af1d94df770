"""JSON with a JSON Schema in a schema registry, by jsonschema."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from kohort.errors import ConfigError, install_extra
from kohort.loading import Part
from kohort.schema_registry.client import SchemaRegistryClient
from kohort.schema_registry.conversion import Decoder, Encoder, SchemaDeserializer, SchemaSerializer, registration
from kohort.schema_registry.schemas import Schema, SchemaMismatchError, SchemaReference, SchemaType, schema_of
from kohort.schema_registry.subjects import OwnStrategy, SubjectNameStrategy
from kohort.schema_registry.wire_format import SchemaName

try:
    from jsonschema import Draft7Validator
    from jsonschema.exceptions import SchemaError, best_match
    from jsonschema.validators import validator_for
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT7
except ImportError:
    raise ConfigError(f"JSON Schema needs jsonschema: {install_extra('json-schema')}.") from None


class JSONSerializer(SchemaSerializer):
    """Serializer of data to JSON, after it was checked with a JSON Schema.

    Pass it as key_serializer or value_serializer. The options are those of AvroSerializer.
    `validate=False` leaves out the check. A schema without `$schema` is of draft 7.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | dict[str, Any] | Schema | None = None,
        *,
        to_dict: Callable[[Any], Any] | None = None,
        validate: bool = True,
        references: Sequence[SchemaReference] = (),
        subject_name_strategy: SubjectNameStrategy | str | OwnStrategy = SubjectNameStrategy.TOPIC,
        auto_register_schemas: bool | None = None,
        normalize_schemas: bool = False,
        use_latest_version: bool = False,
        schema_id_in: Literal["prefix", "header"] = "prefix",
    ) -> None:
        self._schema = None if schema is None else schema_of(schema, SchemaType.JSON, references)
        self._title = None if self._schema is None else _title(_parsed(self._schema))
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
        self._validate = validate

    def _encoder(self, topic: str, part: Part, data: Any) -> Encoder:
        found = self._options.of(topic, part, self._title, self._schema)
        check = _checker(found.schema, self._options.registry) if self._validate else _unchecked
        to_dict = self._to_dict

        def encode(data: Any) -> bytes:
            if to_dict is not None:
                data = to_dict(data)
            check(part, data)
            try:
                return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
            except (TypeError, ValueError, RecursionError) as problem:
                raise SchemaMismatchError(f"the {part} cannot be written as JSON: {problem}.") from problem

        return Encoder(self._options.prefix(found), encode)


class JSONDeserializer(SchemaDeserializer):
    """Deserializer of JSON that a serializer with a JSON Schema wrote, in any language.

    Pass it as key_deserializer or value_deserializer. Data is checked with the schema that it was
    written with, or with `schema` or the latest version instead. `validate=False` leaves out the
    check. `from_dict` converts the result to the application's objects.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        schema: str | dict[str, Any] | Schema | None = None,
        *,
        from_dict: Callable[[Any], Any] | None = None,
        validate: bool = True,
        references: Sequence[SchemaReference] = (),
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy | str | OwnStrategy = SubjectNameStrategy.TOPIC,
    ) -> None:
        super().__init__(registry, use_latest_version=use_latest_version, subject_name_strategy=subject_name_strategy)
        if schema is not None and use_latest_version:
            raise ConfigError("schema and use_latest_version exclude each other: leave one of them out.")
        self._schema = None if schema is None else schema_of(schema, SchemaType.JSON, references)
        if self._schema is not None:
            _parsed(self._schema)
        self._from_dict = from_dict
        self._validate = validate

    def _decoder(self, name: SchemaName, topic: str, part: Part) -> Decoder:
        check: _Check = _unchecked
        if self._validate:
            schema = self._schema
            if schema is None:
                written = self._named(name, SchemaType.JSON)
                schema = self._latest(topic, part, _title(_parsed(written))) or written
            check = _checker(schema, self._registry)
        from_dict = self._from_dict

        def decode(data: bytes) -> Any:
            try:
                found = json.loads(data)
            except (ValueError, RecursionError) as problem:
                raise SchemaMismatchError(f"the {part} is not JSON: {problem}.") from problem
            check(part, found)
            return found if from_dict is None else from_dict(found)

        return decode


_Check = Callable[[Part, Any], None]


def _unchecked(part: Part, data: Any) -> None:
    pass


def _checker(schema: Schema, registry: SchemaRegistryClient) -> _Check:
    """Return the function that raises SchemaMismatchError for data that does not match. Blocks."""
    contents = _parsed(schema)
    kind = validator_for(contents, default=Draft7Validator)
    try:
        kind.check_schema(contents)
    except SchemaError as problem:
        raise SchemaMismatchError(f"the JSON Schema is not valid: {problem.message}.") from problem
    # The registry of jsonschema requests nothing, so a `$ref` works only for the references of the schema.
    validator = kind(contents, registry=Registry().with_resources(_resources(schema, registry, set())))
    described = f"the JSON Schema {title}" if (title := _title(contents)) else "the JSON Schema"

    def check(part: Part, data: Any) -> None:
        try:
            problem = best_match(validator.iter_errors(data))
        except Unresolvable as missing:
            raise SchemaMismatchError(
                f"{described} has a $ref to {missing.ref!r}, which is not one of its references."
            ) from missing
        if problem is not None:
            raise SchemaMismatchError(
                f"the {part} does not match {described} at {problem.json_path}: {problem.message}."
            )

    return check


def _resources(schema: Schema, registry: SchemaRegistryClient, seen: set[str]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for reference in schema.references:
        if reference.name not in seen:
            seen.add(reference.name)
            inner = registry.get_version(reference.subject, reference.version).schema
            found.append((reference.name, Resource.from_contents(_parsed(inner), default_specification=DRAFT7)))
            found += _resources(inner, registry, seen)
    return found


def _parsed(schema: Schema) -> Any:
    try:
        return json.loads(schema.text)
    except (ValueError, RecursionError) as problem:
        raise ConfigError(f"the JSON Schema is not JSON: {problem}.") from None


def _title(contents: Any) -> str | None:
    title = contents.get("title") if isinstance(contents, dict) else None
    return title if isinstance(title, str) else None
