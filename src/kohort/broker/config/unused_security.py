"""Settings of security that have no effect on this broker's listeners.

They are accepted, as in Apache Kafka. But an operator who sets them expects protection that is not there.
"""

import logging
from collections.abc import Iterable, Sequence

from kohort.broker.config.listeners import Listener
from kohort.broker.config.security import AUTHORIZER, SASL, TLS, split_listener_name

log = logging.getLogger("kohort.broker")

_AUTHORIZER = "authorizer.class.name"
_JAAS = "sasl.jaas.config"


def warn_of_unused_security(names: Iterable[str], listeners: Sequence[Listener], *, authorizes: bool) -> None:
    """Log a warning for each of these settings that has no effect. `authorizes`: the broker has an authorizer."""
    for name in sorted(names):
        reason = _why_unused(name, listeners, authorizes=authorizes)
        if reason:
            log.warning("%s has no effect: %s", name, reason)


def _why_unused(name: str, listeners: Sequence[Listener], *, authorizes: bool) -> str:
    """Return why a setting has no effect; empty if it has one."""
    if name in AUTHORIZER and name != _AUTHORIZER and not authorizes:
        return f"{_AUTHORIZER} is empty, so all clients may do everything"
    listener, setting = split_listener_name(name) or ("", name)
    concerned = [each for each in listeners if not listener or each.name.lower() == listener]
    whose = f"the listener {concerned[0].name} does" if listener and concerned else "the listeners do"
    mechanism, _, rest = setting.partition(".")
    if setting in TLS:
        return "" if any(each.protocol.tls for each in concerned) else f"{whose} not use TLS"
    if setting in SASL or rest == _JAAS:
        offered = {
            word for each in concerned if each.protocol.sasl for word in each.config.names("sasl.enabled.mechanisms")
        }
        if not offered:
            return f"{whose} not use SASL"
        wanted = mechanism.upper() if rest == _JAAS else ""
        wanted = "OAUTHBEARER" if setting.startswith("sasl.oauthbearer.") else wanted
        return "" if not wanted or wanted in offered else f"{whose} not offer {wanted} (sasl.enabled.mechanisms)"
    return ""
