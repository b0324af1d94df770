"""The answer to a question about a group that does not exist."""

from difflib import get_close_matches

from kohort.cli.running import admin_client

_MOST = 3


async def no_group(servers: str, group: str) -> str:
    """Return a sentence that names the groups with similar names."""
    async with admin_client(servers) as admin:
        known = [listing.group_id for listing in await admin.list_groups()]
    return f"There is no group {group}; {similar(group, known)}"


def similar(group: str, known: list[str]) -> str:
    """Return the end of the sentence: groups with similar names, or how to list all."""
    close = get_close_matches(group, known, _MOST) or get_close_matches(group.lower(), known, _MOST)
    return f"did you mean {' or '.join(close)}?" if close else "see kohort group list."
