"""The one user of the listener of `--web`, whose password lives as long as the broker."""

from uuid import UUID

from kohort.broker.config import WatchLogin
from kohort.security.sasl import MIN_ITERATIONS, ScramCredential, ScramMechanism

_MECHANISM = ScramMechanism.SHA_256


class WatchUser:
    """Credentials with a single user; see `Credentials`. Nothing is stored."""

    def __init__(self, login: WatchLogin, random: tuple[UUID, UUID]) -> None:
        self._user = login.user
        self.secret, salt = random[0].bytes, random[1].bytes
        self._credential = ScramCredential.from_password(_MECHANISM, login.password, salt, MIN_ITERATIONS)

    def keep_secret(self, random: str) -> None:
        """Keep the own secret: unknown users need no stable challenge on a listener for one user."""

    def usual_iterations(self, mechanism: ScramMechanism) -> int:
        """Return the number of iterations of the user."""
        return MIN_ITERATIONS

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return the credential if this is the user."""
        return self._credential if user == self._user and mechanism is _MECHANISM else None
