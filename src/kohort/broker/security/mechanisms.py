"""The SASL mechanisms of one listener, with the users and keys against which they verify tokens."""

from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from kohort.broker.config import Listener
from kohort.errors import ConfigError
from kohort.security import JaasError, Secret, parse_jaas
from kohort.security.sasl import (
    OAUTHBEARER,
    PLAIN,
    InvalidToken,
    OAuthBearerServer,
    PlainServer,
    SaslServer,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    ValidToken,
    verify_against,
)

_USER = "user_"


class Credentials(Protocol):
    """Store of SCRAM credentials. See `ScramCredentials`."""

    @property
    def secret(self) -> bytes: ...
    def keep_secret(self, random: str) -> None: ...
    def usual_iterations(self, mechanism: ScramMechanism) -> int: ...
    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None: ...


Validate = Callable[[str, dict[str, str]], ValidToken | InvalidToken]
"""Validates a bearer token with its extensions."""


class Mechanisms:
    """The mechanisms that a listener offers, by name, in the order of `sasl.enabled.mechanisms`."""

    def __init__(
        self,
        listener: Listener,
        credentials: Callable[[], Credentials],
        fresh_id: Callable[[], UUID],
        validate: Validate | None,
        passwords: Mapping[str, Secret] | None = None,
    ) -> None:
        """`passwords` are the users of PLAIN; None for those of the listener's settings.

        Raise ConfigError if a mechanism lacks a setting, and OSError if the store fails."""
        self.names = listener.config.names("sasl.enabled.mechanisms")
        if not self.names:
            raise ConfigError(f"The listener {listener.name} uses SASL: name a mechanism in sasl.enabled.mechanisms.")
        self._credentials = credentials
        self._fresh_id = fresh_id
        if any(ScramMechanism.named(name) for name in self.names):
            credentials().keep_secret(self._random())
        if passwords is None:
            passwords = _plain_users(listener) if PLAIN in self.names else {}
        self._verify = verify_against(passwords)
        self._validate = validate
        if OAUTHBEARER in self.names and validate is None:
            raise ConfigError(
                f"The listener {listener.name} offers OAUTHBEARER: set sasl.oauthbearer.jwks.endpoint.url to the keys"
                " of the token issuer."
            )

    def server(self, name: str) -> SaslServer | None:
        """Return a new authentication with this mechanism; None if the listener does not offer it."""
        if name not in self.names:
            return None
        if name == PLAIN:
            return PlainServer(self._verify)
        if name == OAUTHBEARER:
            assert self._validate is not None
            return OAuthBearerServer(self._validate)
        mechanism = ScramMechanism.named(name)
        assert mechanism is not None, name
        credentials = self._credentials()
        return ScramServer(
            mechanism,
            lambda user: credentials.credential(user, mechanism),
            self._random(),
            credentials.secret,
            unknown_iterations=credentials.usual_iterations(mechanism),
        )

    def _random(self) -> str:
        return self._fresh_id().hex + self._fresh_id().hex


def _plain_users(listener: Listener) -> Mapping[str, Secret]:
    """Return the users of PLAIN with their passwords, from the options `user_NAME` of the login module."""
    config = listener.config
    setting = f"listener.name.{listener.name.lower()}.plain.sasl.jaas.config"
    text = config.text_or_empty("plain.sasl.jaas.config") or config.text("sasl.jaas.config")
    if not text:
        raise ConfigError(
            f"The listener {listener.name} offers PLAIN, but has no users: set {setting} to"
            ' org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME="PASSWORD";'
        )
    try:
        entry = parse_jaas(text)
    except JaasError as error:
        raise ConfigError(f"{setting} cannot be read: {error}.") from None
    if entry.name != "PlainLoginModule":
        raise ConfigError(f"{setting} must name org.apache.kafka.common.security.plain.PlainLoginModule.")
    users = {name.removeprefix(_USER): value for name, value in entry.options.items() if name.startswith(_USER)}
    if not users:
        raise ConfigError(f'{setting} has no users: add user_NAME="PASSWORD" for each.')
    return users
