"""Choice of the quota that applies to a client, in the order of precedence of Apache Kafka. Pure."""

from collections.abc import Mapping

from kohort.broker.quotas.entities import CLIENT_ID, USER, Entity

Meter = tuple[str, str]
"""User and client ID whose traffic is measured together; one of them is empty if the quota does not depend on it."""

_Name = str | None
"""Name of a user or client ID, None for the default, and "" for none: names cannot be empty."""
_DEFAULT, _NO = None, ""


class Limits:
    """The limits of one quota."""

    def __init__(self, limits: Mapping[Entity, float]) -> None:
        self._limits: dict[tuple[_Name, _Name], float] = {}
        for entity, limit in limits.items():
            parts = dict(entity)
            self._limits[parts.get(USER, _NO), parts.get(CLIENT_ID, _NO)] = limit
        self._has_users = any(client_id == _NO for _, client_id in self._limits)
        self._has_client_ids = any(user == _NO for user, _ in self._limits)
        self._has_both = any(_NO not in both for both in self._limits)

    def __bool__(self) -> bool:
        return bool(self._limits)

    def meter(self, user: str, client_id: str) -> Meter:
        """Return the meter of a client's traffic.

        Clients without a limit have a meter, too. As in Kafka, a quota for users or client IDs alone has one meter for
        each of them, not for each pair.
        """
        limits = self._limits
        if self._has_users + self._has_client_ids + self._has_both == 1:
            return (user if not self._has_client_ids else _NO, client_id if not self._has_users else _NO)
        if (user, client_id) in limits or (user, _DEFAULT) in limits:
            return user, client_id
        if (user, _NO) in limits:
            return user, _NO
        if (_DEFAULT, client_id) in limits or (_DEFAULT, _DEFAULT) in limits:
            return user, client_id
        if (_DEFAULT, _NO) in limits:
            return user, _NO
        return _NO, client_id

    def limit(self, meter: Meter) -> float | None:
        """Return the limit of a meter, or None."""
        user, client_id = meter
        users: tuple[_Name, ...] = (user, _DEFAULT) if user else (_NO,)
        client_ids: tuple[_Name, ...] = (client_id, _DEFAULT) if client_id else (_NO,)
        pairs = ((one, other) for one in users for other in client_ids)
        return next((self._limits[pair] for pair in pairs if pair in self._limits), None)
