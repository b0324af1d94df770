"""How one listener authenticates its clients: with TLS certificates, with SASL, or not at all."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from kohort.broker.config import WATCH_LISTENER, Listener, read_watch_login
from kohort.broker.net import ClientConnection, ListenerTls
from kohort.broker.security.authentication import Authentication, Connection
from kohort.broker.security.mechanisms import Credentials, Mechanisms
from kohort.broker.security.watch_user import WatchUser
from kohort.errors import ConfigError
from kohort.model import Millis
from kohort.security import PrincipalRules, PrincipalRulesError, Secret, subject_text
from kohort.security.sasl import OAUTHBEARER

if TYPE_CHECKING:
    from kohort.broker.security.bearer_tokens import BearerTokens


class ListenerSecurity:
    """Authentication on one listener."""

    def __init__(
        self,
        listener: Listener,
        *,
        credentials: Callable[[], Credentials],
        now: Callable[[], Millis],
        time: Callable[[], float],
        fresh_id: Callable[[], UUID],
        failed_delay_s: float,
        passwords: Mapping[str, Secret] | None = None,
    ) -> None:
        """Read certificates and users. Raise ConfigError.

        `passwords` are the users of PLAIN; None for those of the listener's settings.
        """
        self._listener = listener
        self._now = now
        self._failed_delay_s = failed_delay_s
        config = listener.config
        self.tls = ListenerTls(listener, time) if listener.protocol.tls else None
        self._tokens = _bearer_tokens(listener, now)
        login = read_watch_login(config) if listener.name == WATCH_LISTENER else None
        if login is not None:
            user = WatchUser(login, (fresh_id(), fresh_id()))
            credentials = lambda: user  # noqa: E731
        validate = None if self._tokens is None else self._tokens.validate
        self._mechanisms = (
            Mechanisms(listener, credentials, fresh_id, validate, passwords) if listener.protocol.sasl else None
        )
        try:
            self._rules = PrincipalRules(config.text("ssl.principal.mapping.rules"))
        except PrincipalRulesError as error:
            raise ConfigError(f"ssl.principal.mapping.rules cannot be read: {error}.") from None

    async def start(self) -> None:
        """Read the keys of the token issuer, if the listener needs them. Raise ConfigError."""
        if self._tokens is not None:
            await self._tokens.key_set.start()

    def close(self) -> None:
        """Stop reading keys."""
        if self._tokens is not None:
            self._tokens.key_set.close()

    def admit(self, connection: ClientConnection, authenticated: Callable[[ClientConnection], None]) -> bool:
        """Return whether the client is authenticated already; if not, `authenticated` is called when it is."""
        config = self._listener.config
        if self._mechanisms is None:
            subject = _subject(connection)
            if subject is not None:
                principal = self._rules.principal(subject)
                if principal is None:
                    connection.refuse(f"no rule of ssl.principal.mapping.rules matches the certificate of {subject!r}")
                else:
                    connection.principal = principal
            return True
        connection.max_frame = config.number("sasl.server.max.receive.size")
        connection.gate = self.authentication(connection, partial(authenticated, connection))
        return False

    def authentication(self, connection: Connection, authenticated: Callable[[], None]) -> Authentication:
        """Return the authentication of a connection; the listener must have SASL."""
        assert self._mechanisms is not None
        return Authentication(
            connection,
            self._listener.name,
            self._mechanisms,
            now=self._now,
            failed_delay_s=self._failed_delay_s,
            reauthenticate_ms=self._listener.config.number("connections.max.reauth.ms"),
            authenticated=authenticated,
        )


def _bearer_tokens(listener: Listener, now: Callable[[], Millis]) -> "BearerTokens | None":
    config = listener.config
    if not listener.protocol.sasl or OAUTHBEARER not in config.names("sasl.enabled.mechanisms"):
        return None
    if not config.text("sasl.oauthbearer.jwks.endpoint.url"):
        return None  # an error of the mechanism
    try:
        from kohort.broker.security.bearer_tokens import BearerTokens
    except ModuleNotFoundError as missing:
        if missing.name is None or not missing.name.startswith("joserfc"):
            raise
        raise ConfigError(
            f"The listener {listener.name} offers OAUTHBEARER, which needs joserfc: pip install 'kohort[oauth]'."
        ) from None
    return BearerTokens(listener, now)


def _subject(connection: ClientConnection) -> str | None:
    """Return the subject of the client's certificate; None if it did not present one."""
    if connection.transport is None:
        return None
    encrypted: Any = connection.transport.get_extra_info("ssl_object")
    certificate = None if encrypted is None else encrypted.getpeercert()
    if not certificate:
        return None
    subject: Sequence[Sequence[tuple[str, str]]] = certificate["subject"]
    return subject_text(subject)
