"""Authentication without I/O: secrets, login configurations, principals and the SASL mechanisms."""

from kohort.security.jaas import JaasEntry, JaasError, parse_jaas
from kohort.security.principal import ANONYMOUS, PrincipalRules, PrincipalRulesError, subject_text, user_principal
from kohort.security.secret import Secret

__all__ = [
    "ANONYMOUS",
    "JaasEntry",
    "JaasError",
    "PrincipalRules",
    "PrincipalRulesError",
    "Secret",
    "parse_jaas",
    "subject_text",
    "user_principal",
]
