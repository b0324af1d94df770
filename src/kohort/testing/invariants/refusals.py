"""Requests that are refused for good, and go on: the client ignores that it is fenced."""

from collections import deque
from dataclasses import dataclass

from kohort.errors import ErrorCode
from kohort.group_events import Cause, MemberGone
from kohort.testing.events import AnswerSent, GroupChanged, RequestReceived
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import Asked, Connection, Group, Recent, Replaced
from kohort.testing.invariants.violation import Fault, Invariant

_FINAL = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.STALE_MEMBER_EPOCH,
}
"""Errors after which the same request can never succeed."""
_FENCED = 3
_MOST = 256
"""Clients that are refused at the same time are few; one that is forgotten is only found later."""

_Key = tuple[str, str, str, int | None, str]
"""Group, client ID, member ID, generation and kind of a request."""


@dataclass(slots=True)
class _Refused:
    """What was refused first, and how often it was repeated after that answer."""

    answer: AnswerSent
    request: RequestReceived
    code: ErrorCode
    last: AnswerSent
    """The last refusal; `answer` is the first one."""
    times: int = 0
    received: AnswerSent | None = None
    """The first refusal that was followed by a request on its connection: the client has received it."""


class Refusals:
    """Refused requests by group, client, member ID, generation and kind."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._refused: Recent[_Key, _Refused] = Recent(_MOST)

    def arrived(
        self, asked: Asked, group: str, member_id: str, generation: int | None, *, is_commit: bool = False
    ) -> None:
        """Count a request that repeats a refused one."""
        event = asked.event
        found = self._scene.groups.get(group)
        asked.is_of_member = found is not None and member_id in found.members
        key = _key(event, group, member_id, generation)
        refused = self._refused.get(key)
        if refused is None:
            return
        if len(self._scene.connections[event.connection].asked) > 1:
            return  # sent before the answer to another one: its client may not know of the refusal
        if refused.received is None and refused.last.connection == event.connection:
            refused.received = refused.last
        limits, lasted = self._scene.limits, event.at - (refused.received or refused.answer).at
        if is_commit and lasted < limits.in_flight_ms:
            return  # after a lost connection, librdkafka sends at once all commits that have no answer
        refused.times += 1
        most = limits.commit_repeats if is_commit else limits.repeats
        if refused.times < most:
            # The network may lose an answer that was sent, and then the connection ends. It does not lose `most`.
            if refused.times < limits.slow_repeats or refused.received is None:
                return
            if lasted < self._patience(group, member_id):
                return
        name = key[-1].removesuffix("Request")
        whose = "its member id alone" if generation is None else f"generation or epoch {generation}"
        self._scene.report(
            Invariant.FENCED_MEMBERS_JOIN,
            Fault.CLIENT,
            group,
            event.client_id,
            f"Client {event.client_id!r} sent {name} as member {member_id!r} of group {group} {refused.times + 1} times"
            f" with {whose}, for {lasted} ms after the answer {refused.code.name}, and did not join again.",
            "The answer says that this member or generation is over; only a new join can succeed.",
            (refused.request, refused.received or refused.answer, event),
            key=f"{member_id} {generation} {name}",
        )

    def answered(
        self, asked: Asked, answer: AnswerSent, group: str, member_id: str, generation: int | None, code: int
    ) -> None:
        """Record the error code of an answer that the client received."""
        if code not in _FINAL or not member_id:
            return
        event = asked.event
        client = self._scene.clients.get(event.client_id)
        former = None if client is None else client.former
        if former is not None and former.member_id == member_id and former.told is None:
            former.told = answer
        found = self._scene.groups.get(group)
        if found is not None:
            if member_id in found.members:
                found.members[member_id].is_free = True
            self._fenced(asked, answer, found, member_id, code)
        key = _key(event, group, member_id, generation)
        if key not in self._refused:
            self._refused[key] = _Refused(answer, event, ErrorCode(code), answer)
        self._refused[key].last = answer

    def accepted(self, asked: Asked, group: str, member_id: str, generation: int | None) -> None:
        """Forget a refusal after which a coordinator knew the member: the one that refused had lost its log."""
        self._refused.pop(_key(asked.event, group, member_id, generation), None)

    def _fenced(self, asked: Asked, answer: AnswerSent, group: Group, member_id: str, code: int) -> None:
        """Count a member of an instance ID that lived when another one replaced it."""
        event, instance_id = asked.event, None
        if code == ErrorCode.FENCED_INSTANCE_ID:
            instance_id = getattr(event.request, "group_instance_id", None)
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:  # in answers to requests without the instance ID
            match group.gone.get(member_id):
                case GroupChanged(event=MemberGone(cause=Cause.STATIC_MEMBER_RETURNED, member=member)):
                    instance_id = member.instance_id
        if instance_id is None:
            return
        replaced = Replaced(group.group_id, member_id, instance_id, answer)
        if not asked.is_of_member:
            self._count_replaced(replaced, event)
            return
        # The request waited, for example a heartbeat that was held. Its client may have died since with its machine,
        # whose connections stay open. What is sent on those that are older than the request shows that it lives; one
        # that is newer may be that of the process that replaced it.
        client = self._scene.clients.get(event.client_id)
        for number in () if client is None else client.connections:
            connection = self._scene.connections.get(number)
            if connection is not None and connection.since < asked.number:
                connection.replaced.append(replaced)

    def lives(self, connection: Connection, event: RequestReceived) -> None:
        """Count the members of a client that was not known to live when they were replaced: it sends a request."""
        for replaced in connection.replaced:
            self._count_replaced(replaced, event)
        connection.replaced.clear()

    def _count_replaced(self, replaced: Replaced, event: RequestReceived) -> None:
        """Count a replaced member, which lived, as this request shows."""
        group = self._scene.groups.get(replaced.group_id)
        if group is None or replaced.is_counted:
            return
        replaced.is_counted = True
        member_id, instance_id, at = replaced.member_id, replaced.instance_id, self._scene.now
        fenced = group.fenced.get(instance_id)
        if fenced is None:
            fenced = group.fenced[instance_id] = deque(maxlen=_FENCED)
        if not any(member_id == other for _, other, _ in fenced):
            fenced.append((at, member_id, replaced.answer))
        if len(fenced) == _FENCED and at - fenced[0][0] <= self._scene.limits.storm_ms:
            self._scene.report(
                Invariant.ONE_INSTANCE,
                Fault.CLIENT,
                group.group_id,
                event.client_id,
                f"{_FENCED} members of group {group.group_id} with the instance id {instance_id!r} were replaced "
                f"within {at - fenced[0][0]} ms while they lived.",
                "Two clients use one instance id and fence each other.",
                [each for *_, each in fenced],
                key=instance_id,
            )

    def joined(self, group: str, client_id: str) -> None:
        """Forget what was refused to a client that joins again."""
        for key in [key for key in self._refused if key[0] == group and key[1] == client_id]:
            del self._refused[key]

    def _patience(self, group: str, member_id: str) -> int:
        """Return the time within which a client must react: its application may be busy until it must poll."""
        found = self._scene.groups.get(group)
        member = None if found is None else found.members.get(member_id)
        patience = self._scene.limits.patience_ms
        return patience if member is None or member.rebalance_ms is None else max(patience, member.rebalance_ms)


def _key(event: RequestReceived, group: str, member_id: str, generation: int | None) -> _Key:
    return group, event.client_id, member_id, generation, type(event.request).__name__
