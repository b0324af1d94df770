"""The listener of the page that a broker serves from inside (`--web`): for this machine, and for one user.

The page reads groups as a client does, also where all other listeners need certificates or passwords.
The password is made for one run of the broker and never stored. The mechanism is SCRAM, so that a
process that takes over the port of a broker that died does not learn it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.security import LISTENERS
from kohort.errors import ConfigError
from kohort.security import JaasError, Secret, parse_jaas

WATCH_LISTENER = "KOHORT_WATCH"
WATCH_ADDRESS = f"{WATCH_LISTENER}://127.0.0.1:0"
_MECHANISM = "SCRAM-SHA-256"
_PROTOCOLS = "listener.security.protocol.map"
_PREFIX = f"listener.name.{WATCH_LISTENER.lower()}."
_JAAS = f"{_MECHANISM.lower()}.sasl.jaas.config"


@dataclass(frozen=True, slots=True)
class WatchLogin:
    """User of the listener. Its name is unguessable, too, because it is a super user on every listener."""

    user: str
    password: Secret = field(repr=False)

    @property
    def client_options(self) -> dict[str, str | Secret]:
        """Options of a client that connects to the listener."""
        return {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": _MECHANISM,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of a broker with those of the listener, except `listeners`. Raise ConfigError."""
        taken = [name for name in given if name.lower().startswith(_PREFIX)]
        if taken or WATCH_LISTENER in given.get(_PROTOCOLS, "").upper():
            raise ConfigError(f"The name {WATCH_LISTENER} is that of the listener of --web: choose another one.")
        added = {
            _PROTOCOLS: f"{given.get(_PROTOCOLS) or LISTENERS[_PROTOCOLS].default},{WATCH_LISTENER}:SASL_PLAINTEXT",
            f"{_PREFIX}sasl.enabled.mechanisms": _MECHANISM,
            f"{_PREFIX}{_JAAS}": "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{self.user}" password="{self.password.reveal()}";',
        }
        if given.get("authorizer.class.name"):
            others = given.get("super.users", "")
            added["super.users"] = f"{others};User:{self.user}" if others else f"User:{self.user}"
        return {**given, **added}


def read_watch_login(config: BrokerConfig) -> WatchLogin | None:
    """Return the user from the settings of the listener; None if there is none."""
    try:
        options = parse_jaas(config.text_or_empty(_JAAS)).options
    except JaasError:
        return None
    user, password = options.get("username"), options.get("password")
    return None if user is None or password is None else WatchLogin(user.reveal(), password)
