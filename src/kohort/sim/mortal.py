"""Clients whose process may be killed: garbage that is left of them then is no client that somebody forgot to close."""

from __future__ import annotations

from kohort.client import Admin, Membership


class MortalAdmin(Admin):
    """As production's, without the warning when it is garbage."""

    def __del__(self) -> None:
        pass


class MortalMembership(Membership):
    """As production's, without the warning when it is garbage."""

    def __del__(self) -> None:
        pass
