"""Clients whose process may be killed: when they are garbage collected, they do not warn that they are not closed."""

from __future__ import annotations

from kohort.client import Admin, Consumer, Membership, Producer


class KillableAdmin(Admin):
    """Production's admin client without the warning when it is garbage collected."""

    def __del__(self) -> None:
        pass


class KillableMembership(Membership):
    """Production's membership without the warning when it is garbage collected."""

    def __del__(self) -> None:
        pass


class KillableConsumer(Consumer):
    """Production's consumer without the warning when it is garbage collected."""

    def __del__(self) -> None:
        pass


class KillableProducer(Producer):
    """Production's producer; when it is garbage collected, its buffered records are not written."""

    def __del__(self) -> None:
        pass
