"""Short display names for members: the client ID, extended only where it is ambiguous."""

from collections import Counter
from collections.abc import Iterable

from kohort.recorder.record import RebalanceRecord


def labels(records: Iterable[RebalanceRecord]) -> dict[str, str]:
    """Return a label for each member ID.

    A member that restarts under a new member ID keeps its label, because users see it as the same
    program. Members that share a client ID at the same time are distinguished by instance ID or by
    the last four characters of the member ID.
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
    """Return the member's label. A member that was in no generation gets its client ID or its member ID."""
    if member_id is None:
        return "–"
    # A member ID consists of the client ID, a hyphen, and a UUID of 36 characters.
    return known.get(member_id) or (member_id[:-37] if len(member_id) > 37 else member_id)


def seconds(milliseconds: float | None) -> str:
    """Format a duration with up to three significant digits, or as a dash if it is unknown."""
    if milliseconds is None:
        return "–"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:.2f} s" if milliseconds < 100_000 else f"{milliseconds / 1000:,.0f} s"
