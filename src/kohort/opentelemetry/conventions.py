"""Names and values of OpenTelemetry's conventions for Kafka, version 1.44.

https://opentelemetry.io/docs/specs/semconv/messaging/kafka
"""

from collections.abc import Sequence
from typing import Any

from kohort.client import KafkaError
from kohort.opentelemetry.api import Span, Status, StatusCode, Tracer, TracerProvider, trace

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
TOPIC = "messaging.destination.name"
PARTITION = "messaging.destination.partition.id"
GROUP = "messaging.consumer.group.name"
CLIENT_ID = "messaging.client.id"
MESSAGE_COUNT = "messaging.batch.message_count"
KEY = "messaging.kafka.message.key"
OFFSET = "messaging.kafka.offset"
TOMBSTONE = "messaging.kafka.message.tombstone"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"
ERROR_TYPE = "error.type"

Attributes = dict[str, str | int | bool]

_MOST_CHARACTERS = 256


def tracer_of(provider: TracerProvider | None) -> Tracer:
    """Return the tracer of this package; of the global provider if none is given."""
    return trace.get_tracer("kohort.opentelemetry", tracer_provider=provider, schema_url=SCHEMA_URL)


def client_attributes(client_id: str, bootstrap_servers: object, group_id: str | None = None) -> Attributes:
    """Return the attributes of all spans of a client. The server is the first of bootstrap_servers."""
    attributes: Attributes = {SYSTEM: "kafka", CLIENT_ID: client_id}
    if group_id:
        attributes[GROUP] = group_id
    servers = bootstrap_servers.split(",") if isinstance(bootstrap_servers, str) else bootstrap_servers
    first = str(servers[0]).strip() if isinstance(servers, Sequence) and servers else ""
    host, separator, port = first.rpartition(":")
    if separator and port.isdecimal():
        attributes |= {SERVER_ADDRESS: host.strip("[]"), SERVER_PORT: int(port)}
    elif first:
        attributes[SERVER_ADDRESS] = first
    return attributes


def operation(name: str, kind: str, topics: set[str]) -> tuple[str, Attributes]:
    """Return the name of a span, and the attributes of its operation. Several topics are in neither."""
    attributes: Attributes = {OPERATION_NAME: name, OPERATION_TYPE: kind}
    if len(topics) != 1:
        return name, attributes
    (topic,) = topics
    return f"{name} {topic}", attributes | {TOPIC: topic}


def message_attributes(key: Any, value: Any) -> Attributes:
    """Return the attributes of one message. A key is left out if it is not short text."""
    attributes: Attributes = {TOMBSTONE: True} if value is None else {}
    if isinstance(key, bytes | bytearray | memoryview):
        try:
            key = bytes(key[: _MOST_CHARACTERS + 1]).decode()
        except UnicodeDecodeError:
            return attributes
    if isinstance(key, int) and not isinstance(key, bool):
        key = str(key)
    if isinstance(key, str) and len(key) <= _MOST_CHARACTERS:
        attributes[KEY] = key
    return attributes


def fail(span: Span, error: BaseException) -> None:
    """Mark a span as failed."""
    kind = error.code.name if isinstance(error, KafkaError) else type(error).__qualname__
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR, str(error)[:_MOST_CHARACTERS]))
