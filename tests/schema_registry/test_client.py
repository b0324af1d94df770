"""Requests of the registry's client: addresses, authentication, TLS, retries, the cache, and errors."""

from __future__ import annotations

import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from kohort import ConfigError
from kohort.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError
from kohort.security import Secret
from tests.client.security.authorities import KEY_PASSWORD, certificates
from tests.schema_registry.registry_server import Registry, Served, basic, serve

USER_IN_URL = "http:{slashes}ada:pass%3Aword@{place}"
STRING = Schema('{"type": "string"}')


def test_what_never_changes_is_requested_once(served: Served, registry: SchemaRegistryClient) -> None:
    for _ in range(2):
        found = registry.register_schema("a-value", STRING)
        assert (found.id, found.version, found.subject, found.schema) == (1, 1, "a-value", STRING)
        assert found.guid is not None
        assert registry.get_schema(1) == STRING
        assert registry.get_schema_by_guid(found.guid) == STRING
        assert registry.get_version("a-value", 1).id == 1
        assert registry.get_latest_version("a-value").version == 1
        assert registry.lookup_schema("a-value", STRING).id == 1
    assert [path.partition("?")[0] for _, path in served.registry.requests] == [
        "/subjects/a-value/versions",
        "/schemas/ids/1",
        f"/schemas/guids/{found.guid}",
        "/subjects/a-value/versions/1",
        "/subjects/a-value/versions/latest",
        "/subjects/a-value",
    ]


def test_the_latest_version_is_requested_again_after_its_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("kohort.schema_registry.client.time.monotonic", lambda: now)
    registry = SchemaRegistryClient(served.url, cache_latest_ttl_sec=60)
    other = SchemaRegistryClient(served.url)
    other.register_schema("a", STRING)
    assert registry.get_latest_version("a").version == 1
    other.register_schema("a", Schema('{"type": "long"}'))
    now = 159.0
    assert registry.get_latest_version("a").version == 1
    now = 160.0
    assert registry.get_latest_version("a").version == 2


def test_subjects_may_have_any_name(served: Served, registry: SchemaRegistryClient) -> None:
    registry.register_schema("acme/money.proto", STRING, normalize_schemas=True)
    assert served.registry.requests == [("POST", "/subjects/acme%2Fmoney.proto/versions?normalize=true")]
    assert registry.get_subjects() == ["acme/money.proto"]
    assert registry.test_compatibility("acme/money.proto", STRING)


def test_a_rejection_has_the_registrys_number_and_text(served: Served, registry: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError, match="GET subjects/a/versions/latest with 40401") as refused:
        registry.get_latest_version("a")
    assert (refused.value.status, refused.value.code, refused.value.retriable) == (404, 40401, False)
    assert str(refused.value).endswith("40401 (Subject 'a' not found.).")


def test_failures_of_the_registry_are_repeated(served: Served, registry: SchemaRegistryClient) -> None:
    served.registry.failing = 3
    assert registry.register_schema("a", STRING).id == 1
    assert len(served.registry.requests) == 4
    served.registry.failing = 4
    with pytest.raises(SchemaRegistryError, match="50301") as refused:
        registry.register_schema("b", STRING)
    assert refused.value.retriable and refused.value.status == 503


def test_another_address_takes_over(served: Served) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nothing listens there
        down = f"http://127.0.0.1:{taken.getsockname()[1]}"
        registry = SchemaRegistryClient(f"{down}, {served.url}/", max_retries=0)
        assert registry.register_schema("a", STRING).id == 1
        alone = SchemaRegistryClient(down, max_retries=0)
        with pytest.raises(SchemaRegistryError, match=f"the schema registry {down} does not respond: .*refused") as no:
            alone.get_subjects()
        assert no.value.retriable and no.value.status is None


@pytest.mark.parametrize(
    "options",
    [
        {"basic_auth_user_info": "ada:pass:word"},
        {"basic_auth_user_info": Secret("ada:pass:word")},
        {"url": USER_IN_URL},
        {"bearer_auth_token": "token-1"},
        {"bearer_auth_token": lambda: "token-1"},
        {"bearer_auth_token": Secret("token-1"), "bearer_auth_credentials_source": "STATIC_TOKEN"},
    ],
)
def test_requests_carry_the_credentials(served: Served, options: dict[str, Any]) -> None:
    served.registry.credentials = "Bearer token-1" if "bearer_auth_token" in options else basic("ada:pass:word")
    url = options.get("url", served.url).format(slashes="//", place=served.url.removeprefix("http://"))
    registry = SchemaRegistryClient(**{**options, "url": url})
    assert registry.get_subjects() == []
    served.registry.credentials = "another"
    with pytest.raises(SchemaRegistryError, match=r"401 .*check basic_auth_user_info or bearer_auth_token") as refused:
        registry.get_subjects()
    assert "pass" not in str(refused.value) and not refused.value.retriable


@pytest.mark.parametrize("key", ["client.key", "client.locked.key"])
def test_tls_with_a_certificate_of_the_client(key: str, tmp_path: Path) -> None:
    authority = certificates(tmp_path)
    server_file, client_file = authority.issue("server", "127.0.0.1"), authority.issue("client", "ada@example.com")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.cafile)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(server_file)
    options: dict[str, Any] = {
        "ssl.ca.location": authority.cafile,
        "ssl.certificate.location": str(client_file.with_suffix(".crt")),
        "ssl.key.location": str(tmp_path / key),
    }
    if "locked" in key:
        options["ssl.key.password"] = KEY_PASSWORD
    with serve(Registry(), context) as served:
        assert SchemaRegistryClient.from_config({"url": served.url, **options}).get_subjects() == []
        with pytest.raises(SchemaRegistryError, match=r"is not valid .*: set ssl_ca_location to its authority"):
            SchemaRegistryClient(served.url, max_retries=0).get_subjects()
        with pytest.raises(SchemaRegistryError):
            SchemaRegistryClient(served.url, ssl_ca_location=authority.cafile, max_retries=0).get_subjects()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"url": "localhost:8081"}, "but must be an address such as"),
        ({"url": None}, "url is None, but must be an address"),
        ({}, "url is missing"),
        ({"url": "http://localhost:1", "basic.auth.user": "x"}, "did you mean basic_auth_user_info"),
        ({"url": "http://localhost:1", "basic.auth.user.info": "secret"}, "must be user:password"),
        ({"url": USER_IN_URL, "basic.auth.user.info": "u:p"}, "the url contains a user, too"),
        ({"url": USER_IN_URL, "bearer.auth.token": "t"}, "exclude each other"),
        (
            {"url": "http://localhost:1", "bearer.auth.credentials.source": "OAUTHBEARER"},
            "bearer_auth_token to a function",
        ),
        ({"url": "http://localhost:1", "max.retries": "3"}, "max_retries is '3', but must be a number"),
        ({"url": "https://localhost:1", "ssl.key.location": "x.pem"}, "need ssl_certificate_location"),
        ({"url": "https://localhost:1", "ssl.ca.location": "missing.pem"}, "ssl_ca_location"),
    ],
)
def test_wrong_options_are_a_sentence(options: dict[str, Any], text: str) -> None:
    if options.get("url"):
        options = {**options, "url": options["url"].format(slashes="//", place="localhost:1")}
    with pytest.raises(ConfigError, match=text) as refused:
        SchemaRegistryClient.from_config(options)
    assert "secret" not in str(refused.value) and "pass:word" not in str(refused.value)


def test_something_else_at_the_address_is_a_sentence(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = SchemaRegistryClient(served.url, max_retries=0)
    monkeypatch.setattr(Registry, "answer", lambda *_: {"hello": 1})
    with pytest.raises(SchemaRegistryError, match="without a schema"):
        registry.get_schema(1)
    with pytest.raises(SchemaRegistryError, match="without the field id"):
        registry.register_schema("a", STRING)
    monkeypatch.setattr(json, "dumps", lambda *_, **__: "<html>")
    with pytest.raises(SchemaRegistryError, match="did not answer GET subjects with JSON: it may not be a schema"):
        registry.get_subjects()
