"""Authentication of clients: a `ListenerSecurity` admits the connections of its listener.

With SASL, each connection has an `Authentication`, whose tokens the handlers of SaslHandshake and SaslAuthenticate pass
on. SCRAM verifies them with the `ScramCredentials` in the log store.
"""

from kohort.broker.security.authentication import Authentication
from kohort.broker.security.credentials import SCRAM_CREDENTIALS, ScramCredentials
from kohort.broker.security.listener_security import ListenerSecurity

__all__ = ["SCRAM_CREDENTIALS", "Authentication", "ListenerSecurity", "ScramCredentials"]
