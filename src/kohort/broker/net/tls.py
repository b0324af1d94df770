"""TLS of one listener: its certificate and key, and the authorities that sign clients' certificates.

Key stores are PEM, in files or in the settings themselves. Files are read again when they change (KIP-651), so that
certificates are renewed without a restart.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from kohort.broker.config import Listener
from kohort.broker.net.tls_alerts import AlertingContext, keep_asked_name
from kohort.errors import ConfigError
from kohort.pem import check_pem_file, pem_as_file, pem_problem

log = logging.getLogger("kohort.broker")

_CHECK_EVERY_S = 1.0
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

_Stamp = tuple[tuple[int, int, int], ...]
"""Modification time, size and inode of each file."""


class ListenerTls:
    """The TLS context of a listener, created again when its files change."""

    def __init__(self, listener: Listener, time: Callable[[], float]) -> None:
        """Read the key store. Raise ConfigError if it is invalid."""
        self._listener = listener
        self._time = time
        config = listener.config
        names = ("ssl.keystore.location", "ssl.truststore.location")
        self._files = [Path(config.text(name)) for name in names if config.text(name)]
        self._stamp = self._current_stamp()
        self._context = _context(listener)
        self._check_at = time() + _CHECK_EVERY_S

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. If changed files are invalid, the former context stays in use."""
        if self._files and self._time() >= self._check_at:
            self._check_at = self._time() + _CHECK_EVERY_S
            stamp = self._current_stamp()
            if stamp != self._stamp:
                self._stamp = stamp
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = _context(self._listener)
        except ConfigError as error:
            log.error(
                "the changed key store of listener %s cannot be used, so the former one stays in use: %s",
                self._listener.name,
                error,
            )
        else:
            log.info("the key store of listener %s was read again", self._listener.name)

    def _current_stamp(self) -> _Stamp:
        found = []
        for path in self._files:
            try:
                status = path.stat()
            except OSError:  # while a file is replaced, or missing: `_context` reports it
                found.append((0, 0, 0))
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)


def asked_name(transport: asyncio.BaseTransport) -> str | None:
    """Return the name to which a client with TLS connects, in lower case (SNI); None if it did not say."""
    name: str | None = getattr(transport.get_extra_info("ssl_object"), "asked_name", None)
    return None if name is None else name.lower()


def _context(listener: Listener) -> ssl.SSLContext:
    config = listener.config
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = keep_asked_name
    versions = sorted(_VERSIONS[name] for name in config.names("ssl.enabled.protocols"))
    if not versions:
        raise ConfigError("ssl.enabled.protocols must name TLSv1.2, TLSv1.3 or both.")
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    # A renegotiation costs the server a handshake, which a client could request again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    suites = config.names("ssl.cipher.suites")
    if suites:
        try:
            context.set_ciphers(":".join(suites))
        except ssl.SSLError:
            raise ConfigError("ssl.cipher.suites has no cipher suite that OpenSSL knows.") from None
    _load_key(context, listener)
    context.verify_mode = _CLIENT_AUTH[config.text("ssl.client.auth")]
    if context.verify_mode != ssl.CERT_NONE:
        _load_authorities(context, listener)
    return context


def _load_key(context: ssl.SSLContext, listener: Listener) -> None:
    config = listener.config
    location, chain = config.text("ssl.keystore.location"), config.text("ssl.keystore.certificate.chain")
    key = config.text("ssl.keystore.key")
    if bool(location) == bool(chain or key):
        raise ConfigError(
            f"The listener {listener.name} needs a certificate: set ssl.keystore.location to a PEM file with the"
            " private key and the certificate chain, or set ssl.keystore.key and ssl.keystore.certificate.chain."
        )
    if location:
        check_pem_file("ssl.keystore.location", location)
    password = config.text("ssl.key.password")
    try:
        if location:
            context.load_cert_chain(location, password=password)  # without a password, OpenSSL would ask the terminal
        else:
            with pem_as_file(f"{key}\n{chain}".encode()) as path:
                assert path is not None
                context.load_cert_chain(path, password=password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        where = location or "ssl.keystore.key with ssl.keystore.certificate.chain"
        raise ConfigError(
            f"The private key and certificate chain in {where} cannot be used: {pem_problem(error)}. They must be PEM"
            " and belong together, and ssl.key.password must be right if the key is encrypted."
        ) from None


def _load_authorities(context: ssl.SSLContext, listener: Listener) -> None:
    config = listener.config
    location, text = config.text("ssl.truststore.location"), config.text("ssl.truststore.certificates")
    if bool(location) == bool(text):
        raise ConfigError(
            f"The listener {listener.name} verifies clients' certificates: set ssl.truststore.location to a PEM file"
            " with the certificates of their authorities, or ssl.truststore.certificates to its text."
        )
    if location:
        check_pem_file("ssl.truststore.location", location)
    try:
        context.load_verify_locations(location or None, cadata=text or None)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The certificates in {location or 'ssl.truststore.certificates'} cannot be used: {pem_problem(error)}."
        ) from None
