"""Schemas as a registry stores them, and the errors of a registry and of data."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Self
from uuid import UUID

from kohort.errors import KohortError


class SchemaType(StrEnum):
    """Kind of a schema, with the registry's name."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """Name by which a schema uses another one, and where the registry has that one."""

    name: str
    """Full name of an Avro type, the URI in a JSON Schema's `$ref`, or the path in a Protobuf import."""
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """Text of a schema, and the schemas that it refers to."""

    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[SchemaReference, ...] = ()

    def to_request(self) -> dict[str, Any]:
        """Return the schema as the body of a request to the registry."""
        references = [{"name": one.name, "subject": one.subject, "version": one.version} for one in self.references]
        return {
            "schema": self.text,
            "schemaType": self.type.value,
            **({"references": references} if references else {}),
        }


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """Schema in a registry. A registry that does not report one of the fields leaves it None."""

    schema: Schema
    id: int | None = None
    guid: UUID | None = None
    subject: str | None = None
    version: int | None = None

    @classmethod
    def of_response(cls, answer: Any) -> Self:
        """Return the schema in a registry's response. Raises ValueError, TypeError or KeyError if there is none."""
        references = tuple(
            SchemaReference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in answer.get("references") or ()
        )
        # A registry omits the type of Avro schemas.
        schema = Schema(str(answer["schema"]), SchemaType(answer.get("schemaType") or "AVRO"), references)
        return cls(schema, answer.get("id"), _guid(answer), answer.get("subject"), answer.get("version"))

    def completed(self, answer: Any, subject: str) -> Self:
        """Return this schema with the fields of a response that may lack the schema itself."""
        return replace(
            self,
            id=answer.get("id", self.id),
            guid=_guid(answer) or self.guid,
            subject=answer.get("subject") or subject,
            version=answer.get("version", self.version),
        )


def _guid(answer: Any) -> UUID | None:
    text = answer.get("guid")
    return UUID(text) if text else None


def schema_of(
    given: str | dict[str, Any] | list[Any] | Schema, type: SchemaType, references: Sequence[SchemaReference] = ()
) -> Schema:
    """Return a schema of this type from its text or from parsed JSON."""
    if isinstance(given, Schema):
        return replace(given, type=type, references=given.references or tuple(references))
    return Schema(given if isinstance(given, str) else json.dumps(given), type, tuple(references))


class SchemaRegistryError(KohortError):
    """Rejection by a schema registry, or no response of one.

    `status` is the HTTP status, and `code` the registry's own number, such as 40403 for a schema
    that the subject does not have. Both are None if no registry responded.
    """

    def __init__(
        self, detail: str, status: int | None = None, code: int | None = None, *, retriable: bool = False
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self._retriable = retriable or status in RETRIABLE_STATUS

    @property
    def retriable(self) -> bool:
        """Whether the registry did not respond, or reported a failure of its own."""
        return self._retriable


RETRIABLE_STATUS = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses after which a request is repeated."""


class SchemaMismatchError(KohortError, ValueError):
    """Data that does not match its schema, or that names no schema."""
