"""Certificates that a test makes for itself."""

from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority, and files for a broker on this machine."""

    authority: trustme.CA
    directory: Path

    @property
    def ca_file(self) -> Path:
        """The authority's certificate."""
        path = self.directory / "ca.pem"
        if not path.exists():
            self.authority.cert_pem.write_to_path(str(path))
        return path

    def key_store(self, name: str = "broker", *, identity: str = "127.0.0.1") -> Path:
        """Write a file with a private key and its certificate chain."""
        path = self.directory / f"{name}.pem"
        self.authority.issue_cert(identity, common_name=name).private_key_and_cert_chain_pem.write_to_path(str(path))
        return path


def new_certificates(directory: Path) -> Certificates:
    """A new authority whose files are in the directory."""
    return Certificates(trustme.CA(key_type=trustme.KeyType.ECDSA), directory)
