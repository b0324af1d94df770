"""Clients whose process may be killed: garbage that is left of them then is no client that somebody forgot to close."""

from __future__ import annotations

from kohort.client import Admin, Consumer, Membership, Producer


class MortalAdmin(Admin):
    """As production's, without the warning when it is garbage."""

    def __del__(self) -> None:
        pass


class MortalMembership(Membership):
    """As production's, without the warning when it is garbage."""

    def __del__(self) -> None:
        pass


class MortalConsumer(Consumer):
    """As production's, without the warning when it is garbage."""

    def __del__(self) -> None:
        pass


class MortalProducer(Producer):
    """As production's, but when it is garbage, nobody writes what it holds."""

    def __del__(self) -> None:
        pass
