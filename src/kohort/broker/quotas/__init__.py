"""Quotas of users, client IDs and addresses (KIP-13, KIP-546), and the throttling of clients that exceed one.

`ClientQuotas` keeps the quotas in the log store. `entities` has the rules for their names and values, `limits` finds
the one that applies to a client, and `rate` measures; these three are pure.
"""

from kohort.broker.quotas.client_quotas import ByteQuota, ClientQuotas
from kohort.broker.quotas.entities import CLIENT_ID, IP, TYPES, USER, Entity, check_entity, check_quota

__all__ = [
    "CLIENT_ID",
    "IP",
    "TYPES",
    "USER",
    "ByteQuota",
    "ClientQuotas",
    "Entity",
    "check_entity",
    "check_quota",
]
