"""TLS contexts: PEM in files and as text, and key stores that only Java reads."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kohort import ConfigError
from kohort.client import ClientOptions
from kohort.client.security import tls_context
from tests.client.security.authorities import KEY_PASSWORD, Certificates


def context(**given: Any) -> ssl.SSLContext:
    options = ClientOptions.read({"bootstrap_servers": "a:1", "security_protocol": "SSL", **given})
    made = tls_context(options)
    assert made is not None
    return made


def test_by_default_certificate_and_name_are_checked() -> None:
    made = context()
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert made.minimum_version is ssl.TLSVersion.TLSv1_2
    assert made.get_ca_certs() or made.cert_store_stats()["x509"] >= 0


@pytest.mark.parametrize("form", ["ssl_cafile", "ssl_cadata"])
def test_only_the_given_authorities_are_trusted(pem: Certificates, form: str) -> None:
    value = pem.cafile if form == "ssl_cafile" else Path(pem.cafile).read_text()
    made = context(**{form: value})
    assert len(made.get_ca_certs()) == 1
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_the_name_or_everything_may_go_unchecked(pem: Certificates) -> None:
    made = context(ssl_cafile=pem.cafile, ssl_check_hostname=False)
    assert (made.verify_mode, made.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert context(ssl_verify_certificate=False).verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize("locked", [False, True])
def test_a_client_certificate_is_loaded_from_files_and_from_text(pem: Certificates, locked: bool) -> None:
    chain, both = pem.directory / "client.crt", pem.directory / "client.pem"
    key = pem.directory / ("client.locked.key" if locked else "client.key")
    password = {"ssl_password": KEY_PASSWORD} if locked else {}
    context(ssl_certfile=str(chain), ssl_keyfile=str(key), **password)
    context(ssl_certdata=chain.read_text(), ssl_keydata=key.read_text(), **password)
    context(ssl_certfile=str(both))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        context(ssl_certfile=str(chain))


def test_a_locked_key_needs_its_password(pem: Certificates) -> None:
    files = {"ssl_certfile": str(pem.directory / "client.crt"), "ssl_keyfile": str(pem.directory / "client.locked.key")}
    with pytest.raises(ConfigError, match="ssl_password is missing: the private key is encrypted"):
        context(**files)
    with pytest.raises(ConfigError, match="ssl_password is wrong") as refused:
        context(**files, ssl_password="hunter-2")
    assert "hunter" not in str(refused.value)


def test_a_key_store_of_java_is_refused_with_the_way_out(pem: Certificates, tmp_path: Path) -> None:
    store, jks = tmp_path / "store.p12", tmp_path / "store.jks"
    files = ["-in", str(pem.directory / "client.crt"), "-inkey", str(pem.directory / "client.key")]
    command = ["openssl", "pkcs12", "-export", "-out", str(store), "-passout", "pass:changeit", *files]
    subprocess.run(command, check=True, capture_output=True)
    jks.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    for name, path, kind in [
        ("ssl.truststore.location", store, "PKCS12"),
        ("ssl.truststore.location", jks, "JKS"),
        ("ssl.keystore.location", store, "PKCS12"),
    ]:
        with pytest.raises(ConfigError, match=f"must be PEM, but .* is a {kind} .*'openssl pkcs12 -in STORE"):
            context(**{name: str(path)})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ssl_cafile": "/nowhere/ca.pem"}, "ssl_cafile cannot be read: /nowhere/ca.pem: No such file"),
        ({"ssl_cafile": __file__}, "has no readable certificates"),
        ({"ssl_cadata": "/etc/ca.pem"}, "must be PEM text"),
        ({"ssl_cadata": "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"}, "no readable certificates"),
        ({"ssl_ciphers": "NONE_OF_THESE"}, "names no cipher of OpenSSL"),
        ({"ssl_certfile": "/nowhere/client.pem"}, "ssl_certfile cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        context(**given)
