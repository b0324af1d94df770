"""SASL mechanisms as state machines without I/O, both roles of a mechanism in one file.

A machine serves one authentication. `SaslClient` and `SaslServer` in `steps.py` are the interface.
"""

from kohort.security.sasl.oauthbearer import (
    OAUTHBEARER,
    InvalidToken,
    OAuthBearerClient,
    OAuthBearerServer,
    ValidToken,
    check_extensions,
    check_token,
)
from kohort.security.sasl.plain import PLAIN, PlainClient, PlainServer, verify_against
from kohort.security.sasl.scram import (
    MAX_ITERATIONS,
    MAX_STORED_ITERATIONS,
    MIN_ITERATIONS,
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramPassword,
    ScramServer,
    salt_of,
)
from kohort.security.sasl.steps import (
    MAX_TOKEN_BYTES,
    ClientDone,
    ClientFailed,
    ClientStep,
    Done,
    Failed,
    SaslClient,
    SaslServer,
    Send,
    ServerStep,
)

__all__ = [
    "MAX_ITERATIONS",
    "MAX_STORED_ITERATIONS",
    "MAX_TOKEN_BYTES",
    "MIN_ITERATIONS",
    "OAUTHBEARER",
    "PLAIN",
    "ClientDone",
    "ClientFailed",
    "ClientStep",
    "Done",
    "Failed",
    "InvalidToken",
    "OAuthBearerClient",
    "OAuthBearerServer",
    "PlainClient",
    "PlainServer",
    "SaslClient",
    "SaslServer",
    "ScramClient",
    "ScramCredential",
    "ScramMechanism",
    "ScramPassword",
    "ScramServer",
    "Send",
    "ServerStep",
    "ValidToken",
    "check_extensions",
    "check_token",
    "salt_of",
    "verify_against",
]
