"""A schema registry for tests: the part of Confluent's REST interface that serializers use, in memory.

confluent-kafka's own client and serializers work with it, which the tests show.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

NOT_FOUND = {"schema": 40403, "subject": 40401, "version": 40402}


class Refused(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass
class Hold:
    """Requests wait for `released`, and set `arrived`."""

    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)


@dataclass
class Registry:
    """Schemas by ID, and the IDs of each subject's versions."""

    guids: bool = True
    """Whether responses have GUIDs. Registries before Confluent's 8.0 have none."""
    credentials: str | None = None
    """The header Authorization that requests must have."""
    failing: int = 0
    """Number of requests to answer with status 503."""
    hold: Hold | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of each request."""
    schemas: list[str] = field(default_factory=list)
    """Canonical body of the schema with ID 1, 2, ..."""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        match [unquote(step) for step in parts.path.strip("/").split("/")]:
            case ["subjects"]:
                return sorted(self.subjects)
            case ["subjects", subject, "versions"] if method == "POST":
                assert body is not None
                return self._registered(subject, self._add(subject, body))
            case ["subjects", subject] if method == "POST":
                assert body is not None
                schema_id = self._find(canonical(body))
                if subject not in self.subjects:
                    raise Refused(404, NOT_FOUND["subject"], f"Subject '{subject}' not found.")
                if schema_id not in self.subjects[subject]:
                    raise Refused(404, NOT_FOUND["schema"], "Schema not found")
                return self._registered(subject, schema_id)
            case ["subjects", subject, "versions", version]:
                ids = self.subjects.get(subject)
                if ids is None:
                    raise Refused(404, NOT_FOUND["subject"], f"Subject '{subject}' not found.")
                number = len(ids) if version == "latest" else int(version)
                if not 1 <= number <= len(ids):
                    raise Refused(404, NOT_FOUND["version"], f"Version {number} not found.")
                return self._registered(subject, ids[number - 1])
            case ["schemas", "ids", number]:
                return self._schema(int(number), query)
            case ["schemas", "guids", guid]:
                numbers = [number for number in range(1, len(self.schemas) + 1) if self.guid(number) == guid]
                return self._schema(numbers[0] if numbers and self.guids else 0, query)
            case ["compatibility", "subjects", _, "versions", _]:
                return {"is_compatible": True}
        raise Refused(404, 404, "HTTP 404 Not Found")

    def guid(self, number: int) -> str:
        return str(UUID(bytes=hashlib.md5(self.schemas[number - 1].encode()).digest()))

    def _find(self, schema: str) -> int:
        return self.schemas.index(schema) + 1 if schema in self.schemas else 0

    def _add(self, subject: str, body: dict[str, Any]) -> int:
        schema = canonical(body)
        if not self._find(schema):
            self.schemas.append(schema)
        number = self._find(schema)
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def _registered(self, subject: str, number: int) -> dict[str, Any]:
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "version": version, "id": number, **self._schema(number, {})}

    def _schema(self, number: int, query: dict[str, str]) -> dict[str, Any]:
        if not 1 <= number <= len(self.schemas):
            raise Refused(404, NOT_FOUND["schema"], "Schema not found")
        found = json.loads(self.schemas[number - 1])
        if self.guids:
            found["guid"] = self.guid(number)
        if found["schemaType"] == "AVRO":
            del found["schemaType"]  # as Confluent's registry does
        return dict(found)


def canonical(body: dict[str, Any]) -> str:
    kept = {
        "schema": body["schema"],
        "schemaType": body.get("schemaType") or "AVRO",
        "references": body.get("references") or [],
    }
    return json.dumps(kept, sort_keys=True)


class Handler(BaseHTTPRequestHandler):
    registry: ClassVar[Registry]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._respond(None)

    def do_POST(self) -> None:
        self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _respond(self, body: dict[str, Any] | None) -> None:
        registry = self.registry
        registry.requests.append((self.command, self.path))
        if registry.hold is not None:
            registry.hold.arrived.set()
            registry.hold.released.wait(30)
        try:
            if registry.failing:
                registry.failing -= 1
                raise Refused(503, 50301, "Leader not known")
            if registry.credentials not in (None, self.headers["Authorization"]):
                raise Refused(401, 401, "Unauthorized")
            with registry.lock:
                status, answer = 200, registry.answer(self.command, self.path, body)
        except Refused as refused:
            status, answer = refused.status, {"error_code": refused.code, "message": str(refused)}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@dataclass
class Served:
    url: str
    registry: Registry


@contextmanager
def serve(registry: Registry, context: ssl.SSLContext | None = None) -> Iterator[Served]:
    """Run the registry at a free port of this machine."""
    handler = type("OwnHandler", (Handler,), {"registry": registry})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        scheme = "http" if context is None else "https"
        yield Served(f"{scheme}://127.0.0.1:{server.server_address[1]}", registry)
    finally:
        if registry.hold is not None:
            registry.hold.released.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


def basic(user_info: str) -> str:
    return f"Basic {b64encode(user_info.encode()).decode()}"
