"""Protobuf with a schema registry, by Google's protobuf."""

from base64 import b64decode, b64encode
from collections.abc import Hashable
from importlib import import_module
from typing import Any, Literal

from kohort.errors import ConfigError, install_extra
from kohort.loading import Part
from kohort.schema_registry.client import SchemaRegistryClient
from kohort.schema_registry.conversion import (
    Decoder,
    Encoder,
    Registration,
    SchemaDeserializer,
    SchemaSerializer,
    registration,
)
from kohort.schema_registry.schemas import Schema, SchemaMismatchError, SchemaReference, SchemaType
from kohort.schema_registry.subjects import OwnStrategy, SubjectNameStrategy
from kohort.schema_registry.wire_format import SchemaName

try:
    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError, EncodeError, Message
    from google.protobuf.message_factory import GetMessageClass
except ImportError:
    raise ConfigError(f"Protobuf needs protobuf: {install_extra('protobuf')}.") from None

_KNOWN_PACKAGES = ("google/protobuf/", "google/type/", "confluent/")
"""Files that every reader has, which are not registered."""


class ProtobufSerializer(SchemaSerializer):
    """Serializer of Protobuf messages, of any classes that protoc made.

    Pass it as key_serializer or value_serializer. It registers the file of the message's class, and
    the files that it imports under their names. The other options are those of AvroSerializer.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient,
        *,
        subject_name_strategy: SubjectNameStrategy | str | OwnStrategy = SubjectNameStrategy.TOPIC,
        auto_register_schemas: bool | None = None,
        normalize_schemas: bool = False,
        use_latest_version: bool = False,
        schema_id_in: Literal["prefix", "header"] = "prefix",
    ) -> None:
        super().__init__(
            registration(
                registry,
                None,
                subject_name_strategy=subject_name_strategy,
                auto_register_schemas=auto_register_schemas,
                normalize_schemas=normalize_schemas,
                use_latest_version=use_latest_version,
                schema_id_in=schema_id_in,
                needs_schema=False,
            )
        )

    def _variant(self, data: Any) -> Hashable:
        if not isinstance(data, Message):
            raise SchemaMismatchError(f"the data is of type {type(data).__name__}, but must be a Protobuf message.")
        kind: Hashable = data.DESCRIPTOR
        return kind

    def _encoder(self, topic: str, part: Part, data: Message) -> Encoder:
        kind = data.DESCRIPTOR
        schema = None if self._options.use_latest_version else _schema_of(kind.file, self._options, {})
        found = self._options.of(topic, part, kind.full_name, schema)

        def encode(data: Message) -> bytes:
            try:
                return bytes(data.SerializeToString())
            except EncodeError as problem:
                raise SchemaMismatchError(f"the {part} is not a complete {kind.full_name}: {problem}.") from problem

        return Encoder(self._options.prefix(found, _indexes(kind)), encode)


class ProtobufDeserializer(SchemaDeserializer):
    """Deserializer of Protobuf messages that a serializer with a schema registry wrote, in any language.

    Pass it as key_deserializer or value_deserializer. `message_type` is the class, made by protoc,
    of the messages to return. Without it, the class is made from the schema in the registry. If the
    registry returns that schema as a descriptor, data of another message type is rejected.
    """

    _indexed = True

    def __init__(self, registry: SchemaRegistryClient, message_type: type[Message] | None = None) -> None:
        super().__init__(registry)
        if message_type is not None and not (isinstance(message_type, type) and issubclass(message_type, Message)):
            raise ConfigError(f"message_type is {message_type!r}, but must be a class of Protobuf messages.")
        self._message_type = message_type

    def _decoder(self, name: SchemaName, topic: str, part: Part) -> Decoder:
        wanted = self._message_type
        schema = self._named(name, SchemaType.PROTOBUF, "serialized")
        written = _message(schema, name, self._registry)
        if wanted is None:
            if written is None:
                raise SchemaMismatchError(
                    f"the schema registry has no descriptor for the Protobuf schema with {name}: set message_type to"
                    " the class of the messages."
                )
            wanted = GetMessageClass(written)
        elif written is not None and written.full_name != wanted.DESCRIPTOR.full_name:
            raise SchemaMismatchError(
                f"the {part} is a {written.full_name} ({name}), but message_type is {wanted.DESCRIPTOR.full_name}."
            )
        kind = wanted

        def decode(data: bytes) -> Message:
            try:
                return kind.FromString(data)
            except DecodeError as problem:
                raise SchemaMismatchError(f"the {part} is no {kind.DESCRIPTOR.full_name} ({name}): {problem}.") from (
                    problem
                )

        return decode


def _schema_of(file: FileDescriptor, options: Registration, seen: dict[str, SchemaReference]) -> Schema:
    """Return the file's schema, with references to the files that it imports. Blocks: it registers those."""
    references = []
    for imported in file.dependencies:
        if imported.name.startswith(_KNOWN_PACKAGES):
            continue
        if imported.name not in seen:
            schema = _schema_of(imported, options, seen)
            registry, normalize = options.registry, options.normalize_schemas
            if options.auto_register_schemas:
                registry.register_schema(imported.name, schema, normalize_schemas=normalize)
            found = registry.lookup_schema(imported.name, schema, normalize_schemas=normalize)
            if found.version is None:
                raise SchemaMismatchError(f"the schema registry reports no version for subject {imported.name}.")
            seen[imported.name] = SchemaReference(imported.name, imported.name, found.version)
        references.append(seen[imported.name])
    return Schema(b64encode(file.serialized_pb).decode(), SchemaType.PROTOBUF, tuple(references))


def _indexes(kind: Descriptor) -> tuple[int, ...]:
    """Return the place of the message in its file: the index of the outermost message first."""
    if kind.containing_type is None:
        return (list(kind.file.message_types_by_name).index(kind.name),)
    siblings = [one.full_name for one in kind.containing_type.nested_types]
    return (*_indexes(kind.containing_type), siblings.index(kind.full_name))


def _message(schema: Schema, name: SchemaName, registry: SchemaRegistryClient) -> Descriptor | None:
    """Return the message that a record names; None if the registry returns no descriptors. Blocks."""
    file = _file(schema, f"schema-{name.id}.proto")
    if file is None:
        return None
    pool = descriptor_pool.DescriptorPool()
    if not _add_imports(schema, file, registry, pool, set()):
        return None
    try:
        pool.Add(file)
        found = list(pool.FindFileByName(file.name).message_types_by_name.values())
        kind = found[name.indexes[0]]
        for index in name.indexes[1:]:
            kind = kind.nested_types[index]
    except IndexError:
        listed = ", ".join(map(str, name.indexes))
        raise SchemaMismatchError(f"the Protobuf schema with {name} has no message at {listed}.") from None
    except (TypeError, KeyError, ValueError) as problem:
        raise SchemaMismatchError(f"the Protobuf schema with {name} is not valid: {problem}.") from problem
    return kind


def _file(schema: Schema, name: str) -> FileDescriptorProto | None:
    """Return the descriptor in a schema's text; None if that is the source of a .proto file."""
    try:
        file = FileDescriptorProto.FromString(b64decode(schema.text, validate=True))
    except (ValueError, DecodeError):
        return None
    file.name = name
    return file


def _add_imports(
    schema: Schema,
    file: FileDescriptorProto,
    registry: SchemaRegistryClient,
    pool: descriptor_pool.DescriptorPool,
    seen: set[str],
) -> bool:
    """Add the files that this one imports. Return whether the registry returns them as descriptors. Blocks."""
    referenced = {one.name: one for one in schema.references}
    for path in file.dependency:
        if path in seen:
            continue
        seen.add(path)
        if path in referenced:
            at = referenced[path]
            inner_schema = registry.get_version(at.subject, at.version, format="serialized").schema
            inner = _file(inner_schema, path)
            if inner is None or not _add_imports(inner_schema, inner, registry, pool, seen):
                return False
            pool.Add(inner)
        else:
            known = _known_file(path)
            if not _add_imports(Schema("", SchemaType.PROTOBUF), known, registry, pool, seen):
                return False
            pool.Add(known)
    return True


def _known_file(path: str) -> FileDescriptorProto:
    """Return a file that is part of Protobuf's packages. Raises SchemaMismatchError."""
    file = FileDescriptorProto()
    if path.startswith(_KNOWN_PACKAGES):
        module = path.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            import_module(module)
            descriptor_pool.Default().FindFileByName(path).CopyToProto(file)
        except (ImportError, KeyError):
            pass
        else:
            return file
    raise SchemaMismatchError(
        f"the Protobuf schema imports {path}, which is neither one of its references nor installed here."
    )
