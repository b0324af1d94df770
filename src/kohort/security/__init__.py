"""Authentication and authorization without I/O: secrets, principals, the SASL mechanisms, and ACLs."""

from kohort.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    authorized_bits,
)
from kohort.security.authorizer import Acls, Authorizer, is_principal, parse_super_users
from kohort.security.jaas import JaasEntry, JaasError, parse_jaas
from kohort.security.principal import ANONYMOUS, PrincipalRules, PrincipalRulesError, subject_text, user_principal
from kohort.security.secret import Secret

__all__ = [
    "ANONYMOUS",
    "CLUSTER_NAME",
    "OPERATIONS",
    "WILDCARD",
    "Acl",
    "AclFilter",
    "Acls",
    "Authorizer",
    "JaasEntry",
    "JaasError",
    "Operation",
    "PatternType",
    "Permission",
    "PrincipalRules",
    "PrincipalRulesError",
    "ResourcePattern",
    "ResourceType",
    "Secret",
    "authorized_bits",
    "is_principal",
    "parse_jaas",
    "parse_super_users",
    "subject_text",
    "user_principal",
]
