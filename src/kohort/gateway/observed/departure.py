"""Why a member left a group, as a gateway sees it."""

from typing import NamedTuple

from kohort.group_events import Cause
from kohort.model import Millis


class Departure(NamedTuple):
    """Cause of a departure. A member whose connection was lost is silent since it was closed."""

    cause: Cause
    silent_since: Millis | None = None


LEAVES = Departure(Cause.MEMBER_LEFT)
"""Departure of a member that sent the request to leave itself."""
