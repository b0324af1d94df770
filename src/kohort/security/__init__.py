"""Authentication without I/O: secrets and the SASL mechanisms."""

from kohort.security.secret import Secret

__all__ = ["Secret"]
