"""Options for TLS and SASL, and what a connection does with them."""

from kohort.client.security.credentials import Credentials, no_sasl_error
from kohort.client.security.dialects import SECRET_NAMES, TRANSLATED_NAMES, normal_names
from kohort.client.security.failures import AuthenticationError
from kohort.client.security.options import MECHANISMS, PROTOCOLS, SecurityOptions, check_security
from kohort.client.security.tls import tls_context, tls_error

__all__ = [
    "MECHANISMS",
    "PROTOCOLS",
    "SECRET_NAMES",
    "TRANSLATED_NAMES",
    "AuthenticationError",
    "Credentials",
    "SecurityOptions",
    "check_security",
    "no_sasl_error",
    "normal_names",
    "tls_context",
    "tls_error",
]
