"""Authentication without I/O: secrets, login configurations and the SASL mechanisms."""

from kohort.security.jaas import JaasEntry, JaasError, parse_jaas
from kohort.security.secret import Secret

__all__ = ["JaasEntry", "JaasError", "Secret", "parse_jaas"]
