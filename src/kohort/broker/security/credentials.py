"""SCRAM credentials of users, durable in the log store and the same on all brokers of a cluster.

The store keeps them as Kafka does, as one text for each user and mechanism:
salt=...,stored_key=...,server_key=...,iterations=4096 with values in base64.
"""

import binascii
import logging
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping, Sequence

from kohort.log import LogStore
from kohort.security.sasl import MIN_ITERATIONS, ScramCredential, ScramMechanism

log = logging.getLogger("kohort.broker")

SCRAM_CREDENTIALS = "scram-credentials"
"""Kind of the stored configs that hold credentials, by user."""
_SECRETS, _UNKNOWN_USERS, _SECRET = "scram-secrets", "unknown-users", "secret"
"""Kind, name and config of the secret for unknown users."""


class ScramCredentials:
    """Reads and changes the credentials in the store."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._counted: tuple[Mapping[str, Mapping[str, str]], Mapping[ScramMechanism, int]] | None = None

    def keep_secret(self, random: str) -> None:
        """Keep a random text as the secret for unknown users, unless there is one. Raise OSError.

        All brokers use it, also after a restart: an unknown user, like a known one, always gets the same challenge.
        """
        if _UNKNOWN_USERS not in self._store.configs(_SECRETS):
            self._store.keep_configs(_SECRETS, _UNKNOWN_USERS, {_SECRET: random})

    @property
    def secret(self) -> bytes:
        """Secret from which the challenges for unknown users are derived."""
        return self._store.configs(_SECRETS)[_UNKNOWN_USERS][_SECRET].encode()

    def usual_iterations(self, mechanism: ScramMechanism) -> int:
        """Return the number of iterations of most users."""
        stored = self._store.configs(SCRAM_CREDENTIALS)  # a change creates a new mapping
        if self._counted is None or self._counted[0] is not stored:
            self._counted = stored, {each: _most_common(stored, each) for each in ScramMechanism}
        return self._counted[1][mechanism]

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the user's credential for the mechanism, or None. An unknown user takes as long as a known one."""
        dummy = _DUMMY_CREDENTIALS[mechanism.value]
        text = self._store.configs(SCRAM_CREDENTIALS).get(user, _NO_CREDENTIALS).get(mechanism.value, dummy)
        found = parse_credential(text)
        if text is dummy:
            return None
        if found is None:
            log.error("the stored %s credential of user %r is damaged: set it again", mechanism.value, user)
        return found

    def users(self) -> Mapping[str, Mapping[ScramMechanism, ScramCredential]]:
        """Return all credentials by user."""
        found: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        for user in self._store.configs(SCRAM_CREDENTIALS):
            credentials = {mechanism: self.credential(user, mechanism) for mechanism in ScramMechanism}
            found[user] = {mechanism: own for mechanism, own in credentials.items() if own is not None}
        return found

    def change(
        self, user: str, deleted: Sequence[ScramMechanism], added: Mapping[ScramMechanism, ScramCredential]
    ) -> None:
        """Delete and set credentials of one user; durable on return. Raise OSError; then nothing has changed."""
        changes: dict[str, str | None] = {mechanism.value: None for mechanism in deleted}
        changes |= {mechanism.value: credential_text(credential) for mechanism, credential in added.items()}
        self._store.change_configs(SCRAM_CREDENTIALS, user, changes)


def credential_text(credential: ScramCredential) -> str:
    """Return the form in which a credential is stored."""
    parts = {
        "salt": b64encode(credential.salt).decode(),
        "stored_key": b64encode(credential.stored_key).decode(),
        "server_key": b64encode(credential.server_key).decode(),
        "iterations": str(credential.iterations),
    }
    return ",".join(f"{name}={value}" for name, value in parts.items())


def parse_credential(text: str) -> ScramCredential | None:
    """Parse a stored credential; None if the text is invalid."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        return ScramCredential(
            salt=b64decode(parts["salt"], validate=True),
            iterations=int(parts["iterations"]),
            stored_key=b64decode(parts["stored_key"], validate=True),
            server_key=b64decode(parts["server_key"], validate=True),
        )
    except (KeyError, ValueError, binascii.Error):
        return None


def _most_common(stored: Mapping[str, Mapping[str, str]], mechanism: ScramMechanism) -> int:
    texts = [own[mechanism.value] for own in stored.values() if mechanism.value in own]
    counted = Counter(found.iterations for text in texts if (found := parse_credential(text)) is not None)
    return max(counted, key=lambda iterations: (counted[iterations], -iterations), default=MIN_ITERATIONS)


def _dummy_credential(mechanism: ScramMechanism) -> str:
    key = mechanism.digest(b"")
    return credential_text(ScramCredential(key[:26], MIN_ITERATIONS, key, key))


_DUMMY_CREDENTIALS = {mechanism.value: _dummy_credential(mechanism) for mechanism in ScramMechanism}
"""Credentials that are parsed for unknown users, so that their lookup takes as long."""
_NO_CREDENTIALS: Mapping[str, str] = {}
