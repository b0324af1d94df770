"""What serializers, and what deserializers, of all formats have in common: subjects, IDs, and schemas to load.

Conversion itself requests nothing. If the schema of some data is not known yet, it raises
LoadRequired, so that a client can load it outside of its event loop.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from kohort.errors import ConfigError
from kohort.loading import LoadRequired, Part
from kohort.schema_registry.client import SchemaRegistryClient
from kohort.schema_registry.schemas import RegisteredSchema, Schema, SchemaMismatchError, SchemaType
from kohort.schema_registry.subjects import OwnStrategy, SubjectNameStrategy, subject_rule
from kohort.schema_registry.wire_format import HEADER_NAMES, SchemaName, encode_name, split, without_name
from kohort.wire.batches import Header

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Registration:
    """Options for finding the schema of data to write."""

    registry: SchemaRegistryClient
    subject: OwnStrategy
    auto_register_schemas: bool
    normalize_schemas: bool
    use_latest_version: bool
    schema_id_in_header: bool

    def of(self, topic: str, part: Part, record_name: str | None, schema: Schema | None) -> RegisteredSchema:
        """Return the registered schema to write with. Blocks."""
        subject = self.subject(topic, part, record_name)
        if self.use_latest_version:
            return self.registry.get_latest_version(subject)
        assert schema is not None
        if self.auto_register_schemas:
            found = self.registry.register_schema(subject, schema, normalize_schemas=self.normalize_schemas)
            if not self.schema_id_in_header or found.guid is not None:
                return found
        return self.registry.lookup_schema(subject, schema, normalize_schemas=self.normalize_schemas)

    def prefix(self, found: RegisteredSchema, indexes: tuple[int, ...] = ()) -> bytes:
        """Return the bytes of the header or the prefix that names the schema."""
        if not self.schema_id_in_header:
            if found.id is None:
                raise SchemaMismatchError(f"the schema registry reports no ID for subject {found.subject}.")
            return encode_name(SchemaName(found.id, indexes))
        if found.guid is None:
            raise SchemaMismatchError(
                f"the schema registry reports no GUID for subject {found.subject}, which a schema in a header needs:"
                " it is older than GUIDs. Leave schema_id_in out."
            )
        return encode_name(SchemaName(found.guid, indexes))


def registration(
    registry: SchemaRegistryClient,
    schema: Schema | None,
    *,
    subject_name_strategy: SubjectNameStrategy | str | OwnStrategy,
    auto_register_schemas: bool | None,
    normalize_schemas: bool,
    use_latest_version: bool,
    schema_id_in: Literal["prefix", "header"],
    needs_schema: bool = True,
) -> Registration:
    """Return the checked options of a serializer. Raises ConfigError."""
    check_registry(registry)
    if auto_register_schemas and use_latest_version:
        raise ConfigError("auto_register_schemas and use_latest_version exclude each other: leave one of them out.")
    if needs_schema and schema is None and not use_latest_version:
        raise ConfigError("schema is missing: give one, or set use_latest_version.")
    if schema_id_in not in ("prefix", "header"):
        raise ConfigError(f"schema_id_in is {schema_id_in!r}, but must be 'prefix' or 'header'.")
    return Registration(
        registry,
        subject_rule(subject_name_strategy),
        not use_latest_version if auto_register_schemas is None else auto_register_schemas,
        normalize_schemas,
        use_latest_version,
        schema_id_in == "header",
    )


def check_registry(registry: object) -> None:
    """Raise ConfigError for anything but a client of a registry."""
    if not isinstance(registry, SchemaRegistryClient):
        raise ConfigError(f"registry is {registry!r}, but must be a SchemaRegistryClient.")


@dataclass(frozen=True, slots=True)
class Encoder:
    """Function that encodes data with one schema, and the bytes that name the schema."""

    name: bytes
    encode: Callable[[Any], bytes]


class Known(Generic[_T]):
    """Loaded values, each for a limited time."""

    def __init__(self, ttl_s: float | None) -> None:
        self._ttl_s = ttl_s
        self._found: dict[Hashable, tuple[_T, float]] = {}

    def get(self, key: Hashable, load: Callable[[], _T]) -> _T:
        """Return the value. Raises LoadRequired, whose `load` stores it."""
        found = self._found.get(key)
        if found is None or (self._ttl_s is not None and found[1] <= time.monotonic()):
            raise LoadRequired(lambda: self._load(key, load))
        return found[0]

    def _load(self, key: Hashable, load: Callable[[], _T]) -> None:
        self._found[key] = load(), time.monotonic() + (self._ttl_s or 0.0)


class PartSerializer:
    """Serializer of keys or of values, for a producer. It raises LoadRequired for an unknown schema."""

    def __init__(
        self,
        part: Part,
        options: Registration,
        encoder: Callable[[str, Part, Any], Encoder],
        variant: Callable[[Any], Hashable],
    ) -> None:
        self._part: Part = part
        self._in_header = options.schema_id_in_header
        self._encoder = encoder
        self._variant = variant
        self._known: Known[Encoder] = Known(options.registry.latest_ttl_s if options.use_latest_version else None)

    def serialize(self, topic: str, headers: list[Header], data: Any) -> bytes | None:
        """Return the bytes for the data. Null stays None. Raises LoadRequired or SchemaMismatchError."""
        if data is None:
            return None
        key = topic, self._variant(data)
        made = self._known.get(key, lambda: self._encoder(topic, self._part, data))
        payload = made.encode(data)
        if headers:
            without_name(self._part, headers)
        if self._in_header:
            headers.append((HEADER_NAMES[self._part], made.name))
            return payload
        return made.name + payload


class SchemaSerializer:
    """Serializer that names the schema of the data in each record."""

    def __init__(self, options: Registration) -> None:
        self._options = options
        self._direct: dict[Part, PartSerializer] = {}

    def for_part(self, part: Part) -> PartSerializer:
        """Return the serializer of keys or of values. A producer calls it."""
        return PartSerializer(part, self._options, self._encoder, self._variant)

    def serialize(self, topic: str, headers: list[Header], data: Any, *, part: Part = "value") -> bytes | None:
        """Return the bytes for the data, outside of a producer. May block. Null stays None."""
        serializer = self._direct.setdefault(part, self.for_part(part))
        return loading(lambda: serializer.serialize(topic, headers, data))

    def _variant(self, data: Any) -> Hashable:
        """Return what the schema depends on, besides the topic."""
        return None

    def _encoder(self, topic: str, part: Part, data: Any) -> Encoder:
        """Return the encoder for data like this. May block."""
        raise NotImplementedError


Decoder = Callable[[bytes], Any]


class PartDeserializer:
    """Deserializer of keys or of values, for a consumer. It raises LoadRequired for an unknown schema."""

    def __init__(
        self,
        part: Part,
        decoder: Callable[[SchemaName, str, Part], Decoder],
        *,
        indexed: bool,
        by_topic: bool,
        ttl_s: float | None,
    ) -> None:
        self._part: Part = part
        self._decoder = decoder
        self._indexed = indexed
        self._by_topic = by_topic
        self._known: Known[Decoder] = Known(ttl_s)

    def deserialize(self, topic: str, headers: Sequence[Header], data: bytes | None) -> Any:
        """Return the data. Null stays None. Raises LoadRequired or SchemaMismatchError."""
        if data is None:
            return None
        name, start = split(self._part, headers, data, indexed=self._indexed)
        key = (name, topic) if self._by_topic else name
        return self._known.get(key, lambda: self._decoder(name, topic, self._part))(data[start:])


class SchemaDeserializer:
    """Deserializer that finds the schema of each record by its ID or GUID."""

    _indexed = False
    """Whether the indexes of a message follow the name of a schema."""

    def __init__(
        self,
        registry: SchemaRegistryClient,
        *,
        use_latest_version: bool = False,
        subject_name_strategy: SubjectNameStrategy | str | OwnStrategy = SubjectNameStrategy.TOPIC,
    ) -> None:
        check_registry(registry)
        self._registry = registry
        self._use_latest_version = use_latest_version
        self._subject_of = subject_rule(subject_name_strategy)
        self._direct: dict[Part, PartDeserializer] = {}

    def for_part(self, part: Part) -> PartDeserializer:
        """Return the deserializer of keys or of values. A consumer calls it."""
        return PartDeserializer(
            part,
            self._decoder,
            indexed=self._indexed,
            by_topic=self._use_latest_version,
            ttl_s=self._registry.latest_ttl_s if self._use_latest_version else None,
        )

    def deserialize(self, topic: str, headers: Sequence[Header], data: bytes | None, *, part: Part = "value") -> Any:
        """Return the data, outside of a consumer. May block. Null stays None."""
        deserializer = self._direct.setdefault(part, self.for_part(part))
        return loading(lambda: deserializer.deserialize(topic, headers, data))

    def _named(self, name: SchemaName, type: SchemaType, format: str | None = None) -> Schema:
        """Return the schema that a record names. Blocks. Raises SchemaMismatchError if it is of another type."""
        if isinstance(name.id, int):
            found = self._registry.get_schema(name.id, format=format)
        else:
            found = self._registry.get_schema_by_guid(name.id, format=format)
        if found.type is not type:
            raise SchemaMismatchError(f"the schema with {name} is of type {found.type}, not {type}.")
        return found

    def _latest(self, topic: str, part: Part, record_name: str | None) -> Schema | None:
        """Return the schema to read with instead of the writer's, if there is one. Blocks."""
        if not self._use_latest_version:
            return None
        return self._registry.get_latest_version(self._subject_of(topic, part, record_name)).schema

    def _decoder(self, name: SchemaName, topic: str, part: Part) -> Decoder:
        """Return the decoder for data of the named schema. May block."""
        raise NotImplementedError


def loading(convert: Callable[[], _T]) -> _T:
    """Return the result of a conversion, after the loads that it needs."""
    while True:
        try:
            return convert()
        except LoadRequired as needed:
            needed.load()
