"""Checks that no client gets an answer without the right to it (S20), or is refused with all rights (S14).

A request is authorized when it arrives. So only rights count that were missing from then until the
response. A connection whose session has ended gets no responses (KIP-368), and
without faults no client sends requests on it (S21).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kohort.errors import ErrorCode
from kohort.model import NO_TOPIC_ID, UUID
from kohort.sim.steps import Right
from kohort.sim.violation import Violation

REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)
"""Error codes of clients that are not authenticated or not authorized."""
_MEMBERS = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "ConsumerGroupHeartbeat"})
_AUTHENTICATION = "SaslAuthenticate"
_ANYBODY = frozenset({"ApiVersions", "SaslHandshake", _AUTHENTICATION})
"""Requests that need no session."""
_PROVED = b"v="
"""Beginning of the last message of a broker to a client that it has authenticated (RFC 5802)."""
_CHALLENGED_WITHIN = 15.0
"""Maximum time in seconds between the two messages of a client: the password is looked up at the first."""
_CHECKED = _MEMBERS | {"Fetch", "OffsetCommit", "OffsetFetch", "Metadata"}


class LostRight(NamedTuple):
    """Right that a principal does not have."""

    right: Right
    topic: str
    """Name of the topic; empty for a right to the group."""


class Principals(Protocol):
    """What the users of the world may do."""

    lost: dict[str, frozenset[LostRight]]
    changed: dict[str, float]
    rejected: dict[str, float]
    """Users whose password the brokers reject, and since when."""

    def may_be_refused(self, user: str, since: float) -> bool: ...


class Asked(NamedTuple):
    """State of a principal when a request arrived."""

    at: float
    lost: frozenset[LostRight]
    is_rejected: bool
    """Whether the broker rejects the password of the principal."""


class AccessChecks:
    """Check of each response, with the state in which its request arrived."""

    def __init__(
        self,
        principals: Principals,
        now: Callable[[], float],
        names: Callable[[], Mapping[UUID, str]],
        knows: Callable[[str, str], bool],
        delay: float,
        *,
        is_faultless: bool,
    ) -> None:
        """`names` returns the names of topics.

        `knows` returns whether a broker has the latest rights of a user; others have them within `delay` seconds.
        """
        self._is_faultless = is_faultless
        self._principals = principals
        self._now = now
        self._names = names
        self._knows = knows
        self._delay = delay
        self._expires: dict[int, float] = {}
        """Latest end of each connection's session."""
        self._should_renew: dict[int, float] = {}
        """Earliest end of each connection's session."""

    def asked(self, client: str, broker: str) -> Asked:
        """Return what `answered` needs of the moment at which a request arrives."""
        now, lost = self._now(), self._principals.lost.get(client, frozenset())
        is_rejected = self._principals.rejected.get(client, now) < now - _CHALLENGED_WITHIN
        if not (lost or is_rejected) or not self._knows(broker, client):
            return Asked(now, frozenset(), is_rejected=False)
        return Asked(now, lost, is_rejected)

    def refused(self, client: str, asked: Asked, name: str) -> str:
        """Return why no broker may refuse that client for want of a right, or ""."""
        before = max(self._delay, _CHALLENGED_WITHIN if name == _AUTHENTICATION else 0.0)
        if self._principals.may_be_refused(client, asked.at - before):
            return ""
        return f"{client} has all rights and the right password"

    def sent_on(self, connection: int, client: str, name: str) -> None:
        """Check that a request arrives before the session of its connection ends. Raises Violation."""
        ends = self._should_renew.get(connection)
        if self._is_faultless and ends is not None and self._now() > ends and name not in _ANYBODY:
            raise Violation("S21", f"{client} sends {name}, although its session ended at {ends:.3f}")

    def answered_on(self, connection: int, client: str, asked: Asked, name: str) -> None:
        """Check that a response on a connection belongs to a session. Raises Violation."""
        ended = self._expires.get(connection)
        if ended is not None and asked.at > ended and name not in _ANYBODY:
            raise Violation("S20", f"{client} gets a response to {name}, although its session ended at {ended:.3f}")

    def is_concerned(self, client: str, asked: Asked, name: str) -> bool:
        """Return whether `answered` must see the response to such a request."""
        if name == _AUTHENTICATION:
            return True
        return bool(asked.lost) and name in _CHECKED and self._principals.changed.get(client, -1.0) < asked.at

    def answered(self, connection: int, client: str, asked: Asked, name: str, response: Any) -> None:
        """Check a response. Raises Violation if the client got what it may not have."""
        if name == _AUTHENTICATION:
            self._authenticated(connection, client, asked, response)
            return
        got = next(iter(self._got(asked.lost, name, response)), None)
        if got is not None:
            lost = ", ".join(f"{right.value} {topic}".strip() for right, topic in sorted(asked.lost))
            raise Violation("S20", f"{client}, which has lost {lost} since {asked.at:.3f} or before, {got}")

    def _authenticated(self, connection: int, client: str, asked: Asked, response: Any) -> None:
        if not bytes(response.auth_bytes).startswith(_PROVED):
            return
        if asked.is_rejected and client in self._principals.rejected:
            raise Violation("S20", f"{client} is authenticated with a password that is not its own any more")
        self._expires.pop(connection, None)
        self._should_renew.pop(connection, None)
        if lifetime := response.session_lifetime_ms / 1000:
            self._expires[connection] = self._now() + lifetime
            self._should_renew[connection] = asked.at + lifetime

    def _got(self, lost: frozenset[LostRight], name: str, response: Any) -> Iterator[str]:
        no_group = LostRight(Right.READ_GROUP, "") in lost
        hidden = {topic for right, topic in lost if right is Right.DESCRIBE_TOPIC}
        unreadable = hidden | {topic for right, topic in lost if right is Right.READ_TOPIC}
        if name in _MEMBERS:
            if no_group and response.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED:
                yield f"gets {ErrorCode(response.error_code).name} for {name}"
        elif name == "Fetch":
            for topic in response.responses:
                if self._name(topic) in unreadable and any(partition.records for partition in topic.partitions):
                    yield f"reads {self._name(topic)}"
        elif name == "OffsetCommit":
            for topic in response.topics:
                if no_group or self._name(topic) in unreadable:
                    yield from (f"commits {self._name(topic)}" for each in topic.partitions if not each.error_code)
        elif name == "OffsetFetch":
            for group in response.groups:
                for topic in group.topics:
                    if no_group or self._name(topic) in hidden:
                        told = [each for each in topic.partitions if each.committed_offset >= 0]
                        yield from (f"learns what is committed for {self._name(topic)}" for _ in told)
        else:
            for topic in response.topics:
                if self._name(topic) in hidden and not topic.error_code:
                    yield f"learns of {self._name(topic)}"

    def _name(self, topic: Any) -> str:
        topic_id = getattr(topic, "topic_id", NO_TOPIC_ID)
        if topic_id != NO_TOPIC_ID:
            return self._names().get(topic_id, "")
        return getattr(topic, "name", None) or getattr(topic, "topic", None) or ""
