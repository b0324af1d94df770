"""PEM files and texts, as OpenSSL reads them, and what is wrong with other files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kohort.errors import ConfigError

EXPORT_PEM = (
    "Export PEM: for certificates 'openssl pkcs12 -in STORE -nokeys -out ca.pem', for a key 'openssl pkcs12 -in STORE"
    " -out client.pem'; a JKS store first becomes PKCS12 by 'keytool -importkeystore -srckeystore STORE"
    " -destkeystore store.p12 -deststoretype PKCS12'."
)
_JKS, _JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_READ_AT_MOST = 1 << 20


def check_pem_file(name: str, path: str) -> None:
    """Raise ConfigError for a file that is missing, or that has no PEM data. `name` is the option that names it."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(_READ_AT_MOST)
    except OSError as problem:
        raise ConfigError(f"{name} cannot be read: {path}: {problem.strerror}.") from None
    is_der = len(start) > 1 and start[0] == 0x30 and start[1] & 0x80  # a sequence of 128 bytes or more
    if is_der or start[:4] in (_JKS, _JCEKS):
        kind = "PKCS12 store or a DER file" if is_der else "JKS store"
        raise ConfigError(f"{name} must be PEM, but {path} is a {kind}. {EXPORT_PEM}")
    if b"-----BEGIN" not in start:
        raise ConfigError(f"{name} must be PEM, but {path} has no line that begins with -----BEGIN.")


def check_pem_text(name: str, text: str) -> None:
    """Raise ConfigError for a text without PEM data. `name` is the option with the text."""
    if "-----BEGIN" not in text:
        raise ConfigError(f"{name} must be PEM text, which begins with '-----BEGIN CERTIFICATE-----'.")


@contextmanager
def pem_as_file(data: bytes | None) -> Iterator[str | None]:
    """Yield a path from which OpenSSL can read the data, in memory where the system has such files."""
    if data is None:
        yield None
    elif hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("kohort-pem")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with TemporaryDirectory() as directory:  # only this user can read it
            path = Path(directory, "pem")
            path.write_bytes(data)
            yield str(path)


def pem_problem(problem: Exception) -> str:
    """Return what OpenSSL or the system does not like."""
    reason = getattr(problem, "reason", None)
    if reason:
        return str(reason).lower().replace("_", " ")
    return getattr(problem, "strerror", None) or "no PEM data"
