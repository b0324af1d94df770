"""Requests to a schema registry over HTTP, with authentication, TLS and retries. They block."""

import json
import logging
import random
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from kohort.errors import ConfigError
from kohort.pem import check_pem_file, pem_problem
from kohort.schema_registry.schemas import SchemaRegistryError
from kohort.security import Secret

_log = logging.getLogger("kohort.schema_registry")
_LONGEST_ANSWER = 64 << 20
"""Maximum size of a response in bytes."""
_JSON = "application/vnd.schemaregistry.v1+json"
TokenSource = str | Secret | Callable[[], str]


@dataclass(frozen=True, slots=True)
class Retries:
    """Number of repetitions after the first attempt, and the time to wait before the first and before any."""

    most: int
    wait_ms: float
    most_wait_ms: float

    def wait_s(self, number: int) -> float:
        """Return the time to wait before a repetition: random, so that clients do not repeat together."""
        limit_ms = min(self.most_wait_ms, self.wait_ms * 2**number)
        return random.uniform(limit_ms / 2, limit_ms) / 1000


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password, or a bearer token with the names that Confluent Cloud needs."""

    user_info: Secret | None
    bearer_token: TokenSource | None
    logical_cluster: str | None
    identity_pool_id: str | None

    def headers(self) -> dict[str, str]:
        """Return the headers that authenticate a request. A function that returns tokens is called now."""
        if self.bearer_token is None:
            if self.user_info is None:
                return {}
            return {"Authorization": f"Basic {b64encode(self.user_info.reveal_bytes()).decode()}"}
        token = self.bearer_token() if callable(self.bearer_token) else self.bearer_token
        made = {"Authorization": f"Bearer {token.reveal() if isinstance(token, Secret) else token}"}
        if self.logical_cluster is not None:
            made["target-sr-cluster"] = self.logical_cluster
        if self.identity_pool_id is not None:
            made["Confluent-Identity-Pool-Id"] = self.identity_pool_id
        return made


class RegistryConnection:
    """Sender of requests to one of several addresses of a registry. Any thread may use it."""

    def __init__(
        self,
        addresses: list[str],
        credentials: Credentials,
        context: ssl.SSLContext | None,
        timeout_s: float,
        retries: Retries,
    ) -> None:
        self._addresses = addresses
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._retries = retries
        handlers = [] if context is None else [HTTPSHandler(context=context)]
        self._opener = build_opener(_NoRedirects, *handlers)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the parsed JSON of the response. Raises SchemaRegistryError."""
        problems: list[SchemaRegistryError] = []
        for number in range(self._retries.most + 1):
            if number:
                time.sleep(self._retries.wait_s(number - 1))
            for address in self._addresses:
                try:
                    return self._once(address, method, path, body)
                except SchemaRegistryError as failed:
                    if not failed.retriable:
                        raise
                    problems.append(failed)
                    _log.info("%s", failed)
        raise problems[-1]

    def _once(self, address: str, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        headers = {"Accept": f"{_JSON}, application/json", **self._credentials.headers()}
        if body is not None:
            headers["Content-Type"] = _JSON
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{address}/{path}", data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                answer = response.read(_LONGEST_ANSWER + 1)
        except HTTPError as refused:
            with refused:
                raise _rejection(address, method, path, refused.code, refused.read(100_000)) from None
        except (URLError, OSError, HTTPException) as problem:
            reason = getattr(problem, "reason", None) or problem
            if isinstance(reason, ssl.SSLCertVerificationError):
                detail = f"the certificate of the schema registry {address} is not valid ({reason.verify_message})"
                raise SchemaRegistryError(f"{detail}: set ssl_ca_location to its authority.") from None
            text = str(reason) or type(reason).__name__
            raise SchemaRegistryError(
                f"the schema registry {address} does not respond: {text}.", retriable=True
            ) from None
        try:
            if len(answer) > _LONGEST_ANSWER:
                raise ValueError
            return json.loads(answer) if answer else None
        except (ValueError, RecursionError):
            detail = f"{address} did not answer {method} {path} with JSON: it may not be a schema registry."
            raise SchemaRegistryError(detail) from None


def _rejection(address: str, method: str, path: str, status: int, body: bytes) -> SchemaRegistryError:
    try:
        answer = json.loads(body)
        code, text = int(answer["error_code"]), str(answer["message"])
    except (ValueError, TypeError, KeyError, RecursionError):
        code, text = None, body[:200].decode("utf-8", "replace").strip()
    advice = ": check basic_auth_user_info or bearer_auth_token" if status in (401, 403) else ""
    detail = f"the schema registry {address} answered {method} {path} with {code or status} ({text}){advice}."
    return SchemaRegistryError(detail, status, code)


class _NoRedirects(HTTPRedirectHandler):
    """A redirect would send the client's secret to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


def addresses_of(url: str) -> tuple[list[str], Secret | None]:
    """Return the addresses in a comma-separated list, and the user and password in the first. Raises ConfigError."""
    addresses, user_info = [], None
    if not isinstance(url, str):
        raise ConfigError(f"url is {url!r}, but must be an address such as http://localhost:8081.")
    for one in url.split(","):
        parts = urlsplit(one.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"url is {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()!r}, but must be an"
                " address such as http://localhost:8081 or https://localhost:8081, or several, separated by commas."
            )
        if user_info is None and parts.username is not None:
            user_info = Secret(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
        place = parts.netloc.rpartition("@")[2]
        addresses.append(urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")))
    return addresses, user_info


def tls_context(
    ca_location: str | None, certificate_location: str | None, key_location: str | None, key_password: Secret | None
) -> ssl.SSLContext | None:
    """Return the context for these files; None for the default one. Raises ConfigError."""
    if certificate_location is None and (key_location is not None or key_password is not None):
        raise ConfigError("ssl_key_location and ssl_key_password need ssl_certificate_location, which is missing.")
    if ca_location is None and certificate_location is None:
        return None
    context = ssl.create_default_context()
    if ca_location is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if Path(ca_location).is_dir():
                context.load_verify_locations(capath=ca_location)
            else:
                check_pem_file("ssl_ca_location", ca_location)
                context.load_verify_locations(ca_location)
        except (ssl.SSLError, ValueError) as problem:
            raise ConfigError(
                f"ssl_ca_location {ca_location} has no readable certificates: {pem_problem(problem)}."
            ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate_location is not None:
        check_pem_file("ssl_certificate_location", certificate_location)
        if key_location is not None:
            check_pem_file("ssl_key_location", key_location)
        password = b"" if key_password is None else key_password.reveal_bytes()
        try:
            context.load_cert_chain(certificate_location, key_location, lambda: password)
        except (ssl.SSLError, ValueError) as problem:
            raise ConfigError(
                "the certificate and the private key of this client cannot be loaded (ssl_certificate_location,"
                f" ssl_key_location, ssl_key_password): {pem_problem(problem)}."
            ) from None
    return context
