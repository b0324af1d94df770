"""Users that log in at the gateway, from a file: one NAME=PASSWORD in each line."""

import hmac
import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from kohort.errors import ConfigError
from kohort.properties import parse_properties
from kohort.security import Secret
from kohort.security.sasl import MIN_ITERATIONS, ScramCredential, ScramMechanism, salt_of

log = logging.getLogger("kohort.gateway")


def read_users(path: Path) -> Mapping[str, Secret]:
    """Return the passwords by user. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise ConfigError(f"--users {path} cannot be read: {problem.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"--users {path} cannot be read: it is not UTF-8.") from None
    users = {name: Secret(password) for name, password in parse_properties(text).items()}
    if not users or not all(users.values()):
        raise ConfigError(f"--users {path} must have a line NAME=PASSWORD for each user.")
    if path.stat().st_mode & 0o077:
        log.warning("other users of this machine can read the passwords in %s: chmod 600 it", path)
    return users


class ScramUsers:
    """Credentials of SCRAM; see `Credentials`. They are made at the start, so that every login takes as long.

    Salts are derived from the secret, known users' as well as those that are invented for unknown ones.
    """

    def __init__(self, users: Mapping[str, Secret], mechanisms: Collection[str], secret: bytes) -> None:
        self.secret = secret
        self._credentials = {
            (user, mechanism): ScramCredential.from_password(mechanism, password, self._salt(user), MIN_ITERATIONS)
            for mechanism in ScramMechanism
            if mechanism.value in mechanisms
            for user, password in users.items()
        }

    def _salt(self, user: str) -> bytes:
        return salt_of(hmac.digest(self.secret, user.encode(), "sha256"))

    def keep_secret(self, random: str) -> None:
        """Keep the own secret."""

    def usual_iterations(self, mechanism: ScramMechanism) -> int:
        """Return the number of iterations of all users."""
        return MIN_ITERATIONS

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the user's credential; None if there is no such user."""
        return self._credentials.get((user, mechanism))
