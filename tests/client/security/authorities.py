"""Certificates that trustme makes, and a JSON web token without a signature."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

KEY_PASSWORD = "key-password-8472"


@dataclass(frozen=True)
class Certificates:
    """PEM files in a directory. Keys are PKCS 8, the only form that Java reads."""

    directory: Path
    authority: trustme.CA

    @property
    def cafile(self) -> str:
        return str(self.directory / "ca.pem")

    def issue(self, name: str, *identities: str, expired: bool = False, common_name: str | None = None) -> Path:
        """Return a file with a private key, its certificate and the chain."""
        ends = datetime.now(UTC) - timedelta(days=1) if expired else None
        begins = datetime.now(UTC) - timedelta(days=9) if expired else None
        leaf = self.authority.issue_cert(*identities, not_before=begins, not_after=ends, common_name=common_name)
        chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
        path = self.directory / f"{name}.pem"
        path.write_bytes(pkcs8(leaf) + chain)
        (self.directory / f"{name}.crt").write_bytes(chain)
        (self.directory / f"{name}.key").write_bytes(pkcs8(leaf))
        (self.directory / f"{name}.locked.key").write_bytes(pkcs8(leaf, KEY_PASSWORD))
        return path


def certificates(directory: Path) -> Certificates:
    """Make an authority, and write its certificate."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    trustme.CA().cert_pem.write_to_path(str(directory / "other-ca.pem"))
    return Certificates(directory, authority)


def pkcs8(leaf: trustme.LeafCert, password: str | None = None) -> bytes:
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None)
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def unsecured_token(subject: str, life_s: float = 3600.0, **claims: object) -> str:
    """Return a token that Kafka's validator for development accepts."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + life_s, **claims})
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return f"{encoded[0]}.{encoded[1]}."
