"""Client of a schema registry, with a cache."""

import threading
import time
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import signature
from typing import Any, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

from kohort.errors import ConfigError
from kohort.schema_registry.http import (
    Credentials,
    RegistryConnection,
    Retries,
    TokenSource,
    addresses_of,
    tls_context,
)
from kohort.schema_registry.schemas import RegisteredSchema, Schema, SchemaRegistryError
from kohort.security import Secret

_K = TypeVar("_K")
_V = TypeVar("_V")


class SchemaRegistryClient:
    """Client of a schema registry with Confluent's REST interface. Any thread may use it.

    Its methods block. Serializers and deserializers call them outside of the event loop. What a
    registry never changes is requested once: schemas by ID, GUID or version, and registrations.

    `url` may list several addresses of one registry, separated by commas. `basic_auth_user_info` is
    `user:password`, which the URL may contain instead. `bearer_auth_token` is a token or a function
    that returns the current one, which is called for each request. The options have
    confluent-kafka's names in snake case; `from_config` takes them with dots.

    Requests that fail because the registry does not respond are repeated `max_retries` times.
    `timeout` (seconds) limits each. The latest version of a subject is requested again after
    `cache_latest_ttl_sec` seconds, at least 1 (default: never).
    """

    def __init__(
        self,
        url: str,
        *,
        basic_auth_user_info: str | Secret | None = None,
        bearer_auth_credentials_source: str | None = None,
        bearer_auth_token: TokenSource | None = None,
        bearer_auth_logical_cluster: str | None = None,
        bearer_auth_identity_pool_id: str | None = None,
        ssl_ca_location: str | None = None,
        ssl_certificate_location: str | None = None,
        ssl_key_location: str | None = None,
        ssl_key_password: str | Secret | None = None,
        timeout: float = 10.0,
        max_retries: int = 3,
        retries_wait_ms: float = 1_000,
        retries_max_wait_ms: float = 20_000,
        cache_latest_ttl_sec: float | None = None,
    ) -> None:
        addresses, of_url = addresses_of(url)
        given = _secret(basic_auth_user_info)
        if given is not None and of_url is not None:
            raise ConfigError("basic_auth_user_info is set, but the url contains a user, too: leave one of them out.")
        user_info = given or of_url
        if user_info is not None and bearer_auth_token is not None:
            raise ConfigError("basic_auth_user_info and bearer_auth_token exclude each other: leave one of them out.")
        if user_info is not None and ":" not in user_info.reveal():
            raise ConfigError("basic_auth_user_info must be user:password.")
        if bearer_auth_credentials_source not in (None, "STATIC_TOKEN"):
            raise ConfigError(
                f"bearer_auth_credentials_source is {bearer_auth_credentials_source!r}, but must be STATIC_TOKEN: for"
                " tokens of another source, set bearer_auth_token to a function that returns the current one."
            )
        token = Secret(bearer_auth_token) if isinstance(bearer_auth_token, str) else bearer_auth_token
        numbers = {
            "timeout": timeout,
            "max_retries": max_retries,
            "retries_wait_ms": retries_wait_ms,
            "retries_max_wait_ms": retries_max_wait_ms,
        }
        for name, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int | float) or number < 0:
                raise ConfigError(f"{name} is {number!r}, but must be a number of at least 0.")
        self._connection = RegistryConnection(
            addresses,
            Credentials(user_info, token, bearer_auth_logical_cluster, bearer_auth_identity_pool_id),
            tls_context(ssl_ca_location, ssl_certificate_location, ssl_key_location, _secret(ssl_key_password)),
            timeout or 10.0,
            Retries(int(max_retries), retries_wait_ms, retries_max_wait_ms),
        )
        self.latest_ttl_s = None if cache_latest_ttl_sec is None else max(1.0, cache_latest_ttl_sec)
        """Time for which the latest version of a subject is kept, in seconds; None keeps it."""
        self._lock = threading.Lock()
        """Held during a request, so that threads which need the same schema request it once."""
        self._registered: dict[tuple[str, Schema, bool, bool], RegisteredSchema] = {}
        self._schemas: dict[tuple[int | UUID, str | None], RegisteredSchema] = {}
        self._versions: dict[tuple[str, int, str | None], RegisteredSchema] = {}
        self._latest: dict[str, tuple[RegisteredSchema, float]] = {}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Return a client from options with confluent-kafka's names, such as `basic.auth.user.info`."""
        known = [name for name in signature(cls.__init__).parameters if name != "self"]
        options = {name.replace(".", "_"): value for name, value in config.items()}
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]}?" if near else f"the options are {', '.join(sorted(known))}."
                raise ConfigError(f"There is no option {name}: {hint}")
        if "url" not in options:
            raise ConfigError("url is missing: give the address of the schema registry, such as http://localhost:8081.")
        return cls(**options)

    def register_schema(self, subject: str, schema: Schema, *, normalize_schemas: bool = False) -> RegisteredSchema:
        """Register the schema as a version of the subject, unless it is one already, and return it."""
        path = f"subjects/{_quoted(subject)}/versions?normalize={_flag(normalize_schemas)}"
        return self._named(subject, schema, path, (subject, schema, normalize_schemas, True))

    def lookup_schema(self, subject: str, schema: Schema, *, normalize_schemas: bool = False) -> RegisteredSchema:
        """Return the subject's version with this schema. Raises SchemaRegistryError if there is none."""
        path = f"subjects/{_quoted(subject)}?normalize={_flag(normalize_schemas)}"
        return self._named(subject, schema, path, (subject, schema, normalize_schemas, False))

    def get_schema(self, schema_id: int, *, format: str | None = None) -> Schema:
        """Return the schema with this ID. The format `serialized` returns a Protobuf file as its descriptor."""
        return self._kept(
            self._schemas, (schema_id, format), lambda: self._get(f"schemas/ids/{schema_id}", format)
        ).schema

    def get_schema_by_guid(self, guid: UUID, *, format: str | None = None) -> Schema:
        """Return the schema with this GUID."""
        return self._kept(self._schemas, (guid, format), lambda: self._get(f"schemas/guids/{guid}", format)).schema

    def get_version(self, subject: str, version: int, *, format: str | None = None) -> RegisteredSchema:
        """Return a version of the subject."""
        path = f"subjects/{_quoted(subject)}/versions/{version}"
        return self._kept(self._versions, (subject, version, format), lambda: self._get(path, format))

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """Return the latest version of the subject."""
        with self._lock:
            found, until = self._latest.get(subject, (None, 0.0))
            if found is None or until <= time.monotonic():
                found = self._get(f"subjects/{_quoted(subject)}/versions/latest", None)
                kept_s = float("inf") if self.latest_ttl_s is None else self.latest_ttl_s
                self._latest[subject] = found, time.monotonic() + kept_s
            return found

    def get_subjects(self) -> list[str]:
        """Return the names of all subjects."""
        return [str(name) for name in self._connection.request("GET", "subjects") or ()]

    def test_compatibility(self, subject: str, schema: Schema) -> bool:
        """Return whether the registry would accept the schema as the next version of the subject."""
        path = f"compatibility/subjects/{_quoted(subject)}/versions/latest"
        return bool(_field(self._connection.request("POST", path, schema.to_request()), "is_compatible", path))

    def _named(self, subject: str, schema: Schema, path: str, key: tuple[str, Schema, bool, bool]) -> RegisteredSchema:
        def ask() -> RegisteredSchema:
            answer = self._connection.request("POST", path, schema.to_request())
            _field(answer, "id", path)
            return RegisteredSchema(schema).completed(answer, subject)

        return self._kept(self._registered, key, ask)

    def _kept(self, cache: dict[_K, _V], key: _K, ask: Callable[[], _V]) -> _V:
        if (found := cache.get(key)) is not None:
            return found
        with self._lock:
            if (found := cache.get(key)) is None:
                found = cache[key] = ask()
            return found

    def _get(self, path: str, format: str | None) -> RegisteredSchema:
        answer = self._connection.request("GET", path if format is None else f"{path}?format={format}")
        try:
            return RegisteredSchema.of_response(answer)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise SchemaRegistryError(f"the schema registry answered {path} without a schema.") from None


def _field(answer: Any, name: str, path: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise SchemaRegistryError(f"the schema registry answered {path} without the field {name}.")
    return answer[name]


def _secret(given: str | Secret | None) -> Secret | None:
    return Secret(given) if isinstance(given, str) else given


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _flag(value: bool) -> str:
    return "true" if value else "false"
