"""Names of a group's members that tell them apart."""

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.client import MemberDescription


def member_names(members: "Collection[MemberDescription]") -> dict[str, str]:
    """Return a name by member ID: the client ID if no other member has it, else the instance ID or the member ID."""
    alike = Counter(member.client_id for member in members)
    return {
        member.member_id: member.client_id if alike[member.client_id] == 1 else member.instance_id or member.member_id
        for member in members
    }
