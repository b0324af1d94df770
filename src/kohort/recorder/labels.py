"""Short names for members, for people: the client id, and more only where that is not enough."""

from collections import Counter
from collections.abc import Iterable

from kohort.recorder.record import RebalanceRecord


def labels(records: Iterable[RebalanceRecord]) -> dict[str, str]:
    """A label for each member id.

    A member that restarted under a new member id keeps its label, as it is the same program to whoever runs it; members
    that shared a client id at the same time are told apart by their instance id or the end of their member id.
    """
    shared: set[str] = set()
    members = {}
    for record in records:
        for together in (record.before, record.after):
            counts = Counter(member.client_id for member in together)
            shared.update(client_id for client_id, count in counts.items() if count > 1)
            members.update({member.member_id: member for member in together})
    return {
        member_id: f"{member.client_id}/{member.instance_id or member_id[-4:]}"
        if member.client_id in shared
        else member.client_id or member_id
        for member_id, member in members.items()
    }


def label_of(known: dict[str, str], member_id: str | None) -> str:
    """The label, or what can be said of a member that never was in a generation."""
    if member_id is None:
        return "–"
    # Member ids begin with the client id, and end with a random one.
    return known.get(member_id) or (member_id[:-37] if len(member_id) > 37 else member_id)


def seconds(milliseconds: float | None) -> str:
    """Three significant places, or a dash for what is not known."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.2f} s" if milliseconds < 100_000 else f"{milliseconds / 1000:,.0f} s"
